// Nodes without threads: stepped by hand, on a disk in memory.
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/assert.h"
#include "consensus/log/fault_env.h"
#include "consensus/runtime/node.h"

namespace quorate::consensus {
namespace {

class SeededRandom : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Next() override { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// One member and its disk.
class Member : public StateMachine, public PeerTransport, public NodeObserver {
 public:
  Member(MemberId id, std::vector<MemberId> voters, uint64_t seed, std::deque<Message>* network)
      : id_(id), voters_(std::move(voters)), random_(seed + id.value()), network_(network) {}

  void Start() {
    auto opened = DataDir::Open(&env, "data", id_, {});
    REQUIRE(opened.ok());
    data_dir_ = *std::move(opened);
    applied.clear();
    NodeOptions options;
    options.raft.self = id_;
    options.raft.membership.voters = voters_;
    options.raft.cluster_id_if_new = std::string(kClusterIdBytes, 'x');
    node = std::make_unique<Node>(options, data_dir_.get(), &random_, this, this, this);
  }
  void Stop() {
    node.reset();
    data_dir_.reset();
  }
  bool leads() const { return node != nullptr && status.leader_established; }

  void Apply(std::span<const Entry> entries) override {
    for (const Entry& entry : entries) {
      if (entry.kind == EntryKind::kCommand) applied.emplace_back(entry.payload.view());
    }
  }
  void Send(std::vector<Message> messages) override {
    for (Message& message : messages) network_->push_back(std::move(message));
  }
  void OnStatus(const Status& s) override { status = s; }
  void OnReads(const std::vector<ReadResult>&) override {}
  void OnApplied(Index) override {}
  void OnTick() override {}
  void OnClusterId(const std::string&) override {}
  void OnFatal(const absl::Status& error) override { fatal = error; }

  FaultEnv env;
  std::unique_ptr<Node> node;
  std::vector<std::string> applied;
  Status status;
  absl::Status fatal;

 private:
  const MemberId id_;
  const std::vector<MemberId> voters_;
  SeededRandom random_;
  std::deque<Message>* const network_;
  std::unique_ptr<DataDir> data_dir_;
};

// A cluster whose every move is drawn from one seed.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    const std::vector<MemberId> voters = {MemberId(1), MemberId(2), MemberId(3)};
    for (MemberId id : voters) {
      members[id] = std::make_unique<Member>(id, voters, seed, &network_);
      members[id]->Start();
    }
  }

  // One of the things that could happen next. What it was goes into the trace.
  void Move() {
    std::vector<std::pair<MemberId, Node::Work>> ready;
    for (auto& [id, member] : members) {
      for (Node::Work work :
           {Node::Work::kNode, Node::Work::kLog, Node::Work::kApply, Node::Work::kRead}) {
        if (member->node->HasWork(work)) ready.emplace_back(id, work);
      }
    }
    const size_t choice = random_() % (ready.size() + (network_.empty() ? 0 : 1) + 1);
    if (choice < ready.size()) {
      const auto [id, work] = ready[choice];
      members[id]->node->Step(work);
      trace += std::to_string(id.value()) + "." + std::to_string(static_cast<int>(work)) + " ";
    } else if (choice == ready.size()) {
      auto member = std::next(members.begin(), static_cast<int>(random_() % members.size()));
      member->second->node->TickNow();
      trace += std::to_string(member->first.value()) + ".t ";
    } else {
      Message message = std::move(network_.front());
      network_.pop_front();
      trace += ToString(message) + " ";
      members.at(message.to)->node->Deliver({std::move(message)});
    }
  }
  Member* Leader() {
    for (auto& [id, member] : members) {
      if (member->leads()) return member.get();
    }
    return nullptr;
  }
  template <typename Condition>
  void MoveUntil(Condition condition) {
    for (int moves = 0; !condition(); ++moves) {
      REQUIRE(moves < 1'000'000);
      Move();
    }
  }
  void Propose(const std::string& text) {
    bool taken = false;
    while (!taken) {
      MoveUntil([&] { return Leader() != nullptr; });
      taken = Leader()->node->raft().Propose({Slice(text)}).ok();
      Move();
    }
  }

  std::map<MemberId, std::unique_ptr<Member>> members;
  std::string trace;

 private:
  std::mt19937_64 random_;
  std::deque<Message> network_;
};

std::string RunOnce(uint64_t seed) {
  Cluster cluster(seed);
  std::vector<std::string> proposed;
  for (int i = 0; i < 20; ++i) {
    proposed.push_back(std::to_string(i));
    cluster.Propose(proposed.back());
  }
  for (auto& [id, member] : cluster.members) {
    cluster.MoveUntil([&] { return member->applied == proposed; });
  }
  return cluster.trace;
}

TEST_CASE("nodes that are stepped by hand serve, and the same seed gives the same run") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    const std::string trace = RunOnce(seed);
    CHECK(trace == RunOnce(seed));
    CHECK(trace != RunOnce(seed + 100));
  }
}

TEST_CASE("nothing is acknowledged by a node whose log step has not run") {
  Cluster cluster(1);
  cluster.MoveUntil([&] { return cluster.Leader() != nullptr; });
  // Only the leader's own log is left out: the others commit without it.
  Member* leader = cluster.Leader();
  REQUIRE(leader->node->raft().Propose({Slice(std::string("x"))}).ok());
  leader->node->Step(Node::Work::kNode);
  CHECK(leader->node->HasWork(Node::Work::kLog));
  const Index last = leader->node->raft().last_index();
  CHECK(leader->node->raft().durable_index() < last);
  leader->node->Step(Node::Work::kLog);
  leader->node->Step(Node::Work::kNode);
  CHECK(leader->node->raft().durable_index() == last);
}

TEST_CASE(
    "after a disk error a node does nothing any more, and starts again from what is durable") {
  Cluster cluster(2);
  cluster.Propose("x");
  Member* leader = cluster.Leader();
  cluster.MoveUntil([&] { return leader->applied.size() == 1; });
  leader->env.PowerOffAfter(0);
  REQUIRE(leader->node->raft().Propose({Slice(std::string("y"))}).ok());
  leader->node->Step(Node::Work::kNode);
  leader->node->Step(Node::Work::kLog);
  CHECK_FALSE(leader->fatal.ok());
  leader->node->TickNow();
  for (Node::Work work :
       {Node::Work::kNode, Node::Work::kLog, Node::Work::kApply, Node::Work::kRead}) {
    CHECK_FALSE(leader->node->HasWork(work));
  }
  leader->Stop();
  leader->status = {};
  leader->env.Crash(7);
  leader->Start();
  cluster.Propose("z");
  cluster.MoveUntil([&] { return !leader->applied.empty() && leader->applied.back() == "z"; });
  CHECK(leader->applied.front() == "x");
}

}  // namespace
}  // namespace quorate::consensus
