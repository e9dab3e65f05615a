// SPDX-License-Identifier: Apache-2.0

#include "tests/threads/cluster.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "consensus/log/env.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/frontends.h"
#include "rpc/grpc/frontend.h"
#include "rpc/grpc/native/stack.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/disk/incarnation.h"
#include "rpc/zookeeper/listener.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::threads {
namespace {

using consensus::MemberId;

constexpr auto kEqualTimeout = std::chrono::seconds(60);
constexpr auto kReplacementTime = std::chrono::milliseconds(20);

rpc::Config MemberConfig(uint32_t id, const std::string& directory) {
  rpc::Config config;
  config.my_id = id;
  config.data_dir = directory + "/" + std::to_string(id);
  config.log_dir = config.data_dir;
  for (uint32_t member = 1; member <= kMembers; ++member) config.servers[member] = {};
  config.client_address = "127.0.0.1";
  config.tick_time_ms = 500;
  config.min_session_timeout_ms = 1000;
  config.max_session_timeout_ms = 20'000;
  config.max_client_connections = 0;
  config.election_timeout_ms = 600;
  config.heartbeat_ms = 60;
  config.io_threads = 2;
  config.event_history_bytes = 64 << 10;
  config.four_letter_words = {"*"};
  return config;
}

rpc::ReplicaOptions MemberOptions(const rpc::Config& config, const consensus::DataDir& data_dir) {
  rpc::ReplicaOptions options =
      rpc::MakeReplicaOptions(config, RandomBytes::System()->Make(consensus::kClusterIdBytes));
  options.node.checkpoint_entries = 50;
  options.node.raft.directory_epoch = data_dir.directory_epoch();
  options.node.raft.trailing_entries = 3;
  options.node.raft.retained_entries_max = 20;
  options.node.raft.compaction_step_entries = 1;
  options.node.raft.snapshot_chunk_bytes = 4096;
  options.disk_reserve_bytes = 0;
  return options;
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "FAIL %s\n", what.c_str());
  std::abort();
}

class Links final : public rpc::PeerLinks {
 public:
  Links(MemberId self, Network* network) : self_(self), network_(*network) {}

  void Send(std::vector<consensus::Message> messages) override {
    std::map<MemberId, std::string> by_member;
    for (const consensus::Message& message : messages) {
      rpc::AppendMessageFrame(message, &by_member[message.to]);
    }
    for (auto& [to, frames] : by_member) Post(to, std::move(frames));
  }
  void Forward(MemberId to, const std::vector<std::string_view>& commands) override {
    std::string frames;
    rpc::AppendForwardFrame(commands, &frames);
    Post(to, std::move(frames));
  }
  void SendTouches(MemberId to, const std::vector<int64_t>& sessions) override {
    std::string frames;
    rpc::AppendTouchFrame(sessions, &frames);
    Post(to, std::move(frames));
  }
  void SendDiskReport(MemberId to, const rpc::DiskReport& report) override {
    std::string frames;
    rpc::AppendDiskFrame(report, &frames);
    Post(to, std::move(frames));
  }
  void SendDigest(MemberId to, const rpc::DigestNote& note) override {
    std::string frames;
    rpc::AppendDigestFrame(note, &frames);
    Post(to, std::move(frames));
  }
  bool IsSending(MemberId) const override { return false; }
  void Tick() override {}
  int64_t DownForMs(MemberId member) const override {
    return network_.IsCut(self_) || network_.IsCut(member) ? 1000 : 0;
  }
  std::string ProblemOf(MemberId) const override { return ""; }
  void SetMembers(const rpc::PeerAddresses&) override {}
  void SetClusterId(const std::string&) override {}

 private:
  void Post(MemberId to, std::string frames) {
    rpc::SealFrames(&frames);
    network_.Send(self_, to, std::move(frames));
  }

  const MemberId self_;
  Network& network_;
};

// Is slow while a snapshot replaces the tree and the tree is locked, so that reads arrive during
// that.
class SlowFrontend final : public rpc::Frontend {
 public:
  SlowFrontend(std::vector<rpc::Frontends::Entry> frontends, rpc::EventHistory* history)
      : frontends_(std::move(frontends), history) {}

  bool AllowsInlineApply() const override { return frontends_.AllowsInlineApply(); }
  bool WantsNodeValues() const override { return frontends_.WantsNodeValues(); }
  void OnNodeValues(const tree::EventValues& values) override { frontends_.OnNodeValues(values); }
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override {
    frontends_.OnNodeEvent(type, path, zxid, acls);
  }
  void OnSessionAttached(const tree::SessionInfo& session) override {
    frontends_.OnSessionAttached(session);
  }
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override {
    frontends_.OnSessionClosed(session, zxid);
  }
  void OnResult(tree::ApplyResult result) override { frontends_.OnResult(std::move(result)); }
  void OnTreeReplaced(const tree::Tree& tree) override {
    std::this_thread::sleep_for(kReplacementTime);
    frontends_.OnTreeReplaced(tree);
  }
  std::shared_ptr<const rpc::RecentEvents> TakeRecentEvents() const override {
    return frontends_.TakeRecentEvents();
  }
  void OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) override {
    frontends_.OnRecentEvents(parts, zxid);
  }
  std::vector<int64_t> HeldUpSessions() override { return frontends_.HeldUpSessions(); }
  void OnBatchApplied() override { frontends_.OnBatchApplied(); }
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override {
    frontends_.OnSyncDone(proposer_tag, sync_id, zxid);
  }

 private:
  rpc::Frontends frontends_;
};

}  // namespace

