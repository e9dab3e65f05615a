// SPDX-License-Identifier: Apache-2.0

// Tests of nodes without threads, stepped by hand, on a disk in memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/assert.h"
#include "consensus/log/record.h"
#include "consensus/log/testing/fault_env.h"
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

constexpr uint64_t kPlenty = 100u << 20;
constexpr Node::Work kAllWork[] = {Node::Work::kNode, Node::Work::kLog, Node::Work::kApply,
                                   Node::Work::kRead, Node::Work::kCheckpoint};

// The state machine of a member, which holds the applied texts, and its checkpoints. A checkpoint
// is durable when Finish or Install returns; one that was only begun or staged is gone after a
// restart.
class Texts : public StateMachine, public CheckpointStore {
 public:
  void Apply(std::span<const Entry> entries) override {
    for (const Entry& entry : entries) {
      ASSERT(entry.index == last_ + 1);
      last_ = entry.index;
      if (entry.kind == EntryKind::kCommand) texts.emplace_back(entry.payload.view());
    }
  }
  bool TryApply(std::span<const Entry> entries) override {
    Apply(entries);
    return true;
  }
  std::optional<SnapshotMeta> newest() const override {
    return durable_.has_value() ? std::optional(durable_->meta) : std::nullopt;
  }
  void Begin(const SnapshotMeta& meta) override {
    REQUIRE(meta.index == last_);
    REQUIRE(meta.index > Index{0});
    REQUIRE_FALSE(begun_.has_value());
    begun_ = Checkpoint{meta, texts};
  }
  absl::Status Finish() override {
    if (IsFull()) {
      begun_.reset();
      return absl::ResourceExhaustedError("no free space for a checkpoint");
    }
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
    if (IsFull()) {
      staged_ = {};
      return absl::ResourceExhaustedError("no free space for a snapshot");
    }
    if (offset == 0) staged_ = {meta, ""};
    if (staged_.first != meta || offset != staged_.second.size()) {
      return absl::InvalidArgumentError("does not follow");
    }
    staged_.second.append(bytes);
    staged_whole_ = last;
    return staged_.second.size();
  }
  absl::Status DiscardStaged() override {
    staged_ = {};
    ++discards;
    return absl::OkStatus();
  }
  absl::Status Install(const SnapshotMeta& meta) override {
    REQUIRE_FALSE(begun_.has_value());
    REQUIRE(staged_whole_);
    REQUIRE(staged_.first == meta);
    durable_ = Checkpoint{meta, {}};
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
  // Loads the durable checkpoint, as after a restart.
  void Load() {
    begun_.reset();
    staged_whole_ = false;
    texts = durable_ ? durable_->texts : std::vector<std::string>();
    last_ = durable_ ? durable_->meta.index : Index{0};
  }

  std::vector<std::string> texts;
  int full_next = 0;  // the number of next calls that fail on a full disk
  int checkpoints = 0;
  int installs = 0;
  int discards = 0;

 private:
  struct Checkpoint {
    SnapshotMeta meta;
    std::vector<std::string> texts;
    std::string Bytes() const {
      std::string bytes;
      for (const std::string& text : texts) bytes += ";" + text;
      return bytes;
    }
  };
  bool IsFull() {
    if (full_next == 0) return false;
    --full_next;
    return true;
  }

  Index last_;
  std::optional<Checkpoint> durable_;
  std::optional<Checkpoint> begun_;
  std::pair<SnapshotMeta, std::string> staged_;
  bool staged_whole_ = false;
};

// One member and its disk.
class Member : public PeerTransport, public NodeObserver {
 public:
  Member(MemberId id, std::vector<MemberId> voters, uint64_t seed, uint64_t checkpoint_entries,
         std::deque<Message>* network)
      : id_(id),
        voters_(std::move(voters)),
        checkpoint_entries_(checkpoint_entries),
        random_(seed + id.value()),
        network_(network) {}

