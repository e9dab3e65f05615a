// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/digest_comparison.h"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rpc/member/checkpoints/digest_history.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using tree::Zxid;

constexpr int64_t kTickMs = 100;

// Members that apply the same commands; the trees of some differ from a given zxid on.
class Cluster {
 public:
  Cluster(uint32_t voters, uint32_t learners, DigestComparisonOptions options = {}) {
    for (uint32_t id = 1; id <= voters + learners; ++id) {
      auto& group = id <= voters ? membership.voters : membership.learners;
      group.push_back(MemberId(id));
      members_[id] = std::make_unique<Member>(this, MemberId(id), options);
    }
  }

  struct Member : public DigestComparison::Actions {
    Member(Cluster* c, MemberId id, DigestComparisonOptions options)
        : cluster(c), self(id), comparison(id, options, this) {}

    std::optional<uint64_t> DigestAt(Zxid zxid) override {
      CHECK(zxid <= applied);
      if (zxid < known_from) return std::nullopt;
      const bool differs = differs_from != Zxid(0) && zxid >= differs_from;
      return static_cast<uint64_t>(zxid.value()) * 1000 + (differs ? difference : 0);
    }
    void SendDigest(MemberId to, const DigestNote& note) override {
      cluster->sent.push_back(note);
      cluster->notes_.push_back({self, to, note});
    }
    void OnDiverged(const Divergence& d) override { diverged.push_back(d); }
    void OnOtherDiverged(MemberId member, const Divergence& d) override {
      others.emplace_back(member.value(), d);
    }
    void OnUndecided(Zxid, const DigestComparison::Digests& digests) override {
      undecided.push_back(digests);
    }

    Cluster* const cluster;
    const MemberId self;
    Zxid applied;
    Zxid known_from;
    Zxid differs_from;
    uint64_t difference = 1;
    bool down = false;
    std::vector<Divergence> diverged;
    std::vector<std::pair<uint32_t, Divergence>> others;
    std::vector<DigestComparison::Digests> undecided;
    DigestComparison comparison;
  };

  Member& operator[](uint32_t id) { return *members_.at(id); }
  void Apply(Zxid zxid) {
    for (auto& [id, member] : members_) Apply(id, zxid);
  }
  void Apply(uint32_t id, Zxid zxid) {
    (*this)[id].applied = zxid;
    (*this)[id].comparison.OnApplied(zxid);
  }
  void Pass(int64_t ms) {
    for (int64_t passed = 0; passed < ms; passed += kTickMs) {
      for (auto& [id, member] : members_) {
        if (!member->down) member->comparison.OnTick(kTickMs, id == leader, membership);
      }
      Deliver();
    }
  }
  void Deliver() {
    while (!notes_.empty()) {
      const Note note = notes_.front();
      notes_.pop_front();
      Member& to = (*this)[note.to.value()];
      if (to.down || (*this)[note.from.value()].down || (loses && loses())) continue;
      to.comparison.OnNote(note.from, note.note, membership);
    }
  }

  std::function<bool()> loses;
  uint32_t leader = 1;
  consensus::Membership membership;
  std::vector<DigestNote> sent;

 private:
  struct Note {
    MemberId from;
    MemberId to;
    DigestNote note;
  };
  std::map<uint32_t, std::unique_ptr<Member>> members_;
  std::deque<Note> notes_;
};

