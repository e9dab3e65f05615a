// SPDX-License-Identifier: Apache-2.0

#include "consensus/runtime/node.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "consensus/log/forwarding_env.h"

namespace quorate::consensus {
namespace {

class SeededRandom : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Next() override { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// So small that a range for apply has only a few entries of these tests.
constexpr size_t kApplyBytes = 100;

// A disk whose syncs of log segments wait while it stalls.
class StallingEnv : public ForwardingEnv {
 public:
  StallingEnv() : ForwardingEnv(Env::Posix()) {}
  void Stall() {
    MutexLock lock(&mutex_);
    stalls_ = true;
  }
  // Waits until a sync waits.
  void AwaitSync() {
    MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }
  void GoOn() {
    MutexLock lock(&mutex_);
    stalls_ = false;
    changed_.NotifyAll();
  }

  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    absl::StatusOr<std::unique_ptr<File>> file = ForwardingEnv::OpenFile(path, create);
    if (!file.ok()) return file;
    return std::make_unique<StallingFile>(*std::move(file), this);
  }

 private:
  class StallingFile : public ForwardingFile {
   public:
    StallingFile(std::unique_ptr<File> file, StallingEnv* env)
        : ForwardingFile(std::move(file)), env_(env) {}
    absl::Status Sync() override {
      env_->WaitWhileStalled();
      return ForwardingFile::Sync();
    }

   private:
    StallingEnv* const env_;
  };