  void Start() {
    auto opened =
        DataDir::Open(&env, "data", id_, {.segment_bytes = 4096}, /*directory_epoch_if_new=*/1);
    REQUIRE(opened.ok());
    data_dir_ = *std::move(opened);
    state.Load();
    if (const auto newest = state.newest()) {
      REQUIRE(data_dir_->AlignLog(newest->index, newest->term).ok());
    }
    NodeOptions options;
    options.checkpoint_entries = checkpoint_entries_;
    options.persist_here_bytes_max = persist_here_bytes_max;
    options.raft.trailing_entries = 5;
    options.raft.retained_entries_max = 20;
    options.raft.compaction_step_entries = 1;
    options.raft.snapshot_chunk_bytes = 7;
    options.raft.directory_epoch = data_dir_->directory_epoch();
    options.raft.self = id_;
    options.raft.membership.voters = voters_;
    options.raft.cluster_id_if_new = std::string(kClusterIdBytes, 'x');
    node = std::make_unique<Node>(options, data_dir_.get(), &random_, &state, &state, this, this);
  }
  void Stop() {
    log_full = false;
    last_told = last_durable = last_committed = Index{0};
    durable_term.reset();
    node.reset();
    data_dir_.reset();
  }
  bool leads() const { return node != nullptr && status.leader_established; }
  const HardState& hard_state() const { return data_dir_->hard_state(); }
  // Runs all work that needs no input from others.
  void WorkOff() {
    for (bool any = true; any;) {
      any = false;
      for (Node::Work work : kAllWork) {
        if (!node->HasWork(work)) continue;
        node->Step(work);
        any = true;
      }
    }
  }

  void Send(std::vector<Message> messages) override {
    for (Message& message : messages) network_->push_back(std::move(message));
  }
  void OnStatus(const Status& s) override { status = s; }
  void OnMembership(const Membership&) override {}
  void OnReads(const std::vector<ReadResult>&) override {}
  void OnApplied(Index index) override {
    CHECK(index > last_told);
    last_told = index;
  }
  bool AwaitsApplied() const override { return false; }
  bool AwaitsTick() const override { return false; }
  void OnDurable(Index index) override {
    const SegmentLog& log = data_dir_->log();
    // An entry that was durable is replaced only after it was reported that it is not any more.
    if (index < last_durable) {
      ++truncations;
    } else if (log.TermAt(last_durable).has_value() && durable_term.has_value()) {
      CHECK(log.TermAt(last_durable) == durable_term);
    }
    last_durable = index;
    durable_term = log.TermAt(index);
  }
  void OnCommitted(Index index) override {
    REQUIRE(index > last_committed);
    last_committed = index;
  }
  void OnTick() override {}
  void OnClusterId(const std::string& id) override {
    CHECK(data_dir_->cluster_id() == id);
    cluster_id = id;
  }
  void OnSnapshotRejected(const SnapshotRejection& rejection) override {
    rejections.push_back(rejection);
  }
  void OnLogFull(const absl::Status& why) override {
    CHECK(why.ok() == log_full);
    log_full = !why.ok();
  }
  void OnFatal(const absl::Status& error) override { fatal = error; }

  FaultEnv env;
  size_t persist_here_bytes_max = 0;  // as in NodeOptions, from the next Start on
  std::unique_ptr<Node> node;
  Texts state;
  Status status;
  absl::Status fatal;
  std::vector<SnapshotRejection> rejections;
  bool log_full = false;
  Index last_told;                   // the last index of OnApplied
  Index last_durable;                // ... of OnDurable
  std::optional<Term> durable_term;  // of the entry at last_durable
  int truncations = 0;               // that OnDurable has reported
  Index last_committed;              // ... of OnCommitted
  std::string cluster_id;            // once it is durable

 private:
  const MemberId id_;
  const std::vector<MemberId> voters_;
  const uint64_t checkpoint_entries_;
  SeededRandom random_;
  std::deque<Message>* const network_;
  std::unique_ptr<DataDir> data_dir_;
};

// A cluster in which a seed decides each move.
class Cluster {
 public:
  explicit Cluster(uint64_t seed, uint64_t checkpoint_entries = 10,
                   size_t persist_here_bytes_max = 0)
      : random_(seed) {
    const std::vector<MemberId> voters = {MemberId(1), MemberId(2), MemberId(3)};
    for (MemberId id : voters) {
      members[id] = std::make_unique<Member>(id, voters, seed, checkpoint_entries, &network_);
      members[id]->persist_here_bytes_max = persist_here_bytes_max;
      members[id]->Start();
    }
  }

  // Does one of the possible next moves, chosen at random, and adds it to the trace.
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
  std::deque<Message> TakeMessages() { return std::exchange(network_, {}); }
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

std::string RunOnce(uint64_t seed, size_t persist_here_bytes_max) {
  Cluster cluster(seed, /*checkpoint_entries=*/10, persist_here_bytes_max);
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
  const size_t persist_here_bytes_max = GENERATE(as<size_t>{}, 0, 100);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed << ", persist_here_bytes_max " << persist_here_bytes_max);
    const std::string trace = RunOnce(seed, persist_here_bytes_max);
    CHECK(trace == RunOnce(seed, persist_here_bytes_max));
    CHECK(trace != RunOnce(seed + 100, persist_here_bytes_max));
  }
}