TEST_CASE("equal trees are compared at the same zxid, after time and after entries") {
  Cluster cluster(3, 1);
  cluster.Apply(Zxid(10));
  cluster.Pass(900);
  CHECK(cluster.sent.empty());
  cluster.Pass(100);
  for (uint32_t id : {1, 2, 3, 4}) CHECK(cluster[id].comparison.compared() == Zxid(10));
  cluster.Apply(Zxid(12));
  cluster.Pass(900);
  CHECK(cluster[2].comparison.compared() == Zxid(10));
  cluster.Apply(Zxid(10'010));
  cluster.Pass(100);
  for (uint32_t id : {1, 2, 3, 4}) {
    CHECK(cluster[id].comparison.compared() == Zxid(10'010));
    CHECK(cluster[id].comparison.mismatches() == 0);
  }
}

TEST_CASE("what has not changed is compared once") {
  Cluster cluster(3, 0);
  cluster.Apply(Zxid(10));
  cluster.Pass(1000);
  const size_t sent = cluster.sent.size();
  CHECK(sent == 8);  // two questions, answers, verdicts, confirmations
  cluster.Pass(600'000);
  CHECK(cluster.sent.size() == sent);
}

TEST_CASE("a voter, a learner and a leader that differ from a majority learn of it") {
  const uint32_t wrong = GENERATE(1, 2, 3, 4);
  Cluster cluster(3, 1);
  cluster.Apply(Zxid(10));
  cluster.Pass(1000);
  cluster[wrong].differs_from = Zxid(15);
  cluster.Apply(Zxid(20));
  cluster.Pass(1000);
  for (uint32_t id : {1, 2, 3, 4}) {
    CAPTURE(wrong, id);
    auto& member = cluster[id];
    if (id == wrong) {
      CHECK(member.diverged == std::vector{Divergence{20, 20'001, 20'000}});
      CHECK(member.comparison.compared() == Zxid(10));
      CHECK(member.comparison.mismatches() == 1);
    } else {
      CHECK(member.diverged.empty());
      CHECK(member.comparison.compared() == Zxid(20));
    }
  }
  CHECK(cluster[1].others.size() == (wrong == 1 ? 0 : 1));
}

TEST_CASE("a member that is behind is compared when it gets there, whether it was asked or not") {
  Cluster cluster(3, 0);
  cluster[3].differs_from = Zxid(15);
  cluster.Apply(1, Zxid(20));
  cluster.Apply(2, Zxid(20));
  cluster.Pass(1000);
  CHECK(cluster[2].comparison.compared() == Zxid(20));
  CHECK(cluster[3].diverged.empty());
  cluster.Apply(1, Zxid(30));
  cluster.Apply(2, Zxid(30));
  cluster.Pass(1000);
  CHECK(cluster[2].comparison.compared() == Zxid(30));
  cluster.Apply(3, Zxid(25));
  CHECK(cluster[3].diverged == std::vector{Divergence{20, 20'001, 20'000}});
}

TEST_CASE("a member that comes back to a quiet cluster is told what the majority has") {
  Cluster cluster(3, 0);
  cluster[3].down = true;
  cluster.Apply(Zxid(20));
  cluster.Pass(5000);
  CHECK(cluster[2].comparison.compared() == Zxid(20));
  cluster[3].down = false;
  cluster[3].differs_from = Zxid(15);
  cluster[1].comparison.OnPeerUp(MemberId(3));
  cluster.Deliver();
  CHECK(cluster[3].diverged.size() == 1);
}

TEST_CASE("what is lost on the way is said again") {
  Cluster cluster(3, 1);
  cluster.Apply(Zxid(20));
  for (int seed = 0; seed < 8; ++seed) {
    cluster.Pass(1000);
    // Different messages are lost each time.
    cluster.loses = [seed, count = 0]() mutable { return (++count + seed) % 8 < 4; };
    cluster.Apply(Zxid(30 + seed));
    cluster.Pass(20'000);
    for (uint32_t id : {1, 2, 3, 4}) {
      CHECK(cluster[id].comparison.compared() == Zxid(30 + seed));
    }
  }
}

TEST_CASE("a digest that is not known any more decides nothing") {
  Cluster cluster(3, 0);
  cluster[3].known_from = Zxid(25);
  cluster[3].differs_from = Zxid(15);
  cluster.Apply(Zxid(20));
  cluster[3].applied = Zxid(25);
  cluster[3].comparison.OnApplied(Zxid(25));
  cluster.Pass(1000);
  CHECK(cluster[2].comparison.compared() == Zxid(20));
  CHECK(cluster[3].diverged.empty());
  CHECK(cluster[1].others.empty());
}

TEST_CASE("without a majority nobody is wrong, and that is said again and again") {
  Cluster cluster(2, 0);
  cluster[2].differs_from = Zxid(15);
  cluster.Apply(Zxid(20));
  cluster.Pass(1000);
  REQUIRE(cluster[1].undecided.size() == 1);
  CHECK(cluster[1].undecided[0].at(MemberId(2)) == 20'001);
  CHECK(cluster[1].comparison.undecided());
  cluster.Pass(50'000);
  CHECK(cluster[1].undecided.size() == 1);
  // The missing majority is reported at the same rate whether nothing or much is applied.
  cluster.Pass(70'000);
  CHECK(cluster[1].undecided.size() == 3);
  for (int64_t zxid = 30; zxid < 150; ++zxid) {
    cluster.Apply(Zxid(zxid));
    cluster.Pass(1000);
  }
  CHECK(cluster[1].undecided.size() == 5);
  CHECK(cluster[1].diverged.empty());
  CHECK(cluster[2].diverged.empty());
  CHECK(cluster[1].comparison.compared() == Zxid(0));
}

TEST_CASE("a difference waits for the voter that can decide it") {
  Cluster cluster(3, 0);
  cluster[1].differs_from = Zxid(15);
  cluster[3].down = true;
  cluster.Apply(Zxid(20));
  cluster.Pass(2000);
  CHECK(cluster[1].undecided.empty());
  cluster.Pass(2000);
  CHECK(cluster[1].undecided.size() == 1);
  CHECK(cluster[1].diverged.empty());
  cluster[3].down = false;
  cluster.Pass(2000);
  CHECK(cluster[1].diverged.size() == 1);
  CHECK_FALSE(cluster[1].comparison.undecided());
}

TEST_CASE("three trees that all differ are nobody's fault, four of which three agree one's") {
  Cluster cluster(3, 0);
  cluster[1].differs_from = cluster[2].differs_from = Zxid(1);
  cluster[2].difference = 2;
  cluster.Apply(Zxid(20));
  cluster.Pass(1000);
  CHECK(cluster[1].undecided.size() == 1);
  Cluster larger(5, 0);
  larger[1].differs_from = larger[2].differs_from = Zxid(1);
  larger[2].difference = 2;
  larger.Apply(Zxid(20));
  larger.Pass(1000);
  CHECK(larger[1].diverged.size() == 1);
  CHECK(larger[2].diverged.size() == 1);
  CHECK(larger[3].diverged.empty());
}

TEST_CASE("during a change of voters both majorities have to agree") {
  Cluster cluster(4, 0);
  cluster.membership.voters = {MemberId(2), MemberId(3), MemberId(4)};
  cluster.membership.outgoing = {MemberId(1), MemberId(2)};
  cluster[1].differs_from = Zxid(15);
  cluster.Apply(Zxid(20));
  cluster.Pass(1000);
  CHECK(cluster[1].diverged.empty());
  CHECK(cluster[1].undecided.size() == 1);
  cluster.membership.outgoing.clear();
  cluster.Pass(1000);
  CHECK(cluster[1].diverged.size() == 1);
}

TEST_CASE("a leader that is alone compares nothing, nor does one that leads no more") {
  Cluster alone(1, 0);
  alone.Apply(Zxid(20));
  alone.Pass(10'000);
  CHECK(alone[1].comparison.compared() == Zxid(0));
  Cluster cluster(3, 0);
  cluster.leader = 0;
  cluster.Apply(Zxid(20));
  cluster.Pass(10'000);
  CHECK(cluster.sent.empty());
}

TEST_CASE("a history knows the last digests, and none of before a restart") {
  DigestHistory history(4);
  CHECK(history.At(Zxid(0)) == std::nullopt);
  history.Restart(Zxid(7), 70);
  CHECK(history.At(Zxid(6)) == std::nullopt);
  CHECK(history.At(Zxid(7)) == 70);
  CHECK(history.At(Zxid(8)) == std::nullopt);
  for (int64_t zxid = 8; zxid < 30; ++zxid) {
    const uint64_t digest = static_cast<uint64_t>(zxid) * 10;
    history.Add({&digest, 1});
    for (int64_t at = 0; at < 40; ++at) {
      const bool known = at >= 7 && at <= zxid && at > zxid - 4;
      CHECK(history.At(Zxid(at)) == (known ? std::optional<uint64_t>(at * 10) : std::nullopt));
    }
  }
  history.Restart(Zxid(100), 1);
  const uint64_t two[] = {2, 3};
  history.Add(two);
  CHECK(history.At(Zxid(99)) == std::nullopt);
  CHECK(history.At(Zxid(100)) == 1);
  CHECK(history.At(Zxid(102)) == 3);
}

}  // namespace
}  // namespace quorate::rpc
