// Nodes without threads: stepped by hand, on a disk in memory.
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
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

constexpr Node::Work kAllWork[] = {Node::Work::kNode, Node::Work::kLog, Node::Work::kApply,
                                   Node::Work::kRead, Node::Work::kCheckpoint};

// What a member has applied, as text, and its checkpoints. They are durable when Finish or Install
// returns; what was only begun or staged is gone after a restart.
class Texts : public StateMachine, public CheckpointStore {
 public:
  void Apply(std::span<const Entry> entries) override {
    for (const Entry& entry : entries) {
      ASSERT(entry.index == last_ + 1);
      last_ = entry.index;
      if (entry.kind == EntryKind::kCommand) texts.emplace_back(entry.payload.view());
    }
  }
  std::optional<SnapshotMeta> newest() const override {
    return durable_.has_value() ? std::optional(durable_->meta) : std::nullopt;
  }
  void Begin(const SnapshotMeta& meta) override {
    REQUIRE(meta.index == last_);
    REQUIRE_FALSE(begun_.has_value());
    begun_ = Picture{meta, texts};
  }
  absl::Status Finish() override {
    durable_ = *std::exchange(begun_, std::nullopt);
    ++checkpoints;
    return absl::OkStatus();
  }
  absl::StatusOr<SnapshotChunkData> Read(Index index, uint64_t offset, size_t bytes_max) override {
    if (!durable_ || (index != Index{0} && index != durable_->meta.index)) {
      return absl::NotFoundError("no such checkpoint");
    }
    const std::string bytes = durable_->Bytes();
    if (offset > bytes.size()) return absl::NotFoundError("not so long");
    const std::string part = bytes.substr(offset, bytes_max);
    return SnapshotChunkData{durable_->meta, offset, Slice(part),
                             offset + part.size() == bytes.size()};
  }
  absl::StatusOr<uint64_t> Stage(const SnapshotMeta& meta, uint64_t offset, std::string_view bytes,
                                 bool last) override {
    if (offset == 0) staged_ = {meta, ""};
    if (staged_.first != meta || offset != staged_.second.size()) {
      return absl::InvalidArgumentError("does not follow");
    }
    staged_.second.append(bytes);
    staged_whole_ = last;
    return staged_.second.size();
  }
  absl::Status Install(const SnapshotMeta& meta) override {
    REQUIRE_FALSE(begun_.has_value());
    REQUIRE(staged_whole_);
    REQUIRE(staged_.first == meta);
    durable_ = Picture{meta, {}};
    for (char c : staged_.second) {
      if (c == ';') {
        durable_->texts.emplace_back();
      } else {
        durable_->texts.back().push_back(c);
      }
    }
    Load();
    ++installs;
    return absl::OkStatus();
  }
  // A restart.
  void Load() {
    begun_.reset();
    staged_whole_ = false;
    texts = durable_ ? durable_->texts : std::vector<std::string>();
    last_ = durable_ ? durable_->meta.index : Index{0};
  }

  std::vector<std::string> texts;
  int checkpoints = 0;
  int installs = 0;

 private:
  struct Picture {
    SnapshotMeta meta;
    std::vector<std::string> texts;
    std::string Bytes() const {
      std::string bytes;
      for (const std::string& text : texts) bytes += ";" + text;
      return bytes;
    }
  };
  Index last_;
  std::optional<Picture> durable_;
  std::optional<Picture> begun_;
  std::pair<SnapshotMeta, std::string> staged_;
  bool staged_whole_ = false;
};

// One member and its disk.
class Member : public PeerTransport, public NodeObserver {
 public:
  Member(MemberId id, std::vector<MemberId> voters, uint64_t seed, std::deque<Message>* network)
      : id_(id), voters_(std::move(voters)), random_(seed + id.value()), network_(network) {}

  void Start() {
    auto opened = DataDir::Open(&env, "data", id_, {.segment_bytes = 4096}, /*birth_if_new=*/1);
    REQUIRE(opened.ok());
    data_dir_ = *std::move(opened);
    state.Load();
    if (const auto newest = state.newest()) {
      REQUIRE(data_dir_->AlignLog(newest->index, newest->term).ok());
    }
    NodeOptions options;
    options.checkpoint_entries = 10;
    options.raft.trailing_entries = 5;
    options.raft.retained_entries_max = 20;
    options.raft.compaction_step_entries = 1;
    options.raft.snapshot_chunk_bytes = 7;
    options.raft.birth = data_dir_->birth();
    options.raft.self = id_;
    options.raft.membership.voters = voters_;
    options.raft.cluster_id_if_new = std::string(kClusterIdBytes, 'x');
    node = std::make_unique<Node>(options, data_dir_.get(), &random_, &state, &state, this, this);
  }
  void Stop() {
    node.reset();
    data_dir_.reset();
  }
  bool leads() const { return node != nullptr && status.leader_established; }