  void WaitWhileStalled() {
    MutexLock lock(&mutex_);
    if (!stalls_) return;
    ++waiting_;
    changed_.NotifyAll();
    while (stalls_) changed_.Wait(&mutex_);
    --waiting_;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  bool stalls_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Member;

// Members in one process; a message is delivered directly if the link is up.
class Cluster {
 public:
  // The members' threads wait in `event_loop`, if there is one.
  explicit Cluster(int size, EventLoop* event_loop = nullptr, Env* env = Env::Posix());
  ~Cluster();

  Member& member(int id) { return *members_.at(id); }
  void Start(int id);
  void Crash(int id);  // threads end, the files stay
  void Route(std::vector<Message> messages);
  // Waits for a leader, and returns its id.
  int WaitForLeader();
  // Proposes `text` until a leader accepts it.
  void Propose(const std::string& text);
  // Waits until the condition holds; conditions are checked after each event of a member.
  void Await(const std::function<bool()>& condition);
  void Changed();

  Mutex mutex;

 private:
  std::condition_variable changed_;
  EventLoop* const event_loop_;
  Env* const env_;
  std::string root_;
  std::map<int, std::unique_ptr<Member>> members_;
  std::vector<MemberId> voters_;
};

class Member : public StateMachine, public PeerTransport, public NodeObserver {
 public:
  Member(Cluster* cluster, int id, std::vector<MemberId> voters, std::string path,
         EventLoop* event_loop, Env* env)
      : cluster_(cluster), random_(static_cast<uint64_t>(id)) {
    auto opened = DataDir::Open(env, path, MemberId(static_cast<uint32_t>(id)), {},
                                /*directory_epoch_if_new=*/1);
    REQUIRE(opened.ok());
    data_dir_ = *std::move(opened);
    NodeOptions options;
    options.tick_ms = 2;
    options.raft.apply_bytes_max = kApplyBytes;
    options.raft.self = MemberId(static_cast<uint32_t>(id));
    options.raft.membership.voters = std::move(voters);
    options.raft.cluster_id_if_new = std::string(kClusterIdBytes, static_cast<char>('A' + id));
    node_ = std::make_unique<Node>(options, data_dir_.get(), &random_, this, nullptr, this, this);
    node_->Start(event_loop);
  }

  void Apply(std::span<const Entry> entries) override {
    MutexLock lock(&cluster_->mutex);
    for (const Entry& entry : entries) {
      ASSERT(entry.index == last_applied + 1);
      last_applied = entry.index;
      if (entry.kind == EntryKind::kCommand) applied.emplace_back(entry.payload.view());
    }
    cluster_->Changed();
  }
  bool TryApply(std::span<const Entry> entries) override {
    Apply(entries);
    return true;
  }
  void Send(std::vector<Message> messages) override { cluster_->Route(std::move(messages)); }
  void OnStatus(const Status& s) override {
    MutexLock lock(&cluster_->mutex);
    status = s;
    cluster_->Changed();
  }
  void OnMembership(const Membership&) override {}
  void OnReads(const std::vector<ReadResult>& results) override {
    MutexLock lock(&cluster_->mutex);
    reads.insert(reads.end(), results.begin(), results.end());
    cluster_->Changed();
  }
  void OnApplied(Index index) override {
    MutexLock lock(&cluster_->mutex);
    last_told = index;
    cluster_->Changed();
  }
  void OnDurable(Index index) override {
    MutexLock lock(&cluster_->mutex);
    last_durable = index;
  }
  void OnCommitted(Index index) override {
    MutexLock lock(&cluster_->mutex);
    ASSERT(index > last_committed && last_applied < index, "commits are reported before apply");
    last_committed = index;
  }
  bool AwaitsApplied() const override { return awaits_applied; }
  bool AwaitsTick() const override { return false; }
  void OnTick() override {
    MutexLock lock(&cluster_->mutex);
    ++ticks;
    cluster_->Changed();
  }
  void OnClusterId(const std::string& id) override {
    MutexLock lock(&cluster_->mutex);
    cluster_id = id;
    cluster_->Changed();
  }
  void OnLogFull(const absl::Status&) override {}
  void OnSnapshotRejected(const SnapshotRejection&) override {}
  void OnFatal(const absl::Status& error) override {
    ASSERT(error.ok(), "no disk fails in these tests");
  }

  Node& node() { return *node_; }
  DataDir& data_dir() { return *data_dir_; }

  // Guarded by the cluster's mutex.
  std::vector<std::string> applied;
  Index last_applied;
  Index last_told;       // the last index of OnApplied
  Index last_durable;    // ... of OnDurable
  Index last_committed;  // ... of OnCommitted
  std::atomic<bool> awaits_applied{false};
  Status status;
  std::string cluster_id;
  std::vector<ReadResult> reads;
  int ticks = 0;

 private:
  Cluster* const cluster_;
  SeededRandom random_;
  std::unique_ptr<DataDir> data_dir_;
  std::unique_ptr<Node> node_;
};

Cluster::Cluster(int size, EventLoop* event_loop, Env* env) : event_loop_(event_loop), env_(env) {
  root_ = std::string(std::getenv("TEST_TMPDIR")) + "/node_test";
  std::filesystem::remove_all(root_);
  for (int id = 1; id <= size; ++id) voters_.push_back(MemberId(static_cast<uint32_t>(id)));
  for (int id = 1; id <= size; ++id) Start(id);
}

Cluster::~Cluster() {
  while (!members_.empty()) Crash(members_.begin()->first);
}

void Cluster::Start(int id) {
  auto member = std::make_unique<Member>(this, id, voters_, root_ + "/" + std::to_string(id),
                                         event_loop_, env_);
  MutexLock lock(&mutex);
  members_[id] = std::move(member);
}

void Cluster::Crash(int id) {
  std::unique_ptr<Member> member;
  {
    MutexLock lock(&mutex);
    member = std::move(members_.at(id));
    members_.erase(id);
  }
  member->node().Stop();
}

void Cluster::Route(std::vector<Message> messages) {
  MutexLock lock(&mutex);
  for (Message& message : messages) {
    auto to = members_.find(static_cast<int>(message.to.value()));
    if (to != members_.end()) to->second->node().Deliver({std::move(message)});
  }
}

void Cluster::Changed() { changed_.notify_all(); }

void Cluster::Await(const std::function<bool()>& condition) {
  std::unique_lock<std::mutex> lock(mutex.native());
  changed_.wait(lock, condition);
}

int Cluster::WaitForLeader() {
  int leader = 0;
  Await([&] {
    leader = 0;
    for (auto& [id, member] : members_) {
      if (member->status.leader_established) leader = id;
    }
    return leader != 0;
  });
  return leader;
}

void Cluster::Propose(const std::string& text) {
  for (bool taken = false; !taken;) {
    Member& leader = member(WaitForLeader());
    bool done = false;
    leader.node().Post([&] {
      const bool ok = leader.node().raft().Propose({Slice(text)}).ok();
      MutexLock lock(&mutex);
      taken = ok;
      done = true;
      Changed();
    });
    Await([&] { return done; });
  }
}

std::vector<std::string> Numbers(int from, int to) {
  std::vector<std::string> numbers;
  for (int i = from; i <= to; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

TEST_CASE("a cluster of one persists, applies and recovers what it applied") {
  Cluster cluster(1);
  for (const std::string& text : Numbers(1, 20)) cluster.Propose(text);
  cluster.Await([&] { return cluster.member(1).applied == Numbers(1, 20); });
  cluster.Crash(1);
  cluster.Start(1);
  cluster.Await([&] { return cluster.member(1).applied == Numbers(1, 20); });
  CHECK(cluster.member(1).data_dir().cluster_id() == std::string(kClusterIdBytes, 'B'));
}

TEST_CASE("all members of a cluster apply the same and learn the same cluster id") {
  Cluster cluster(3);
  for (const std::string& text : Numbers(1, 50)) cluster.Propose(text);
  for (int id = 1; id <= 3; ++id) {
    cluster.Await([&] { return cluster.member(id).applied == Numbers(1, 50); });
    cluster.Await([&] { return !cluster.member(id).cluster_id.empty(); });
  }
  CHECK(cluster.member(1).cluster_id == cluster.member(2).cluster_id);
  CHECK(cluster.member(1).cluster_id == cluster.member(3).cluster_id);
}

TEST_CASE("a cluster goes on without its leader, which catches up when it is back") {
  Cluster cluster(3);
  for (const std::string& text : Numbers(1, 10)) cluster.Propose(text);
  const int first = cluster.WaitForLeader();
  cluster.Await([&] { return cluster.member(first).applied == Numbers(1, 10); });
  cluster.Crash(first);
  const int second = cluster.WaitForLeader();
  CHECK(second != first);
  for (const std::string& text : Numbers(11, 20)) cluster.Propose(text);
  cluster.Start(first);
  for (int id = 1; id <= 3; ++id) {
    cluster.Await([&] { return cluster.member(id).applied == Numbers(1, 20); });
  }
}

TEST_CASE("after all members stop, everything that was applied is there again") {
  Cluster cluster(3);
  for (const std::string& text : Numbers(1, 30)) cluster.Propose(text);
  cluster.Await([&] { return cluster.member(1).applied == Numbers(1, 30); });
  for (int id = 1; id <= 3; ++id) cluster.Crash(id);
  for (int id = 1; id <= 3; ++id) cluster.Start(id);
  for (int id = 1; id <= 3; ++id) {
    cluster.Await([&] { return cluster.member(id).applied == Numbers(1, 30); });
  }
}

// A loop that waits until the deadline. While it sleeps deeply, only Wake ends the wait.
class SleepyLoop : public EventLoop {
 public:
  void HandleEvents(std::chrono::steady_clock::time_point deadline) override {
    std::unique_lock<std::mutex> lock(mutex_.native());
    const auto is_woken = [this] { return woken_; };
    if (!sleeps_deeply_) {
      changed_.wait_until(lock, deadline, is_woken);
    } else if (deadline > std::chrono::steady_clock::time_point::min()) {
      changed_.wait(lock, is_woken);
    }
    woken_ = false;
  }
  void Wake() override {
    MutexLock lock(&mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  void End() override {}
  void SleepDeeply(bool deeply) {
    MutexLock lock(&mutex_);
    sleeps_deeply_ = deeply;
    woken_ = true;
    changed_.notify_one();
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool sleeps_deeply_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_CASE("the node thread is woken for all that waits for it") {
  SleepyLoop loop;
  Cluster cluster(1, &loop);
  cluster.Propose("0");
  Member& member = cluster.member(1);
  cluster.Await([&] { return member.applied.size() == 1; });
  loop.SleepDeeply(true);
  // Far more entries at once than one range for apply: no tick wakes the thread.
  member.awaits_applied = true;
  member.node().Post([&] {
    std::vector<Slice> entries;
    for (const std::string& text : Numbers(1, 100)) entries.emplace_back(text);
    REQUIRE(member.node().raft().Propose(std::move(entries)).ok());
  });
  cluster.Await([&] { return member.applied.size() == 101; });
  cluster.Await([&] { return member.last_told == member.last_applied; });
  // The observer does not wait for OnApplied: the call comes with the next event.
  member.awaits_applied = false;
  member.node().Post([&] { REQUIRE(member.node().raft().Propose({Slice("last")}).ok()); });
  cluster.Await([&] { return member.applied.size() == 102; });
  loop.SleepDeeply(false);
  cluster.Await([&] { return member.last_told == member.last_applied; });
}

// A SleepyLoop that tells when it has ended.
class EndingLoop : public SleepyLoop {
 public:
  void End() override {
    MutexLock lock(&ended_mutex_);
    ended_ = true;
    ended_changed_.NotifyAll();
  }
  void AwaitEnd() {
    MutexLock lock(&ended_mutex_);
    while (!ended_) ended_changed_.Wait(&ended_mutex_);
  }

 private:
  Mutex ended_mutex_;
  ConditionVariable ended_changed_;
  bool ended_ ABSL_GUARDED_BY(ended_mutex_) = false;
};

TEST_CASE("a disk that stalls does not stall the node thread") {
  StallingEnv env;
  EndingLoop loop;
  Cluster cluster(1, &loop, &env);
  Node& node = cluster.member(1).node();
  const auto await_applied = [&](size_t count) {
    cluster.Await([&] { return cluster.member(1).applied.size() == count; });
  };
  size_t applied = 0;
  for (int round = 1; round <= 10; ++round) {
    // So many that the disk counts as fast again, and the node thread syncs.
    for (int i = 1; i <= 40; ++i) {
      cluster.Propose(std::to_string(i));
      await_applied(++applied);
    }
    env.Stall();
    bool handled = false;
    node.Post([&] { REQUIRE(node.raft().Propose({Slice("stalled")}).ok()); });
    env.AwaitSync();
    node.Post([&] {
      MutexLock lock(&cluster.mutex);
      handled = true;
      cluster.Changed();
    });
    cluster.Await([&] { return handled; });
    {
      MutexLock lock(&cluster.mutex);
      CHECK(cluster.member(1).applied.size() == applied);
    }
    env.GoOn();
    await_applied(++applied);
  }
  // The connections are closed before the disk goes on.
  env.Stall();
  node.Post([&] { REQUIRE(node.raft().Propose({Slice("last")}).ok()); });
  env.AwaitSync();
  std::thread stopper([&] { node.Stop(); });
  loop.AwaitEnd();
  env.GoOn();
  stopper.join();
}

// A SleepyLoop that records how long it may sleep.
class NotingLoop : public SleepyLoop {
 public:
  void HandleEvents(std::chrono::steady_clock::time_point deadline) override {
    const auto now = std::chrono::steady_clock::now();
    if (deadline > now && deadline - now > longest_.load()) longest_ = deadline - now;
    SleepyLoop::HandleEvents(deadline);
  }
  std::chrono::steady_clock::duration longest() const { return longest_.load(); }

 private:
  std::atomic<std::chrono::steady_clock::duration> longest_{};
};

TEST_CASE("the node thread sleeps over ticks that have nothing to do") {
  NotingLoop loop;
  Cluster cluster(1, &loop);
  cluster.Propose("0");
  Member& member = cluster.member(1);
  cluster.Await([&] { return member.applied.size() == 1; });
  // A tick is 2 ms; a heartbeat is due at each fourth.
  cluster.Await([&] { return member.ticks >= 50; });
  CHECK(loop.longest() > std::chrono::milliseconds(2));
  CHECK(loop.longest() <= std::chrono::milliseconds(2) * (1 + kIdleTicksMax));
}

TEST_CASE("any member finds a read point that covers what was applied before") {
  Cluster cluster(3);
  cluster.Propose("x");
  const int leader = cluster.WaitForLeader();
  cluster.Await([&] { return cluster.member(leader).applied.size() == 1; });
  Index applied;
  {
    MutexLock lock(&cluster.mutex);
    applied = cluster.member(leader).last_applied;
  }
  const int follower = leader % 3 + 1;
  Member& asked = cluster.member(follower);
  uint64_t request_id = 0;
  // A follower that does not know the leader yet refuses; the caller asks again.
  while (true) {
    ++request_id;
    asked.node().Post([&asked, request_id] { asked.node().raft().ReadIndex(request_id); });
    cluster.Await([&] { return asked.reads.size() == request_id; });
    MutexLock lock(&cluster.mutex);
    CHECK(asked.reads.back().request_id == request_id);
    if (!asked.reads.back().ok) continue;
    CHECK(asked.reads.back().index >= applied);
    break;
  }
}

}  // namespace
}  // namespace quorate::consensus
