// SPDX-License-Identifier: Apache-2.0

// Tests options, bounds and invalid messages, which neither the tests of the paper nor the scripts
// cover.
#include "consensus/core/raft.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

RaftOptions Options(uint32_t self, uint32_t voters, uint32_t learners = 0) {
  RaftOptions options;
  options.self = MemberId{self};
  for (uint32_t i = 1; i <= voters; ++i) options.membership.voters.push_back(MemberId{i});
  for (uint32_t i = 1; i <= learners; ++i) {
    options.membership.learners.push_back(MemberId{voters + i});
  }
  options.election_ticks = 10;
  options.heartbeat_ticks = 3;
  options.version = kVersionBase;  // no entries but those of the test
  return options;
}

// A single member, with the operations that the tests below need.
struct Alone {
  explicit Alone(RaftOptions options, TestMember::Disk disk = {})
      : member(std::move(options), std::move(disk), &random) {
    member.Collect();
  }
  // Becomes the leader of a cluster of one voter.
  void Lead() {
    member.raft().Tick();
    Settle();
    REQUIRE(member.status.leader_established);
  }
  void Settle() {
    do {
      member.Collect();
      while (member.can_apply()) member.ApplyOne();
      if (member.unpersisted() > 0) member.Persist(member.unpersisted());
    } while (member.raft().HasOutput());
    member.raft().CheckInvariants();
  }
  template <typename Body>
  void Receive(uint32_t from, uint32_t to, uint64_t term, Body body) {
    member.raft().Step({MemberId{from}, MemberId{to}, Term{term}, std::move(body)});
    member.raft().CheckInvariants();
  }

  FixedRandom random{0};
  TestMember member;
};

std::vector<Slice> Payloads(size_t count, size_t bytes) {
  return std::vector<Slice>(count, Slice(std::string(bytes, 'x')));
}