  void Send(std::vector<Message> messages) override {
    for (Message& message : messages) network_->push_back(std::move(message));
  }
  void OnStatus(const Status& s) override { status = s; }
  void OnMembership(const Membership&) override {}
  void OnReads(const std::vector<ReadResult>&) override {}
  void OnApplied(Index) override {}
  void OnTick() override {}
  void OnClusterId(const std::string&) override {}
  void OnFatal(const absl::Status& error) override { fatal = error; }

  FaultEnv env;
  std::unique_ptr<Node> node;
  Texts state;
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
      if (member->node == nullptr) continue;
      for (Node::Work work : kAllWork) {
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
      if (member->second->node != nullptr) member->second->node->TickNow();
      trace += std::to_string(member->first.value()) + ".t ";
    } else {
      Message message = std::move(network_.front());
      network_.pop_front();
      trace += ToString(message) + " ";
      Member& to = *members.at(message.to);
      if (to.node != nullptr) to.node->Deliver({std::move(message)});
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
    cluster.MoveUntil([&] { return member->state.texts == proposed; });
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
  cluster.MoveUntil([&] { return leader->state.texts.size() == 1; });
  leader->env.PowerOffAfter(0);
  REQUIRE(leader->node->raft().Propose({Slice(std::string("y"))}).ok());
  leader->node->Step(Node::Work::kNode);
  leader->node->Step(Node::Work::kLog);
  CHECK_FALSE(leader->fatal.ok());
  leader->node->TickNow();
  for (Node::Work work : kAllWork) {
    CHECK_FALSE(leader->node->HasWork(work));
  }
  leader->Stop();
  leader->status = {};
  leader->env.Crash(7);
  leader->Start();
  cluster.Propose("z");
  cluster.MoveUntil(
      [&] { return !leader->state.texts.empty() && leader->state.texts.back() == "z"; });
  CHECK(leader->state.texts.front() == "x");
}

std::vector<std::string> ProposeMany(Cluster* cluster, int count) {
  std::vector<std::string> proposed;
  for (int i = 0; i < count; ++i) {
    proposed.push_back("text" + std::to_string(i));
    cluster->Propose(proposed.back());
  }
  return proposed;
}

TEST_CASE("checkpoints let the log be cut, and a restart goes on from the newest") {
  Cluster cluster(3);
  const std::vector<std::string> proposed = ProposeMany(&cluster, 200);
  for (auto& [id, member] : cluster.members) {
    cluster.MoveUntil([&] { return member->state.texts == proposed; });
    cluster.MoveUntil([&] { return member->state.checkpoints > 2; });
    cluster.MoveUntil([&] { return member->node->raft().base_index() > Index{100}; });
    member->Stop();
    member->env.Crash(11);
    member->Start();
    CHECK(member->state.texts.size() > 100);
    CHECK(member->node->raft().base_index() > Index{0});
    cluster.MoveUntil([&] { return member->state.texts == proposed; });
  }
}

TEST_CASE("a member that lags behind the others' logs gets a snapshot and goes on from there") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    cluster.Propose("first");
    Member* lagging = nullptr;
    for (auto& [id, member] : cluster.members) {
      if (!member->leads()) lagging = member.get();
    }
    cluster.MoveUntil([&] { return lagging->state.texts.size() == 1; });
    lagging->Stop();
    lagging->status = {};
    std::vector<std::string> proposed = ProposeMany(&cluster, 100);
    proposed.insert(proposed.begin(), "first");
    cluster.MoveUntil([&] {
      Member* leader = cluster.Leader();
      return leader != nullptr && leader->node->raft().base_index() > Index{50};
    });
    lagging->env.Crash(seed);
    lagging->Start();
    cluster.MoveUntil([&] { return lagging->state.installs > 0; });
    cluster.Propose("last");
    proposed.emplace_back("last");
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->state.texts == proposed; });
    }
  }
}

TEST_CASE("a crash at any point of an installation leaves a member that catches up") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    cluster.Propose("first");
    Member* lagging = nullptr;
    for (auto& [id, member] : cluster.members) {
      if (!member->leads()) lagging = member.get();
    }
    cluster.MoveUntil([&] { return lagging->state.texts.size() == 1; });
    lagging->Stop();
    lagging->status = {};
    std::vector<std::string> proposed = ProposeMany(&cluster, 60);
    proposed.insert(proposed.begin(), "first");
    lagging->Start();
    // Power goes off somewhere in the installation or after it, more than once.
    for (uint64_t crash = 0; crash < 4; ++crash) {
      lagging->env.PowerOffAfter((seed * 7 + crash * 3) % 12);
      cluster.MoveUntil([&] { return !lagging->fatal.ok() || lagging->state.texts == proposed; });
      lagging->Stop();
      lagging->status = {};
      lagging->fatal = absl::OkStatus();
      lagging->env.Crash(seed + crash);
      lagging->Start();
    }
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->state.texts == proposed; });
    }
  }
}

}  // namespace
}  // namespace quorate::consensus