TEST_CASE("news of what was applied does not go back") {
  std::deque<Message> network;
  Member member(MemberId(1), {MemberId(1)}, /*seed=*/1, /*checkpoint_entries=*/10, &network);
  member.Start();
  Node& node = *member.node;
  const auto work_off = [&] {
    for (bool any = true; any;) {
      any = false;
      for (Node::Work work : kAllWork) {
        if (!node.HasWork(work)) continue;
        node.Step(work);
        any = true;
      }
    }
  };
  while (!member.leads()) {
    node.TickNow();
    work_off();
  }
  const auto propose = [&](size_t count) {
    REQUIRE(node.raft().Propose(std::vector<Slice>(count, Slice(std::string("x")))).ok());
    node.Step(Node::Work::kNode);
    node.Step(Node::Work::kLog);
  };
  // These are too many entries to be applied inline.
  propose(NodeOptions().apply_here_entries_max + 1);
  node.Step(Node::Work::kNode);
  REQUIRE(node.HasWork(Node::Work::kApply));
  propose(1);
  // The apply thread applies them after the node thread has taken its events, but before the node
  // thread handles the entries that were committed later.
  node.Post([&] { node.Step(Node::Work::kApply); });
  node.Step(Node::Work::kNode);
  CHECK_FALSE(node.HasWork(Node::Work::kApply));
  CHECK(member.last_told == node.raft().commit_index());
  work_off();
  CHECK(member.last_told == node.raft().commit_index());
  member.Stop();
}

TEST_CASE("a node makes small batches durable in its own step if its log has nothing to do") {
  std::deque<Message> network;
  Member member(MemberId(1), {MemberId(1)}, /*seed=*/1, /*checkpoint_entries=*/1000, &network);
  member.persist_here_bytes_max = 1000;
  member.Start();
  while (!member.leads()) {
    member.node->TickNow();
    member.WorkOff();
  }
  Node& node = *member.node;
  const auto propose = [&](size_t bytes) {
    REQUIRE(node.raft().Propose({Slice(std::string(bytes, 'x'))}).ok());
    node.Step(Node::Work::kNode);
  };
  const auto is_durable = [&] {
    const bool durable = node.raft().durable_index() == node.raft().last_index();
    // One member alone commits what is durable.
    CHECK((member.last_durable == node.raft().last_index()) == durable);
    CHECK((member.last_committed == node.raft().last_index()) == durable);
    return durable;
  };

  propose(100);
  CHECK_FALSE(node.HasWork(Node::Work::kLog));
  CHECK(is_durable());
  // A large batch is left to the log thread, and a small one does not overtake it.
  propose(2000);
  CHECK(node.HasWork(Node::Work::kLog));
  propose(100);
  CHECK_FALSE(is_durable());
  node.Step(Node::Work::kLog);
  node.Step(Node::Work::kNode);
  CHECK(is_durable());
  propose(100);
  CHECK(is_durable());

  // Full disk: the log thread deals with it.
  member.env.SetCapacity(member.env.used_bytes());
  for (int i = 0; i < 100 && !member.log_full; ++i) {
    propose(200);
    member.WorkOff();
  }
  REQUIRE(member.log_full);
  propose(100);
  CHECK_FALSE(is_durable());
  member.env.SetCapacity(~uint64_t{0});
  while (member.log_full) {
    node.TickNow();
    member.WorkOff();
  }
  CHECK(is_durable());

  // A failing disk ends the node.
  member.env.FailSyncAfter(0, absl::InternalError("broken"));
  propose(100);
  CHECK(absl::EndsWith(member.fatal.message(), "broken"));
  CHECK_FALSE(node.HasWork(Node::Work::kLog));
  member.Stop();
}

