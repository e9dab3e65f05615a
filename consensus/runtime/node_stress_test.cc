// SPDX-License-Identifier: Apache-2.0

// Runs three nodes with all their threads, on slow disks, while messages are lost and repeated,
// members crash and come back, and all kinds of requests are made. It is meant for ThreadSanitizer
// (--config=tsan, tests/stress/run); without that, it still checks that all members apply the same
// entries.
//
// QUORATE_STRESS_COMMANDS=n: runs n commands instead of a few hundred.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/seeded_bug.h"
#include "base/thread.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/runtime/batch_queue.h"
#include "consensus/runtime/node.h"

namespace quorate::consensus {
namespace {

constexpr uint32_t kMembers = 3;

size_t Commands() {
  const char* value = std::getenv("QUORATE_STRESS_COMMANDS");
  return value == nullptr ? 300 : std::strtoul(value, nullptr, 10);
}

// Returns a generator that is different on each thread.
std::minstd_rand& ThreadRandom() {
  static std::atomic<unsigned> threads{0};
  thread_local std::minstd_rand random(++threads);
  return random;
}

bool OneIn(unsigned n) { return ThreadRandom()() % n == 0; }

// Lets other threads run, for a moment or longer.
void Jitter() {
  if (OneIn(4)) std::this_thread::yield();
  if (OneIn(32)) std::this_thread::sleep_for(std::chrono::microseconds(ThreadRandom()() % 300));
}

class JitterFile : public File {
 public:
  explicit JitterFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
    Jitter();
    return file_->WriteAt(offset, pieces);
  }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
    Jitter();
    return file_->ReadAt(offset, size, to);
  }
  absl::Status Preallocate(uint64_t size) override { return file_->Preallocate(size); }
  absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  absl::Status Sync() override {
    Jitter();
    return file_->Sync();
  }
  absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

 private:
  const std::unique_ptr<File> file_;
};

class JitterEnv : public Env {
 public:
  FaultEnv& disk() { return disk_; }

  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    Jitter();
    auto file = disk_.OpenFile(path, create);
    if (!file.ok()) return file.status();
    return std::make_unique<JitterFile>(*std::move(file));
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return disk_.CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return disk_.List(path);
  }
  bool Exists(const std::string& path) override { return disk_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    Jitter();
    return disk_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    Jitter();
    return disk_.Remove(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    Jitter();
    return disk_.SyncDirectory(path);
  }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    return disk_.LockDirectory(path);
  }

 private:
  FaultEnv disk_;
};

class LockedRandom : public RandomSource {
 public:
  uint64_t Next() override { return ThreadRandom()() * uint64_t{0x9E3779B97F4A7C15}; }
};

// The state machine of a member, and its checkpoints. The data that is used with apply_turn_ held
// has no other lock, so that ThreadSanitizer detects it if the node uses two threads at a time.
class Texts : public StateMachine, public CheckpointStore {
 public:
  void Apply(std::span<const Entry> entries) override {
    Jitter();
    for (const Entry& entry : entries) {
      ASSERT(entry.index == last_ + 1);
      last_ = entry.index;
      texts_.emplace_back(entry.payload.view());
    }
    applied_.store(last_.value());
  }
  bool TryApply(std::span<const Entry> entries) override {
    if (OneIn(8)) return false;
    Apply(entries);
    return true;
  }
  std::optional<SnapshotMeta> newest() const override {
    MutexLock lock(&mutex_);
    return durable_.has_value() ? std::optional(durable_->meta) : std::nullopt;
  }
  void Begin(const SnapshotMeta& meta) override {
    ASSERT(meta.index == last_ && !begun_.has_value());
    begun_ = Checkpoint{meta, texts_};
  }
  absl::Status Finish() override {
    Jitter();
    if (OneIn(8)) {
      begun_.reset();
      return absl::ResourceExhaustedError("no free space for a checkpoint");
    }
    MutexLock lock(&mutex_);
    durable_ = *std::exchange(begun_, std::nullopt);
    return absl::OkStatus();
  }
  absl::StatusOr<SnapshotChunkData> Read(Index index, uint64_t offset, size_t bytes_max) override {
    Jitter();
    MutexLock lock(&mutex_);
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
    Jitter();
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
    staged_whole_ = false;
    return absl::OkStatus();
  }
  absl::Status Install(const SnapshotMeta& meta) override {
    ASSERT(!begun_.has_value() && staged_whole_ && staged_.first == meta);
    {
      MutexLock lock(&mutex_);
      durable_ = Checkpoint::Of(meta, staged_.second);
    }
    Load();
    return absl::OkStatus();
  }
  // Loads the durable checkpoint, as at a start.
  void Load() {
    begun_.reset();
    MutexLock lock(&mutex_);
    texts_ = durable_ ? durable_->texts : std::vector<std::string>();
    last_ = durable_ ? durable_->meta.index : Index{0};
    applied_.store(last_.value());
  }