TEST_CASE("options are validated, and the error names the field") {
  CHECK(Options(1, 3).Validate().ok());
  CHECK(Options(4, 3, 1).Validate().ok());
  auto field = [](auto change) {
    RaftOptions options = Options(1, 3, 1);
    change(&options);
    const absl::Status status = options.Validate();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(field([](RaftOptions* o) { o->self = MemberId{255}; }), Contains("self"));
  CHECK_THAT(field([](RaftOptions* o) { o->membership.voters.clear(); }), Contains("voters"));
  CHECK_THAT(field([](RaftOptions* o) {
               o->membership.voters = {MemberId{2}, MemberId{1}};
             }),
             Contains("voters"));
  CHECK_THAT(field([](RaftOptions* o) { o->membership.voters.push_back(MemberId{255}); }),
             Contains("255"));
  CHECK_THAT(field([](RaftOptions* o) { o->membership.learners = {MemberId{2}}; }),
             Contains("learners"));
  CHECK_THAT(field([](RaftOptions* o) { o->heartbeat_ticks = 10; }), Contains("heartbeat_ticks"));
  CHECK_THAT(field([](RaftOptions* o) { o->heartbeat_ticks = 0; }), Contains("heartbeat_ticks"));
  CHECK_THAT(field([](RaftOptions* o) { o->apply_bytes_max = 0; }), Contains("apply_bytes_max"));
  CHECK_THAT(field([](RaftOptions* o) { o->append_bytes_max = o->inflight_bytes_max + 1; }),
             Contains("append_bytes_max"));
}

TEST_CASE("the first entry of a log has the cluster id, later no-ops have no payload") {
  RaftOptions options = Options(1, 1);
  options.cluster_id_if_new = "the cluster";
  Alone alone(options);
  alone.Lead();
  CHECK(alone.member.applied()[0].payload == Slice("the cluster"));
  alone.member.Crash({});
  alone.member.Restart(Index{1});
  alone.Lead();
  REQUIRE(alone.member.applied().size() == 2);
  CHECK(alone.member.applied()[1].kind == EntryKind::kNoOp);
  CHECK(alone.member.applied()[1].payload.empty());
}

TEST_CASE("the bytes not committed are bounded, except for the first proposal") {
  RaftOptions options = Options(1, 1);
  options.uncommitted_bytes_max = 300;
  Alone alone(options);
  alone.Lead();
  Raft& raft = alone.member.raft();
  CHECK(raft.Propose(Payloads(1, 1000)).ok());
  CHECK(absl::IsResourceExhausted(raft.Propose(Payloads(1, 0))));
  alone.Settle();
  // All entries are accepted or none: 3 * (60 + 40) bytes fit, four entries do not.
  CHECK(raft.Propose(Payloads(1, 60)).ok());
  CHECK(absl::IsResourceExhausted(raft.Propose(Payloads(3, 60))));
  CHECK(raft.last_index() == Index{3});
  CHECK(raft.Propose(Payloads(2, 60)).ok());
  CHECK(raft.last_index() == Index{5});
  CHECK(raft.Propose({}).ok());
}

TEST_CASE("a payload larger than an entry may be is refused") {
  Alone alone(Options(1, 1));
  alone.Lead();
  CHECK(absl::IsInvalidArgument(alone.member.raft().Propose(Payloads(1, (64u << 20) + 1))));
  CHECK(alone.member.raft().last_index() == Index{1});
}

TEST_CASE("several proposals before an output are sent in one request") {
  Alone alone(Options(1, 1, 1));
  alone.Lead();
  alone.Receive(2, 1, 1, AppendAccepted{Index{1}, Index{1}});
  alone.Settle();
  alone.member.outbox.clear();
  for (int i = 0; i < 3; ++i) REQUIRE(alone.member.raft().Propose(Payloads(1, 5)).ok());
  alone.member.Collect();
  REQUIRE(alone.member.outbox.size() == 1);
  CHECK(std::get<AppendRequest>(alone.member.outbox[0].body).entries.size() == 3);
}

TEST_CASE("apply is handed out in ranges, two at a time") {
  RaftOptions options = Options(1, 1);
  options.apply_bytes_max = 200;
  Alone alone(options);
  alone.Lead();
  Raft& raft = alone.member.raft();
  REQUIRE(raft.Propose(Payloads(7, 60)).ok());
  alone.member.Collect();
  alone.member.Persist();
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  while (raft.HasOutput()) {
    const Output output = raft.TakeOutput();
    REQUIRE(output.apply);
    CHECK(output.apply->entries.size() == output.apply->last - output.apply->first + 1);
    ranges.emplace_back(output.apply->first.value(), output.apply->last.value());
  }
  CHECK(ranges == std::vector<std::pair<uint64_t, uint64_t>>{{2, 3}, {4, 5}});
  raft.Applied(Index{3});
  REQUIRE(raft.HasOutput());
  CHECK(raft.TakeOutput().apply->last == Index{7});
  CHECK_FALSE(raft.HasOutput());
}

TEST_CASE("memory is trimmed to its bound; entries not applied stay up to a second bound") {
  RaftOptions options = Options(1, 1);
  options.cached_bytes_max = 1;
  options.uncommitted_bytes_max = 1000;
  options.apply_bytes_max = 100;
  Alone alone(options);
  alone.Lead();
  // The state machine stalls: ranges wait, and those that are far behind are left to the log.
  for (int i = 0; i < 30; ++i) {
    REQUIRE(alone.member.raft().Propose(Payloads(1, 60)).ok());
    alone.member.Collect();
    alone.member.Persist();
    alone.member.Collect();
  }
  alone.Settle();
  CHECK(alone.member.applied().size() == 31);
  CHECK(alone.member.ranges_from_log > 0);
}

TEST_CASE("the commit hint is written when it has grown enough, or term or vote change") {
  RaftOptions options = Options(1, 1);
  options.commit_hint_entries = 3;
  Alone alone(options);
  alone.Lead();
  for (uint64_t i = 2; i <= 5; ++i) {
    REQUIRE(alone.member.raft().Propose(Payloads(1, 5)).ok());
    alone.Settle();
    // The hint covers entries before the batch: entry 3 was durable when entry 4 was written.
    CHECK(alone.member.disk().hard_state.commit == (i < 4 ? Index{0} : Index{3}));
  }
  alone.member.Crash({});
  alone.member.Restart(Index{0});
  CHECK(alone.member.raft().commit_index() == Index{3});
}

TEST_CASE("a learner votes if asked, and never campaigns") {
  Alone learner(Options(3, 2, 1));
  for (int i = 0; i < 100; ++i) learner.member.raft().Tick();
  CHECK(learner.member.raft().role() == Role::kFollower);
  learner.Receive(1, 3, 5, TimeoutNow{});
  CHECK(learner.member.raft().role() == Role::kFollower);
  learner.Receive(1, 3, 6, VoteRequest{});
  learner.Settle();
  REQUIRE(learner.member.outbox.size() == 1);
  CHECK(std::get<VoteResponse>(learner.member.outbox[0].body).granted);
}

TEST_CASE("a follower that hears from a leader ignores votes, unless for a transfer") {
  Alone alone(Options(1, 3));
  alone.Receive(2, 1, 1, Heartbeat{});
  alone.Settle();
  alone.member.outbox.clear();
  for (bool pre_vote : {true, false}) {
    alone.Receive(3, 1, 2, VoteRequest{pre_vote, false, {}, {}});
    alone.Settle();
    CHECK(alone.member.outbox.empty());
    CHECK(alone.member.raft().term() == Term{1});
  }
  alone.Receive(3, 1, 2, VoteRequest{false, true, {}, {}});
  alone.Settle();
  REQUIRE(alone.member.outbox.size() == 1);
  CHECK(std::get<VoteResponse>(alone.member.outbox[0].body).granted);
}

TEST_CASE("messages from unknown members, for other members, and invalid messages change nothing") {
  TestMember::Disk disk{{Term{2}, kNoMember, Index{0}}, {}};
  disk.log.push_back({Index{1}, Term{2}, EntryKind::kCommand, Slice("a")});
  Alone alone(Options(1, 3), disk);
  const std::string before = alone.member.raft().ToString();
  const Entry entry{Index{2}, Term{2}, EntryKind::kCommand, Slice("b")};
  alone.Receive(0, 1, 5, Heartbeat{});
  alone.Receive(255, 1, 5, Heartbeat{});
  alone.Receive(1, 1, 5, Heartbeat{});
  alone.Receive(2, 3, 5, Heartbeat{});
  // These are invalid: a gap, a decreasing term, a term above the sender's, and a term at index 0.
  alone.Receive(2, 1, 2, AppendRequest{Index{0}, Term{0}, {}, {entry}});
  alone.Receive(2, 1, 2, AppendRequest{Index{1}, Term{2}, {}, {{Index{2}, Term{1}, {}, {}}}});
  alone.Receive(2, 1, 2, AppendRequest{Index{1}, Term{2}, {}, {{Index{2}, Term{3}, {}, {}}}});
  alone.Receive(2, 1, 2, AppendRequest{Index{0}, Term{2}, {}, {}});
  alone.Receive(2, 1, 9, VoteRequest{false, false, Index{5}, Term{10}});
  // These answer requests that were never sent.
  alone.Receive(2, 1, 2, AppendAccepted{Index{1}, Index{1}});
  alone.Receive(2, 1, 2, HeartbeatResponse{ReadRound{4}});
  alone.Receive(2, 1, 2, ReadIndexResponse{4, Index{1}});
  alone.Receive(2, 1, 2, ReadIndexRequest{4});
  alone.Receive(2, 1, 2, VoteResponse{false, true});
  alone.Receive(2, 1, 3, VoteResponse{true, true});
  alone.member.raft().LogRead(MemberId{2}, {entry});
  alone.member.raft().PeerUnreachable(MemberId{2});
  CHECK(alone.member.raft().ToString() == before);
  CHECK_FALSE(alone.member.raft().HasOutput());
  // A heartbeat whose commit index is beyond the log is accepted, but commits nothing.
  alone.Receive(2, 1, 2, Heartbeat{Index{7}, ReadRound{1}});
  CHECK(alone.member.raft().leader() == MemberId{2});
  CHECK(alone.member.raft().commit_index() == Index{0});
}

TEST_CASE("a leader ignores acknowledgements of entries that it never sent") {
  Alone alone(Options(1, 3));
  while (alone.member.raft().role() == Role::kFollower) alone.member.raft().Tick();
  alone.Receive(2, 1, 1, VoteResponse{true, true});
  alone.Settle();
  alone.Receive(2, 1, 1, VoteResponse{false, true});
  alone.Settle();
  REQUIRE(alone.member.raft().role() == Role::kLeader);
  alone.Receive(2, 1, 1, AppendAccepted{Index{9}, Index{9}});
  alone.Receive(2, 1, 1, AppendAccepted{Index{1}, Index{0}});
  alone.Receive(2, 1, 1, AppendRejected{Index{9}, Index{8}, Term{1}});
  alone.Receive(2, 1, 1, HeartbeatResponse{ReadRound{9}});
  CHECK(alone.member.raft().match_index(MemberId{2}) == Index{0});
  CHECK(alone.member.raft().commit_index() == Index{0});
  CHECK(alone.member.raft().match_index(MemberId{1}) == Index{1});
}

TEST_CASE("entries of an earlier leader are acknowledged to the next leader once durable") {
  Alone alone(Options(1, 3));
  const Entry entry{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  alone.Receive(2, 1, 1, AppendRequest{{}, {}, {}, {entry}});
  alone.member.Collect();
  // The log thread sends the acknowledgement of the entry.
  CHECK_FALSE(alone.member.raft().PersistWaits());
  // The write is in progress while the next leader finds its entry here.
  alone.Receive(3, 1, 2, AppendRequest{Index{1}, Term{1}, {}, {}});
  alone.member.Collect();
  // No message to this leader waits for the write, so the driver has to wake up for it.
  CHECK(alone.member.raft().PersistWaits());
  REQUIRE(alone.member.outbox.size() == 1);
  CHECK(std::get<AppendAccepted>(alone.member.outbox[0].body).match_index == Index{0});
  alone.Settle();
  const Message& last = alone.member.outbox.back();
  CHECK(last.to == MemberId{3});
  CHECK(last.term == Term{2});
  CHECK(std::get<AppendAccepted>(last.body).match_index == Index{1});
  CHECK_FALSE(alone.member.raft().PersistWaits());
}

TEST_CASE("nothing is acknowledged to a leader whose term is not durable yet") {
  Alone alone(Options(1, 3));
  const Entry entry{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  alone.Receive(2, 1, 1, AppendRequest{{}, {}, {}, {entry}});
  alone.Settle();
  alone.member.outbox.clear();
  // The entry is durable, but the term of the request is not.
  alone.Receive(3, 1, 5, AppendRequest{Index{1}, Term{1}, {}, {}});
  for (int i = 0; i < 2; ++i) {
    alone.member.Collect();
    REQUIRE(alone.member.outbox.size() == 1);
    CHECK(std::get<AppendAccepted>(alone.member.outbox[0].body).match_index == Index{0});
    alone.member.outbox.clear();
    alone.Receive(3, 1, 5, AppendRequest{Index{1}, Term{1}, {}, {}});
  }
  alone.member.outbox.clear();
  alone.Settle();
  CHECK(std::get<AppendAccepted>(alone.member.outbox.back().body).match_index == Index{1});
}

// Returns the disk of a follower that acknowledged entries 2 and 3 of term 2 and lost them, because
// its disk had falsely reported them as durable. It has entries of term 1 in their places.
TestMember::Disk DiskThatForgot() {
  TestMember::Disk disk{{Term{2}, kNoMember, Index{1}}, {}};
  for (uint64_t i = 1; i <= 3; ++i) {
    disk.log.push_back({Index{i}, Term{1}, EntryKind::kCommand, Slice("of term 1")});
  }
  return disk;
}

TEST_CASE("a heartbeat commits only entries that were compared with the leader's log") {
  Alone alone(Options(1, 3), DiskThatForgot());
  // The leader's match index is the one that this member acknowledged before its restart.
  alone.Receive(2, 1, 2, Heartbeat{Index{3}, ReadRound{1}});
  CHECK(alone.member.raft().commit_index() == Index{1});
  // The member commits as far as the logs are known to agree, whatever entries follow.
  alone.Receive(2, 1, 2, AppendRequest{Index{2}, Term{1}, Index{1}, {}});
  alone.Receive(2, 1, 2, Heartbeat{Index{3}, ReadRound{2}});
  CHECK(alone.member.raft().commit_index() == Index{2});
}

TEST_CASE("a follower that cannot commit up to a heartbeat's index reports its matched index") {
  Alone alone(Options(1, 3), DiskThatForgot());
  alone.Settle();
  alone.member.outbox.clear();
  alone.Receive(2, 1, 2, Heartbeat{Index{3}, ReadRound{1}});
  alone.Settle();
  std::vector<AppendAccepted> answers;
  for (const Message& message : alone.member.outbox) {
    if (const auto* body = std::get_if<AppendAccepted>(&message.body)) answers.push_back(*body);
  }
  CHECK(answers == std::vector<AppendAccepted>{{Index{0}, Index{0}}});
}

TEST_CASE("ticks_since_leader counts the ticks without a leader") {
  Alone alone(Options(1, 3));
  alone.member.raft().Tick();
  CHECK(alone.member.raft().ticks_since_leader() == 1);
  CHECK(alone.member.raft().leader_contacts() == 0);
  alone.Receive(2, 1, 1, Heartbeat{});
  CHECK(alone.member.raft().ticks_since_leader() == 0);
  CHECK(alone.member.raft().leader_contacts() == 1);
  // A refused vote is not a sign of a leader.
  int ticks = 0;
  while (alone.member.raft().role() == Role::kFollower) {
    alone.member.raft().Tick();
    ++ticks;
  }
  for (uint32_t voter : {2, 3}) alone.Receive(voter, 1, 1, VoteResponse{true, false});
  CHECK(alone.member.raft().role() == Role::kFollower);
  CHECK(alone.member.raft().ticks_since_leader() == ticks);
  CHECK(alone.member.raft().leader_contacts() == 1);
  Alone leader(Options(1, 1));
  leader.Lead();
  leader.member.raft().Tick();
  CHECK(leader.member.raft().ticks_since_leader() == 0);
}

TEST_CASE("during IdleTicks ticks nothing is sent and no election starts") {
  Alone alone(Options(1, 3));
  Raft& raft = alone.member.raft();
  alone.Receive(2, 1, 1, Heartbeat{});
  alone.Settle();
  for (int heard : {0, 4}) {
    for (int i = 0; i < heard; ++i) raft.Tick();
    if (heard > 0) alone.Receive(2, 1, 1, Heartbeat{});
    alone.Settle();
    const int idle = raft.IdleTicks();
    CHECK(idle > 0);
    for (int i = 0; i < idle; ++i) {
      raft.Tick();
      CHECK_FALSE(raft.HasOutput());
      CHECK(raft.IdleTicks() == idle - 1 - i);
    }
  }
  raft.Tick();
  CHECK(raft.HasOutput());
  CHECK(raft.IdleTicks() == 0);
}

// Makes member 1 the leader of three members.
void LeadThree(Alone* alone) {
  Raft& raft = alone->member.raft();
  while (!raft.HasOutput()) raft.Tick();
  alone->Settle();
  alone->Receive(2, 1, raft.term().value() + 1, VoteResponse{true, true});
  alone->Settle();
  alone->Receive(2, 1, raft.term().value(), VoteResponse{false, true});
  REQUIRE(raft.role() == Role::kLeader);
}

TEST_CASE("a leader probes a follower that reports less than it acknowledged") {
  Alone alone(Options(1, 3));
  LeadThree(&alone);
  alone.Settle();
  const Term term = alone.member.raft().term();
  const Index last = alone.member.raft().last_index();
  alone.Receive(2, 1, term.value(), AppendAccepted{last, last});
  alone.Settle();
  alone.member.outbox.clear();
  alone.Receive(2, 1, term.value(), AppendAccepted{Index{0}, Index{0}});
  alone.Settle();
  REQUIRE(alone.member.outbox.size() == 1);
  const auto& probe = std::get<AppendRequest>(alone.member.outbox[0].body);
  CHECK(alone.member.outbox[0].to == MemberId{2});
  CHECK(probe.prev_index == last);
  CHECK(probe.entries.empty());
  CHECK_FALSE(probe.commit_only);
  CHECK(alone.member.raft().match_index(MemberId{2}) == last);
}

TEST_CASE("the idle ticks of a leader last until its next heartbeat") {
  Alone alone(Options(1, 3));
  LeadThree(&alone);
  CHECK(alone.member.raft().IdleTicks() == 0);  // it has messages to send
  alone.Settle();
  int ticks = 0;
  for (alone.member.outbox.clear(); alone.member.outbox.empty(); ++ticks) {
    const int idle = alone.member.raft().IdleTicks();
    INFO("tick " << ticks);
    CHECK(idle == 2 - ticks);
    alone.member.raft().Tick();
    CHECK(alone.member.raft().HasOutput() == (idle == 0));
    alone.Settle();
  }
  CHECK(ticks == 3);
}

TEST_CASE("PersistWaits is true at a leader only if its own disk is what a commit waits for") {
  Alone alone(Options(1, 3));
  LeadThree(&alone);
  alone.member.Collect();
  REQUIRE(alone.member.unpersisted() > 0);
  CHECK_FALSE(alone.member.raft().PersistWaits());
  const uint64_t last = alone.member.raft().last_index().value();
  alone.Receive(2, 1, alone.member.raft().term().value(), AppendAccepted{Index{last}, Index{last}});
  CHECK(alone.member.raft().PersistWaits());
  CHECK(alone.member.raft().commit_index() < Index{last});
  alone.Settle();
  CHECK(alone.member.raft().commit_index() == Index{last});
  CHECK_FALSE(alone.member.raft().PersistWaits());
  // A cluster of one waits for no other member.
  Alone single(Options(1, 1));
  single.Lead();
  REQUIRE(single.member.raft().Propose(Payloads(1, 10)).ok());
  CHECK(single.member.raft().PersistWaits());
}

}  // namespace
}  // namespace quorate::consensus