TEST_CASE("nothing is acknowledged by a node whose log step has not run") {
  Cluster cluster(1);
  cluster.MoveUntil([&] { return cluster.Leader() != nullptr; });
  // The leader's own log is not written: the others commit without it.
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

TEST_CASE("a truncation is reported before what is written after it becomes durable") {
  Cluster cluster(1);
  cluster.MoveUntil([&] { return cluster.Leader() != nullptr; });
  Member* old = cluster.Leader();
  // Entries that only the old leader has.
  for (int i = 0; i < 3; ++i) REQUIRE(old->node->raft().Propose({Slice(std::string("x"))}).ok());
  old->WorkOff();
  REQUIRE(old->last_durable == old->node->raft().last_index());
  cluster.TakeMessages();
  // The others elect a leader and commit more entries than that.
  const auto leads = [&] { return cluster.Leader() != nullptr && cluster.Leader() != old; };
  old->status = {};
  while (!leads()) {
    for (auto& [id, member] : cluster.members) {
      if (member.get() == old) continue;
      member->node->TickNow();
      member->WorkOff();
      for (Message& message : cluster.TakeMessages()) {
        Member& to = *cluster.members.at(message.to);
        if (&to == old) continue;
        to.node->Deliver({std::move(message)});
        to.WorkOff();
      }
    }
  }
  Member* leader = cluster.Leader();
  for (int i = 0; i < 9; ++i) {
    REQUIRE(leader->node->raft().Propose({Slice(std::string("y"))}).ok());
  }
  CHECK(old->truncations == 0);
  cluster.MoveUntil([&] { return old->last_durable == leader->node->raft().last_index(); });
  CHECK(old->truncations == 1);
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

TEST_CASE("members that begin together take their checkpoints one after another") {
  Cluster cluster(4);
  std::map<MemberId, size_t> first;  // how many were proposed at its first checkpoint
  for (size_t proposed = 1; first.size() < cluster.members.size(); ++proposed) {
    REQUIRE(proposed < 20);
    cluster.Propose(std::to_string(proposed));
    for (auto& [id, member] : cluster.members) {
      Member* const waits = member.get();
      cluster.MoveUntil([&] {
        return waits->state.texts.size() == proposed &&
               !waits->node->HasWork(Node::Work::kCheckpoint);
      });
      if (member->state.checkpoints > 0) first.emplace(id, proposed);
    }
  }
  CHECK(first[MemberId(3)] + 2 <= first[MemberId(2)]);
  CHECK(first[MemberId(2)] + 2 <= first[MemberId(1)]);
}

TEST_CASE("a checkpoint that is asked for covers what it has to, and several askers share it") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    // checkpoint_entries is so large that no checkpoint is taken without a request.
    Cluster cluster(seed, 1000);
    const std::vector<std::string> proposed = ProposeMany(&cluster, 3);
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->state.texts == proposed; });
      REQUIRE(member->state.checkpoints == 0);
      const Index applied = member->node->raft().last_index();
      int done = 0;
      for (int i = 0; i < 3; ++i) {
        member->node->RequestCheckpoint(applied, [&] {
          CHECK(member->state.newest()->index >= applied);
          ++done;
        });
      }
      cluster.MoveUntil([&] { return done == 3; });
      CHECK(member->state.checkpoints == 1);
      // A checkpoint that exists is not taken again.
      member->node->RequestCheckpoint(applied, [&] { ++done; });
      cluster.MoveUntil([&] { return done == 4; });
      CHECK(member->state.checkpoints == 1);
    }
  }
}

TEST_CASE("a checkpoint that is asked for before anything is applied is made of what comes first") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed, 1000);
    int done = 0;
    for (auto& [id, member] : cluster.members) {
      member->node->RequestCheckpoint(Index{0}, [&done, at = member.get()] {
        CHECK(at->state.newest()->index >= Index{1});
        ++done;
      });
    }
    cluster.MoveUntil([&] { return done == 3; });
    for (auto& [id, member] : cluster.members) CHECK(member->state.checkpoints == 1);
  }
}

TEST_CASE("a checkpoint that is asked for while another is written is made after it") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    std::vector<std::string> proposed = ProposeMany(&cluster, 1);
    Member* member = cluster.Leader();
    cluster.MoveUntil([&] { return member->state.texts == proposed; });
    std::vector<Index> asked;
    size_t done = 0;
    for (int i = 0; i < 5; ++i) {
      cluster.Propose("more");
      asked.push_back(member->node->raft().last_index());
      member->node->RequestCheckpoint(asked.back(), [&, index = asked.back()] {
        CHECK(member->state.newest()->index >= index);
        ++done;
      });
    }
    cluster.MoveUntil([&] { return done == asked.size(); });
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