  uint64_t applied() const { return applied_.load(); }
  // REQUIRES: no thread applies any more.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Checkpoint {
    SnapshotMeta meta;
    std::vector<std::string> texts;  // one for each entry
    std::string Bytes() const {
      std::string bytes;
      for (const std::string& text : texts) bytes += ";" + text;
      return bytes;
    }
    static Checkpoint Of(const SnapshotMeta& meta, const std::string& bytes) {
      Checkpoint checkpoint{meta, {}};
      for (char c : bytes) {
        if (c == ';') {
          checkpoint.texts.emplace_back();
        } else {
          checkpoint.texts.back().push_back(c);
        }
      }
      return checkpoint;
    }
  };

  Index last_;
  std::vector<std::string> texts_;
  std::atomic<uint64_t> applied_{0};
  std::optional<Checkpoint> begun_;
  std::pair<SnapshotMeta, std::string> staged_;
  bool staged_whole_ = false;
  mutable Mutex mutex_;
  std::optional<Checkpoint> durable_ ABSL_GUARDED_BY(mutex_);
};

class Cluster;

// A process of a member, from a start to its end.
class Process : public PeerTransport, public NodeObserver {
 public:
  Process(Cluster* cluster, MemberId id, JitterEnv* env, Texts* texts);
  Node& node() { return *node_; }

  void Send(std::vector<Message> messages) override;
  void OnStatus(const Status& status) override;
  void OnMembership(const Membership&) override {}
  void OnReads(const std::vector<ReadResult>&) override;
  void OnApplied(Index) override;
  bool AwaitsApplied() const override { return OneIn(2); }
  bool AwaitsTick() const override { return OneIn(2); }
  void OnDurable(Index) override {}
  void OnCommitted(Index) override {}
  void OnTick() override { Jitter(); }
  void OnClusterId(const std::string&) override {}
  void OnLogFull(const absl::Status&) override {}
  void OnSnapshotRejected(const SnapshotRejection&) override {}
  void OnFatal(const absl::Status& error) override { ASSERT(error.ok(), "no disk fails here"); }

 private:
  Cluster* const cluster_;
  const MemberId id_;
  LockedRandom random_;
  std::unique_ptr<DataDir> data_dir_;
  std::unique_ptr<Node> node_;  // destroyed before the rest
};

class Cluster {
 public:
  Cluster();
  ~Cluster();

  void Start(MemberId id);
  void Crash(MemberId id, bool power_fails);
  // Waits for an event after which the condition holds.
  void Await(const std::function<bool()>& condition);
  void Changed();
  void Route(std::vector<Message> messages);
  void SetLeader(MemberId id, bool leads);
  // Runs `work` with the node of member `id`. Returns false if that member does not run.
  bool With(MemberId id, const std::function<void(Node&)>& work);
  MemberId WaitForLeader();
  uint64_t applied(MemberId id) const { return texts_[id.value() - 1].applied(); }
  uint64_t applied_most() const {
    return std::max({texts_[0].applied(), texts_[1].applied(), texts_[2].applied()});
  }
  const std::vector<std::string>& texts(MemberId id) const {
    return texts_[id.value() - 1].texts();
  }
  std::atomic<uint64_t> reads{0};

 private:
  void Deliver();

  std::array<JitterEnv, kMembers> envs_;
  std::array<Texts, kMembers> texts_;
  Mutex mutex_;  // held while a process is used
  std::map<MemberId, std::unique_ptr<Process>> processes_ ABSL_GUARDED_BY(mutex_);
  Mutex change_mutex_;
  std::condition_variable changed_;
  MemberId leader_ ABSL_GUARDED_BY(change_mutex_);
  BatchQueue<Message> network_;
  std::thread network_thread_;
};