// --- The network ---------------------------------------------------------------------------------

Network::Network() {
  thread_ = StartThread("network", [this] { Run(); });
}

Network::~Network() {
  {
    MutexLock lock(&queue_mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Network::Add(MemberId id, rpc::Replica* replica) {
  MutexLock lock(&replicas_mutex_);
  replicas_[id] = replica;
  Reconnect(id);
}

void Network::Remove(MemberId id) {
  MutexLock lock(&replicas_mutex_);
  replicas_.erase(id);
  for (const auto& [other, replica] : replicas_) replica->OnPeerDown(id);
}

void Network::Reconnect(MemberId id) {
  for (const auto& [other, replica] : replicas_) {
    if (other == id) continue;
    replica->OnPeerUp(id);
    replicas_.at(id)->OnPeerUp(other);
  }
}

void Network::Cut(MemberId id) {
  const MemberId before(cut_.exchange(static_cast<uint32_t>(id.value())));
  MutexLock lock(&replicas_mutex_);
  if (before != consensus::kNoMember && replicas_.contains(before)) Reconnect(before);
}

void Network::Send(MemberId from, MemberId to, std::string bytes) {
  MutexLock lock(&queue_mutex_);
  queue_.push_back({from, to, std::move(bytes)});
  changed_.notify_one();
}

void Network::Run() {
  for (;;) {
    std::deque<Parcel> parcels;
    {
      std::unique_lock<std::mutex> lock(queue_mutex_.native());
      changed_.wait(lock,
                    [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ends_ || !queue_.empty(); });
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (!ends_) parcels.swap(queue_);
      }();
    }
    if (parcels.empty()) return;
    for (Parcel& parcel : parcels) Deliver(std::move(parcel));
  }
}

void Network::Deliver(Parcel parcel) {
  if (IsCut(parcel.from) || IsCut(parcel.to)) return;
  auto batch = rpc::FrameDecoder().Decode(std::make_shared<std::string>(std::move(parcel.bytes)));
  if (!batch.ok()) Fail("a batch does not decode: " + std::string(batch.status().message()));
  MutexLock lock(&replicas_mutex_);
  const auto to = replicas_.find(parcel.to);
  if (to == replicas_.end() || !replicas_.contains(parcel.from)) return;
  const absl::Status status = to->second->OnPeerBatch(parcel.from, *std::move(batch));
  if (!status.ok()) Fail("a batch is refused: " + std::string(status.message()));
}

// --- A member ------------------------------------------------------------------------------------

// One run of a member, from a start to a stop.
class Member final : private rpc::ReplicaHost {
 public:
  Member(uint32_t id, const std::string& directory, Network* network)
      : id_(id), config_(MemberConfig(id, directory)), network_(*network), links_(id_, network) {
    consensus::Env* env = consensus::Env::Posix();
    const int64_t now_ms = Clock::System()->WallMs();
    consensus::SegmentLogOptions log_options;
    log_options.segment_bytes = 64u << 10;
    auto data_dir = consensus::DataDir::Open(env, config_.log_dir, id_, log_options,
                                             static_cast<uint64_t>(now_ms));
    if (!data_dir.ok()) Fail(std::string(data_dir.status().message()));
    data_dir_ = *std::move(data_dir);
    auto store = tree::RocksRecordStore::Open(rpc::CheckpointDirectory(config_.data_dir));
    if (!store.ok()) Fail(std::string(store.status().message()));
    store_ = *std::move(store);
    auto incarnation = rpc::NextIncarnation(env, config_.log_dir, now_ms);
    if (!incarnation.ok()) Fail(std::string(incarnation.status().message()));
    replica_ = std::make_unique<rpc::Replica>(
        MemberOptions(config_, *data_dir_), *incarnation, data_dir_.get(), store_.get(), &random_,
        Clock::System(), &links_, static_cast<rpc::ReplicaHost*>(this));
    MakeFrontEnds();
    if (absl::Status s = replica_->Load(); !s.ok()) Fail(std::string(s.message()));
    network_.Add(id_, replica_.get());
    replica_->node().Start();
    native_->Start();
    absl::Status opened = grpc_->Open(native_->services());
    if (opened.ok()) opened = listener_->Start();
    if (!opened.ok()) Fail(std::string(opened.message()));
  }
  // In the order in which a server stops.
  ~Member() override {
    replica_->HandLeadershipOver();
    replica_->node().Stop();
    grpc_->Close();
    native_->Stop();
    listener_->Stop();
    network_.Remove(id_);
    replica_.reset();
  }

  rpc::Replica& replica() { return *replica_; }
  uint16_t zookeeper_port() const { return listener_->port(); }
  uint16_t grpc_port() const { return static_cast<uint16_t>(grpc_->port()); }

 private:
  class Random final : public consensus::RandomSource {
   public:
    uint64_t Next() override { return engine_(); }

   private:
    std::mt19937_64 engine_{std::random_device{}()};
  };

  void MakeFrontEnds() {
    const Clock* clock = Clock::System();
    RandomBytes* random = RandomBytes::System();
    frontend_ =
        std::make_unique<rpc::zk::ZkFrontend>(config_, replica_.get(), clock, random, &history_);
    listener_ = std::make_unique<rpc::zk::ZkListener>(frontend_.get());
    administrators_ = std::make_unique<rpc::Administrators>(config_, clock);
    grpc_ = std::make_unique<rpc::GrpcFrontend>(config_, replica_.get(), replica_.get(),
                                                administrators_.get(), clock);
    native_ = std::make_unique<rpc::native::NativeStack>(
        config_, replica_.get(), administrators_.get(), clock, random, &history_);
    both_ = std::make_unique<SlowFrontend>(
        std::vector<rpc::Frontends::Entry>{{frontend_.get(), rpc::kZooKeeperTags},
                                           {native_->frontend(), rpc::kNativeTags}},
        &history_);
    replica_->SetFrontend(both_.get());
  }

  // rpc::ReplicaHost
  void OnFatal(const absl::Status& error) override { Fail(std::string(error.message())); }
  void OnEnd(absl::Status why) override { Fail(std::string(why.message())); }
  absl::Status SaveIncarnation(uint64_t incarnation) override {
    return rpc::SaveIncarnation(consensus::Env::Posix(), config_.log_dir, incarnation);
  }
  void OnDiverged(const rpc::Divergence&) override { Fail("the trees of two members differ"); }
  void OnStatusPublished() override { grpc_->OnStatusPublished(); }

  const MemberId id_;
  const rpc::Config config_;
  Network& network_;
  Random random_;
  Links links_;
  std::unique_ptr<consensus::DataDir> data_dir_;
  std::unique_ptr<tree::RecordStore> store_;
  rpc::EventHistory history_{static_cast<size_t>(config_.event_history_bytes)};
  std::unique_ptr<rpc::zk::ZkFrontend> frontend_;
  std::unique_ptr<rpc::zk::ZkListener> listener_;
  std::unique_ptr<rpc::Administrators> administrators_;
  std::unique_ptr<rpc::GrpcFrontend> grpc_;
  std::unique_ptr<rpc::native::NativeStack> native_;
  std::unique_ptr<SlowFrontend> both_;
  std::unique_ptr<rpc::Replica> replica_;  // destroyed before the front ends that it notifies
};

// --- The cluster ---------------------------------------------------------------------------------

Cluster::Cluster(std::string directory) : directory_(std::move(directory)) {
  for (uint32_t member = 1; member <= kMembers; ++member) Start(member);
}

Cluster::~Cluster() {
  for (uint32_t member = 1; member <= kMembers; ++member) Stop(member);
}

void Cluster::Start(uint32_t member) {
  auto started = std::make_unique<Member>(member, directory_, &network_);
  ports_[member].zookeeper = started->zookeeper_port();
  ports_[member].grpc = started->grpc_port();
  MutexLock lock(&mutex_);
  ASSERT(members_[member] == nullptr);
  members_[member] = std::move(started);
}

void Cluster::Stop(uint32_t member) {
  ports_[member].zookeeper = 0;
  ports_[member].grpc = 0;
  std::unique_ptr<Member> stopped;
  {
    MutexLock lock(&mutex_);
    stopped.swap(members_[member]);
  }
}

void Cluster::Cut(uint32_t member) { network_.Cut(MemberId(member)); }

uint32_t Cluster::Leader() {
  MutexLock lock(&mutex_);
  for (uint32_t member = 1; member <= kMembers; ++member) {
    if (members_[member] != nullptr && members_[member]->replica().status().is_leader)
      return member;
  }
  return 0;
}

bool Cluster::MoveLeadership() {
  const uint32_t leader = Leader();
  if (leader == 0) return false;
  MutexLock lock(&mutex_);
  if (members_[leader] == nullptr) return false;
  members_[leader]->replica().TransferLeadership(consensus::kNoMember, [](absl::Status) {});
  return true;
}

bool Cluster::AwaitEqual() {
  const auto end = std::chrono::steady_clock::now() + kEqualTimeout;
  while (std::chrono::steady_clock::now() < end) {
    std::vector<std::pair<tree::Zxid, uint64_t>> trees;
    {
      MutexLock lock(&mutex_);
      for (uint32_t member = 1; member <= kMembers; ++member) {
        if (members_[member] == nullptr || !members_[member]->replica().status().serving()) break;
        const rpc::GuardedTree::ReadGuard tree = members_[member]->replica().ReadTree();
        trees.emplace_back(tree->last_zxid(), tree->digest());
      }
    }
    if (trees.size() == kMembers && trees[0].first == trees[1].first &&
        trees[0].first == trees[2].first) {
      return trees[0] == trees[1] && trees[0] == trees[2];
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace quorate::threads