TEST_CASE("members whose disks are full wait, and go on by themselves when there is free space") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    std::vector<std::string> proposed = ProposeMany(&cluster, 20);
    // The disks of one, two or all three members are full.
    std::vector<Member*> full;
    for (auto& [id, member] : cluster.members) {
      if (full.size() <= seed % 3) full.push_back(member.get());
    }
    for (Member* member : full) member->env.SetCapacity(member->env.used_bytes() + seed * 50);
    for (int i = 0; i < 20; ++i) {
      proposed.push_back("more" + std::to_string(i));
      cluster.Propose(proposed.back());
    }
    for (Member* member : full) {
      cluster.MoveUntil([&] { return member->log_full; });
    }
    for (int i = 0; i < 2000; ++i) cluster.Move();
    for (auto& [id, member] : cluster.members) {
      CHECK(member->fatal.ok());
      const bool has_free_space = std::find(full.begin(), full.end(), member.get()) == full.end();
      // Space also becomes free when a log is compacted.
      CHECK((!member->log_full || !has_free_space));
    }
    if (seed % 2 == 0) {
      Member* member = full.front();
      member->Stop();
      member->status = {};
      member->env.Crash(seed);
      member->env.SetCapacity(kPlenty);
      member->Start();
    }
    for (Member* member : full) member->env.SetCapacity(kPlenty);
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->state.texts.size() >= proposed.size(); });
      cluster.MoveUntil([&] { return !member->log_full; });
      CHECK(member->state.texts == cluster.members.begin()->second->state.texts);
    }
  }
}

TEST_CASE("a member whose log is full votes all the same") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    ProposeMany(&cluster, 20);
    cluster.MoveUntil([&] { return cluster.Leader() != nullptr; });
    Member* leader = cluster.Leader();
    Member* full = nullptr;
    Member* other = nullptr;
    for (auto& [id, member] : cluster.members) {
      if (member.get() != leader) (full == nullptr ? full : other) = member.get();
    }
    full->env.SetCapacity(full->env.used_bytes());
    for (int i = 0; !full->log_full && i < 1000; ++i) {
      if (leader->leads())
        leader->node->raft().Propose({Slice(std::string(500, 'x'))}).IgnoreError();
      for (int move = 0; move < 50; ++move) cluster.Move();
    }
    REQUIRE(full->log_full);
    leader->Stop();
    leader->status = {};
    // The member with more entries wins, whatever happened to the entries that the full one could
    // not write.
    cluster.MoveUntil([&] { return other->node->raft().role() == Role::kLeader; });
    CHECK(full->fatal.ok());
    CHECK(full->node->raft().term() == other->node->raft().term());
  }
}

TEST_CASE("a member whose log is full votes behind a cut that waits for space") {
  Cluster cluster(1);
  ProposeMany(&cluster, 20);
  const auto is_level = [&cluster](Member* member) {
    const Member* leader = cluster.Leader();
    if (leader == nullptr) return false;
    const Raft& own = member->node->raft();
    const Raft& other = leader->node->raft();
    return member != leader && own.term() == other.term() &&
           own.commit_index() == own.last_index() && own.last_index() == other.last_index();
  };
  Member* full = nullptr;
  MemberId self;
  cluster.MoveUntil([&] {
    for (auto& [id, member] : cluster.members) {
      if (is_level(member.get())) std::tie(full, self) = std::pair(member.get(), id);
    }
    return full != nullptr;
  });
  full->WorkOff();
  cluster.TakeMessages();
  const MemberId first(self == MemberId(1) ? 2 : 1);
  const MemberId second(self == MemberId(3) ? 2 : 3);
  const uint64_t directory_epoch = 1;
  const auto deliver = [&](MemberId from, Term term, auto body) {
    full->node->Deliver(
        {Message{from, self, term, std::move(body), directory_epoch, kVersionNewest, true}});
    full->WorkOff();
  };
  const Term term = full->node->raft().term();
  const Index last = full->node->raft().last_index();
  const auto append = [&](Term in, size_t bytes) {
    const Entry entry{last + 1, in, EntryKind::kCommand, Slice(std::string(bytes, 'x'))};
    return AppendRequest{last, term, last, {entry}};
  };
  full->env.SetCapacity(full->env.used_bytes());
  deliver(first, term + 1, append(term + 1, 100'000));
  REQUIRE(full->log_full);
  deliver(second, term + 2, append(term + 2, 10));
  deliver(second, term + 3, VoteRequest{false, /*leadership_transfer=*/true, last + 1, term + 2});
  size_t votes = 0;
  for (const Message& message : cluster.TakeMessages()) {
    const auto* vote = std::get_if<VoteResponse>(&message.body);
    if (vote == nullptr || !vote->granted || vote->pre_vote) continue;
    CHECK((message.to == second && message.term == term + 3));
    ++votes;
  }
  CHECK(votes == 1);
  CHECK(full->hard_state().term == term + 3);
  CHECK(full->hard_state().vote == second);
  // The batches that waited do not overwrite the newer hard state.
  full->env.SetCapacity(kPlenty);
  for (int i = 0; full->log_full && i < 1000; ++i) {
    full->node->TickNow();
    full->WorkOff();
  }
  CHECK_FALSE(full->log_full);
  CHECK(full->fatal.ok());
  CHECK(full->node->raft().durable_index() >= last + 1);
  CHECK(full->hard_state().term >= term + 3);
  full->Stop();
  full->Start();
  CHECK(full->node->raft().term() >= term + 3);
  CHECK(full->node->raft().last_index() == last + 1);
}

TEST_CASE("a cluster's id for which there is no free space is kept as soon as there is") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    for (auto& [id, member] : cluster.members) {
      // There is space only for the entry with the cluster's id.
      member->env.SetCapacity(member->env.used_bytes() + RecordBytes(kClusterIdBytes));
    }
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->node->raft().commit_index() == Index{1}; });
    }
    for (int i = 0; i < 500; ++i) cluster.Move();
    for (auto& [id, member] : cluster.members) {
      CHECK(member->fatal.ok());
      CHECK(member->cluster_id.empty());
      member->env.SetCapacity(100u << 20);
    }
    for (auto& [id, member] : cluster.members) {
      cluster.MoveUntil([&] { return member->cluster_id == std::string(kClusterIdBytes, 'x'); });
    }
  }
}