Process::Process(Cluster* cluster, MemberId id, JitterEnv* env, Texts* texts)
    : cluster_(cluster), id_(id) {
  auto opened =
      DataDir::Open(env, "data", id, {.segment_bytes = 8192}, /*directory_epoch_if_new=*/1);
  ASSERT(opened.ok());
  data_dir_ = *std::move(opened);
  texts->Load();
  if (const auto newest = texts->newest()) {
    ASSERT(data_dir_->AlignLog(newest->index, newest->term).ok());
  }
  NodeOptions options;
  options.tick_ms = 5;
  options.checkpoint_entries = 40;
  options.raft.trailing_entries = 5;
  options.raft.retained_entries_max = 20;
  options.raft.compaction_step_entries = 1;
  options.raft.snapshot_chunk_bytes = 500;
  options.raft.cached_bytes_max = 2000;
  options.raft.directory_epoch = data_dir_->directory_epoch();
  options.raft.self = id;
  for (uint32_t i = 1; i <= kMembers; ++i) options.raft.membership.voters.emplace_back(i);
  options.raft.cluster_id_if_new = std::string(kClusterIdBytes, 'x');
  node_ = std::make_unique<Node>(options, data_dir_.get(), &random_, texts, texts, this, this);
  node_->Start();
}

void Process::Send(std::vector<Message> messages) { cluster_->Route(std::move(messages)); }
void Process::OnStatus(const Status& status) {
  cluster_->SetLeader(id_, status.leader_established);
}
void Process::OnReads(const std::vector<ReadResult>& reads) {
  cluster_->reads += reads.size();
  cluster_->Changed();
}
void Process::OnApplied(Index) { cluster_->Changed(); }

Cluster::Cluster() {
  network_thread_ = StartThread("network", [this] { Deliver(); });
  for (uint32_t i = 1; i <= kMembers; ++i) Start(MemberId{i});
}

Cluster::~Cluster() {
  network_.Close();
  network_thread_.join();
  for (uint32_t i = 1; i <= kMembers; ++i) Crash(MemberId{i}, /*power_fails=*/false);
}

void Cluster::Start(MemberId id) {
  const size_t place = id.value() - 1;
  auto process = std::make_unique<Process>(this, id, &envs_[place], &texts_[place]);
  MutexLock lock(&mutex_);
  processes_[id] = std::move(process);
}

void Cluster::Crash(MemberId id, bool power_fails) {
  std::unique_ptr<Process> process;
  {
    MutexLock lock(&mutex_);
    auto found = processes_.find(id);
    if (found == processes_.end()) return;
    process = std::move(found->second);
    processes_.erase(found);
  }
  process->node().Stop();
  SetLeader(id, false);
  process.reset();
  FaultEnv& disk = envs_[id.value() - 1].disk();
  power_fails ? disk.Crash(ThreadRandom()()) : disk.Kill();
}

void Cluster::Await(const std::function<bool()>& condition) {
  std::unique_lock<std::mutex> lock(change_mutex_.native());
  changed_.wait(lock, condition);
}

void Cluster::Changed() {
  MutexLock lock(&change_mutex_);
  changed_.notify_all();
}

void Cluster::SetLeader(MemberId id, bool leads) {
  MutexLock lock(&change_mutex_);
  if (leads) leader_ = id;
  if (!leads && leader_ == id) leader_ = kNoMember;
  changed_.notify_all();
}

MemberId Cluster::WaitForLeader() {
  MemberId leader;
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_) {
    leader = leader_;
    return leader != kNoMember;
  });
  return leader;
}

bool Cluster::With(MemberId id, const std::function<void(Node&)>& work) {
  MutexLock lock(&mutex_);
  auto process = processes_.find(id);
  if (process == processes_.end()) return false;
  work(process->second->node());
  return true;
}

void Cluster::Route(std::vector<Message> messages) {
  for (Message& message : messages) network_.Push(std::move(message));
}

void Cluster::Deliver() {
  std::vector<Message> messages;
  while (network_.TakeAll(&messages, nullptr)) {
    Jitter();
    if (OneIn(20)) std::shuffle(messages.begin(), messages.end(), ThreadRandom());
    for (Message& message : messages) {
      if (OneIn(100)) continue;
      With(message.to, [&](Node& node) {
        if (OneIn(50)) node.Deliver({message});
        node.Deliver({std::move(message)});
      });
    }
  }
}

// A proposal that a node is to make. The node may refuse it, or end before it makes it: then
// `is_lost` becomes true.
class Proposal {
 public:
  Proposal(Cluster* cluster, std::shared_ptr<std::atomic<bool>> is_lost)
      : cluster_(cluster), is_lost_(std::move(is_lost)) {}
  ~Proposal() {
    if (is_accepted_) return;
    *is_lost_ = true;
    cluster_->Changed();
  }
  void Make(Node* node, const std::string& text) {
    is_accepted_ = node->raft().Propose({Slice(text)}).ok();
  }

 private:
  Cluster* const cluster_;
  const std::shared_ptr<std::atomic<bool>> is_lost_;
  bool is_accepted_ = false;
};

// Proposes until `until` entries are applied.
void RunClient(Cluster* cluster, int number, uint64_t until) {
  for (int i = 0; cluster->applied_most() < until; ++i) {
    const MemberId leader = cluster->WaitForLeader();
    const uint64_t before = cluster->applied_most();
    const std::string text = std::to_string(number) + ":" + std::to_string(i);
    const auto is_lost = std::make_shared<std::atomic<bool>>(false);
    const bool runs = cluster->With(leader, [&](Node& node) {
      node.Post([&node, text, proposal = std::make_shared<Proposal>(cluster, is_lost)] {
        proposal->Make(&node, text);
      });
    });
    // A few proposals are under way at a time. If accepted ones are lost with a leader, the entries
    // of the next leader end the wait.
    if (OneIn(4)) {
      cluster->Await([&] { return cluster->applied_most() > before || !runs || *is_lost; });
    }
  }
}

void Disturb(Cluster* cluster) {
  const MemberId id{static_cast<uint32_t>(ThreadRandom()() % kMembers) + 1};
  const MemberId other{id.value() % kMembers + 1};
  switch (ThreadRandom()() % 6) {
    case 0:
    case 1:
      cluster->Crash(id, OneIn(2));
      cluster->Start(id);
      break;
    case 2:
      cluster->With(id, [&](Node& node) { node.PeerUnreachable(other); });
      break;
    case 3:
      cluster->With(id, [&](Node& node) { node.RequestCheckpoint(Index{1}, [] {}); });
      break;
    case 4:
      cluster->With(id, [&](Node& node) {
        node.Post([&node] { node.raft().TransferLeadership(kNoMember).IgnoreError(); });
      });
      break;
    default:
      break;
  }
  cluster->With(
      id, [&](Node& node) { node.Post([&node] { node.raft().ReadIndex(ThreadRandom()()); }); });
}

TEST_CASE("nodes under stress apply the same, and their threads do not race") {
  if (const char* fault = std::getenv("QUORATE_SEEDED_BUG")) SeedBug(fault);
  const uint64_t commands = Commands();
  Cluster cluster;
  std::vector<std::thread> clients;
  for (int i = 1; i <= 2; ++i) {
    clients.push_back(StartThread("client", [&, i] { RunClient(&cluster, i, commands); }));
  }
  for (uint64_t disturbed = 0; disturbed < commands; disturbed += 20) {
    cluster.Await([&] { return cluster.applied_most() >= disturbed; });
    Disturb(&cluster);
  }
  for (std::thread& client : clients) client.join();
  // All members apply everything.
  const uint64_t most = cluster.applied_most();
  cluster.Await([&] {
    return cluster.applied(MemberId{1}) >= most && cluster.applied(MemberId{2}) >= most &&
           cluster.applied(MemberId{3}) >= most;
  });
  for (uint32_t i = 1; i <= kMembers; ++i) cluster.Crash(MemberId{i}, false);
  CHECK(cluster.reads > 0);
  for (uint32_t i = 2; i <= kMembers; ++i) {
    for (size_t k = 0; k < most; ++k) {
      REQUIRE(cluster.texts(MemberId{i})[k] == cluster.texts(MemberId{1})[k]);
    }
  }
}

}  // namespace
}  // namespace quorate::consensus