TEST_CASE("a checkpoint for which there is no free space is tried again") {
  Cluster cluster(4);
  Member* member = cluster.members.begin()->second.get();
  member->state.full_next = 3;
  std::vector<std::string> proposed = ProposeMany(&cluster, 40);
  const auto more = [&] {
    proposed.push_back("more" + std::to_string(proposed.size()));
    cluster.Propose(proposed.back());
    return member->state.checkpoints > 0;
  };
  while (!more()) REQUIRE(proposed.size() < 10'000);
  CHECK(member->state.full_next == 0);
  CHECK(member->fatal.ok());
  cluster.MoveUntil([&] { return member->state.texts == proposed; });
}

TEST_CASE("it is tried again also if nothing is applied meanwhile") {
  Cluster cluster(4);
  Member* member = cluster.members.begin()->second.get();
  member->state.full_next = 1'000'000;
  const std::vector<std::string> proposed = ProposeMany(&cluster, 20);
  cluster.MoveUntil([&] { return member->state.texts == proposed; });
  CHECK(member->state.checkpoints == 0);
  const Index last = member->node->raft().last_index();
  member->state.full_next = 2;
  cluster.MoveUntil([&] { return member->state.checkpoints > 0; });
  // At most one entry is new: the no-op of another leader, if one was elected.
  CHECK(member->node->raft().last_index() <= last + 1);
}

TEST_CASE("a snapshot for which there is no free space is asked for again") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    cluster.Propose("first");
    Member* lagging = cluster.members.begin()->second.get();
    cluster.MoveUntil([&] { return lagging->state.texts.size() == 1; });
    lagging->Stop();
    lagging->status = {};
    std::vector<std::string> proposed = ProposeMany(&cluster, 100);
    proposed.insert(proposed.begin(), "first");
    cluster.MoveUntil([&] {
      Member* leader = cluster.Leader();
      return leader != nullptr && leader->node->raft().base_index() > Index{50};
    });
    lagging->Start();
    cluster.MoveUntil([&] { return lagging->node->HasWork(Node::Work::kCheckpoint); });
    lagging->state.full_next = 1 + static_cast<int>(seed % 4);
    cluster.MoveUntil([&] { return lagging->state.texts == proposed; });
    CHECK(lagging->state.full_next == 0);
    CHECK(lagging->fatal.ok());
    // The leader learns the reason.
    size_t rejections = 0;
    for (auto& [id, member] : cluster.members) {
      for (const SnapshotRejection& rejection : member->rejections) {
        CHECK(rejection.follower == cluster.members.begin()->first);
        CHECK(rejection.reason == "no free space for a snapshot");
        ++rejections;
      }
    }
    CHECK(rejections > 0);
    CHECK(lagging->state.discards > 0);
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
    // The power fails at some point of the installation or after it, more than once.
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
