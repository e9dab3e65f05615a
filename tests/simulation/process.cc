// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/process.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/membership.h"
#include "rpc/config/server_line.h"
#include "rpc/frontend/config_node.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/disk/incarnation.h"
#include "rpc/member/testing/file_record_store.h"
#include "tests/simulation/store_disk.h"
#include "tree/command.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::simulation {
namespace {

using consensus::Index;
using consensus::MemberId;

constexpr char kDirectory[] = "/data";
constexpr int64_t kSteadyWorkUs = 100;
// So small that a checkpoint consists of several files.
constexpr size_t kStoreBufferBytes = 16u << 10;
// The members compare their trees very often.
constexpr rpc::DigestComparisonOptions kDigestOptions{.entries = 20,
                                                      .interval_ms = 100,
                                                      .ask_again_ms = 300,
                                                      .patience_ms = 3000,
                                                      .complaint_ms = 1000};

rpc::Config MakeConfig(const Options& options, size_t number) {
  rpc::Config config;
  config.data_dir = config.log_dir = kDirectory;
  config.my_id = static_cast<uint32_t>(number + 1);
  const ClusterOptions& cluster = options.cluster;
  if (options.machines() > 1) {
    for (size_t i = 0; i < cluster.voters + cluster.learners; ++i) {
      rpc::ServerLine line;
      line.host = fmt::format("machine{}", i + 1);
      line.peer_port = 2888;
      line.observer = i >= cluster.voters;
      config.servers[static_cast<uint32_t>(i + 1)] = line;
    }
  }
  config.client_port = 2181;
  config.tick_time_ms = options.clients.tick_time_ms;
  config.min_session_timeout_ms = options.clients.min_session_timeout_ms;
  config.max_session_timeout_ms = options.clients.max_session_timeout_ms;
  config.max_client_connections = 0;
  if (const size_t bytes = options.clients.native_history_bytes; bytes > 0) {
    config.event_history_bytes = static_cast<int>(bytes);
  }
  config.io_threads = 1;
  config.four_letter_words = {"*"};
  config.heartbeat_ms = options.limits.heartbeat_ticks * options.limits.tick_ms;
  config.election_timeout_ms = options.limits.election_ticks * options.limits.tick_ms;
  return config;
}

// The interval at which a server measures its free space.
constexpr int64_t kDiskSpaceIntervalMs = 500;

template <class T>
void SetIfGiven(T value, T* field) {
  if (value != 0) *field = value;
}

rpc::ReplicaOptions MakeReplicaOptions(const Options& options, const rpc::Config& config,
                                       Random* random) {
  std::string cluster_id;
  for (size_t i = 0; i < consensus::kClusterIdBytes; ++i) {
    cluster_id += static_cast<char>(random->Next());
  }
  rpc::ReplicaOptions replica = rpc::MakeReplicaOptions(config, std::move(cluster_id));
  replica.digests = kDigestOptions;
  replica.disk_reserve_bytes = 0;  // only a full log, or one without ballast, counts as low
  const LimitOptions& limits = options.limits;
  replica.node.tick_ms = limits.tick_ms;
  replica.node.checkpoint_entries = limits.checkpoint_entries;
  if (limits.checkpoint_entries == 0) {
    replica.node.checkpoint_entries = replica.node.checkpoint_bytes = ~uint64_t{0};
  }
  if (!limits.applies_here) replica.node.apply_here_entries_max = 0;
  if (!limits.persists_here) replica.node.persist_here_bytes_max = 0;
  consensus::RaftOptions& raft = replica.node.raft;
  raft.election_ticks = limits.election_ticks;
  raft.heartbeat_ticks = limits.heartbeat_ticks;
  SetIfGiven(limits.append_bytes_max, &raft.append_bytes_max);
  SetIfGiven(limits.inflight_messages_max, &raft.inflight_messages_max);
  SetIfGiven(limits.inflight_bytes_max, &raft.inflight_bytes_max);
  SetIfGiven(limits.uncommitted_bytes_max, &raft.uncommitted_bytes_max);
  SetIfGiven(limits.cached_bytes_max, &raft.cached_bytes_max);
  SetIfGiven(limits.apply_bytes_max, &raft.apply_bytes_max);
  SetIfGiven(limits.forward_window_bytes, &replica.forward_window_bytes);
  if (limits.checkpoint_entries > 0) {
    raft.trailing_entries = limits.trailing_entries;
    raft.retained_entries_max = limits.retained_entries_max;
    raft.compaction_step_entries = limits.compaction_step_entries;
    raft.snapshot_chunk_bytes = limits.snapshot_chunk_bytes;
    raft.snapshot_bytes_per_tick = limits.snapshot_bytes_per_tick;
    SetIfGiven(limits.snapshot_window_bytes_max, &raft.snapshot_window_bytes_max);
    SetIfGiven(limits.transfer_bytes_max, &raft.transfer_bytes_max);
    SetIfGiven(limits.snapshot_stall_ticks, &raft.snapshot_stall_ticks);
    raft.retained_bytes_max = std::min(raft.retained_bytes_max, raft.transfer_bytes_max);
  }
  return replica;
}

// Sets the server lines of the configuration to the newest membership that this server knows, as a
// careful administrator does when the membership was changed in the running cluster.
void KeepServerLines(consensus::DataDir& data_dir, const tree::RecordStore& store,
                     consensus::Membership* configured) {
  std::optional<consensus::Membership> newest;
  Index covered;
  if (const auto metadata = store.newest(); metadata.has_value()) {
    if (auto meta = rpc::DecodeCheckpointMetadata(*metadata); meta.ok()) {
      newest = meta->membership;
      covered = meta->index;
    }
  }
  for (const consensus::Entry& entry : data_dir.log().control_entries()) {
    if (entry.kind != consensus::EntryKind::kMembership || entry.index <= covered) continue;
    if (auto logged = consensus::DecodeMembership(entry.payload.view()); logged.ok()) {
      newest = *std::move(logged);
    }
  }
  if (!newest.has_value()) return;
  newest->outgoing.clear();
  newest->addresses.clear();
  *configured = *std::move(newest);
}

}  // namespace

absl::StatusOr<std::unique_ptr<consensus::DataDir>> Process::OpenDataDir(Machine* machine,
                                                                         consensus::Env* env) {
  consensus::SegmentLogOptions options;
  SetIfGiven(machine->site().simulation->options().limits.segment_bytes, &options.segment_bytes);
  return consensus::DataDir::Open(env, kDirectory,
                                  MemberId(static_cast<uint32_t>(machine->number() + 1)), options,
                                  consensus::kFirstDirectoryEpoch);
}

absl::StatusOr<std::unique_ptr<tree::RecordStore>> Process::OpenStore(Machine* machine,
                                                                      consensus::Env* env) {
  if (StoreDisk* disk = machine->store_disk(); disk != nullptr) {
    return tree::RocksRecordStore::Open(disk->path(), {disk->env(), kStoreBufferBytes});
  }
  return rpc::FileRecordStore::Open(env, std::string(kDirectory) + "/checkpoint");
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(Machine* machine) {
  auto data_dir = OpenDataDir(machine, &machine->env());
  if (!data_dir.ok()) return data_dir.status();
  auto store = OpenStore(machine, &machine->env());
  if (!store.ok()) return store.status();
  auto incarnation = rpc::NextIncarnation(&machine->env(), kDirectory, machine->clock().WallMs());
  if (!incarnation.ok()) return incarnation.status();
  auto process = std::unique_ptr<Process>(
      new Process(machine, *std::move(data_dir), *std::move(store), *incarnation));
  if (absl::Status status = process->Begin(); !status.ok()) {
    process->End(/*silent=*/true);
    return status;
  }
  return process;
}

Process::Process(Machine* machine, std::unique_ptr<consensus::DataDir> data_dir,
                 std::unique_ptr<tree::RecordStore> store, uint64_t incarnation)
    : machine_(*machine),
      simulation_(*machine->site().simulation),
      checker_(*machine->site().checker),
      latency_random_(simulation_.random("latency")),
      number_(machine->number()),
      lifetime_(std::make_shared<ProcessLifetime>(&simulation_)),
      config_(MakeConfig(simulation_.options(), number_)),
      raft_random_(Random(simulation_.random("elections").Next())),
      byte_random_(Random(simulation_.random("passwords").Next())),
      data_dir_(std::move(data_dir)),
      store_(std::move(store)),
      oracle_(MemberId(static_cast<uint32_t>(number_ + 1)), simulation_.options().limits.tick_ms),
      links_(machine->site().peers, number_, lifetime_, machine->site().checker),
      sockets_(machine->site().clients, number_, lifetime_) {
  simulation_.Line(fmt::format("{}", number_ + 1), "starts: {}, log up to {}, incarnation {}",
                   ToString(data_dir_->hard_state()), data_dir_->log().last_index().value(),
                   incarnation);
  checker_.OnStart(number_, *data_dir_);
  rpc::ReplicaOptions options =
      MakeReplicaOptions(simulation_.options(), config_, &simulation_.random("cluster ids"));
  KeepServerLines(*data_dir_, *store_, &options.node.raft.membership);
  if (const auto& edited = machine->edited_lines(); edited.has_value()) {
    options.node.raft.membership = *edited;
  }
  ConfigureAddresses(&options);
  options.node.raft.directory_epoch = data_dir_->directory_epoch();
  options.node.raft.version = machine->version();
  options.node.raft.feeds_observers =
      (simulation_.options().cluster.feeders >> number_ & uint64_t{1}) != 0;
  replica_ =
      std::make_unique<rpc::Replica>(std::move(options), incarnation, data_dir_.get(), store_.get(),
                                     &raft_random_, &machine->clock(), &links_, this);
  frontend_ = std::make_unique<rpc::zk::ZkFrontend>(config_, replica_.get(), &machine->clock(),
                                                    &byte_random_, &history_);
  loop_ = std::make_unique<rpc::zk::ConnectionLoop>(frontend_.get(), &sockets_);
  std::vector<rpc::Frontends::Entry> entries{{frontend_.get(), rpc::kZooKeeperTags}};
  if (simulation_.options().clients.native_count > 0) {
    native_ =
        std::make_unique<NativeServer>(config_, replica_.get(), &machine->clock(), &byte_random_,
                                       machine->site().clients, number_, lifetime_, &history_);
    entries.push_back({native_->frontend(), rpc::kNativeTags});
  }
  frontends_.emplace(std::move(entries), &history_);
  replica_->SetFrontend(this);
  replica_->SetApplyObserver(this);
}

// Every configuration names all machines, also those that may become members later. So a server that
// has to be admitted knows whoever leads by then.
void Process::ConfigureAddresses(rpc::ReplicaOptions* options) {
  if (options->servers.empty()) return;  // standalone
  SimPeerNetwork& peers = *machine_.site().peers;
  rpc::PeerAddresses others;
  for (size_t member = 0; member < peers.size(); ++member) {
    configured_addresses_.push_back(peers.host(member).newest_address);
    rpc::ServerLine line = peers.LineAt(member, configured_addresses_.back());
    if (member != number_) {
      others[MemberId(static_cast<uint32_t>(member + 1))] = {line.host, line.peer_port};
    }
    rpc::ServerLine& configured = options->servers[static_cast<uint32_t>(member + 1)];
    line.observer = configured.observer;
    configured = line;
  }
  links_.Configure(others);
}

// A machine had its old addresses until all members knew the new ones. A log that lost its end may
// name an old address again.
void Process::RestoreAddresses() {
  for (const auto& [id, text] : raft().membership().addresses) {
    const absl::StatusOr<rpc::ServerLine> line = rpc::ParseServerLine(text);
    ASSERT(line.ok(), "the simulator's addresses are well formed");
    machine_.site().peers->Restore(id.value() - 1, {line->host, line->peer_port});
  }
}

bool Process::IsConfiguredWithNewest(size_t member) const {
  return configured_addresses_[member] == machine_.site().peers->host(member).newest_address;
}

absl::Status Process::Begin() {
  if (absl::Status status = replica_->Load(); !status.ok()) return status;
  checker_.OnMembershipLoaded(number_, raft().membership());
  RestoreAddresses();
  if (applied_ == Index{0}) checker_.OnStateLoaded(number_, applied_, 0);
  links_.Start(
      this, [this] { Poke(); }, data_dir_->cluster_id());
  sockets_.Start(loop_.get(), [this] { Poke(); });
  if (native_ != nullptr) native_->Start([this] { Poke(); });
  ScheduleTick();
  Poke();
  return absl::OkStatus();
}

Process::~Process() { ASSERT(ended_, "ended before"); }

void Process::End(bool silent) {
  lifetime_->End();
  links_.Close(silent);
  sockets_.CloseAll(silent);
  if (native_ != nullptr) native_->CloseAll(silent);
  machine_.refusal_times().Set(false, simulation_.now_us());
  ended_ = true;
}

// --- Work ----------------------------------------------------------------------------------------

void Process::ScheduleTick() {
  const int64_t tick_us = int64_t{simulation_.options().limits.tick_ms} * 1000;
  lifetime_->After(machine_.clock().ToVirtualUs(tick_us), [this] {
    ScheduleTick();
    MeasureDisk();
    if (!lifetime_->alive()) return;
    TickDiskPressureOracle();
    const ClusterChecker::Progress before = progress();
    replica_->node().TickNow();
    checker_.OnProgress(number_, before, progress());
    checker_.OnTick(number_, raft());
    Poke();
  });
}

void Process::MeasureDisk() {
  const int64_t interval_ticks =
      std::max<int64_t>(1, kDiskSpaceIntervalMs / simulation_.options().limits.tick_ms);
  if (ticks_++ % interval_ticks != 0) return;
  if (data_dir_->log().ballast_used()) {
    simulation_.trace().Count("disk: the log is in its ballast file");
  }
  constexpr uint64_t kMuch = uint64_t{1} << 40;
  const uint64_t free_bytes = machine_.disk_is_full() ? 0 : kMuch;
  replica_->OnDiskSpace({free_bytes, free_bytes});
}

void Process::TickDiskPressureOracle() {
  if (!replica_->node().HasWork(Work::kLog)) oracle_.OnLogIdle();
  const DiskPressureOracle::View view{
      raft().leader(), raft().membership().voters,
      [this](MemberId member) { return links_.DownForMs(member) == 0; }, machine_.disk_is_full()};
  machine_.refusal_times().Set(oracle_.Tick(view), simulation_.now_us());
}

void Process::Poke() {
  if (!lifetime_->alive()) return;
  for (Work work : kWorks) {
    bool& scheduled = scheduled_[static_cast<size_t>(work)];
    if (scheduled || !replica_->node().HasWork(work)) continue;
    scheduled = true;
    lifetime_->After(LatencyUs(work), [this, work] { Step(work); });
  }
  if (native_ != nullptr) native_->Poke();
}

int64_t Process::LatencyUs(Work work) {
  const Options& options = simulation_.options();
  const int64_t work_us = simulation_.steady() ? std::min(options.member.work_us, kSteadyWorkUs)
                                               : options.member.work_us;
  const int64_t latency = latency_random_.LongTail(work_us);
  if (work != Work::kLog && work != Work::kCheckpoint) return latency;
  return std::max(latency + latency_random_.LongTail(options.disk.write_us),
                  machine_.disk_stalled_until_us() - simulation_.now_us());
}

ClusterChecker::Progress Process::progress() {
  return {raft().term(), raft().commit_index(), raft().role() == consensus::Role::kLeader};
}

void Process::Step(Work work) {
  scheduled_[static_cast<size_t>(work)] = false;
  simulation_.trace().Mix(number_ << 8 | static_cast<uint64_t>(work));
  const ClusterChecker::Progress before = progress();
  replica_->node().Step(work);
  if (!lifetime_->alive()) {
    // The step may have written a membership to the log before the server died.
    if (work == Work::kNode) checker_.RecordMembership(raft().membership());
    return;
  }
  if (work == Work::kLog && !replica_->node().HasWork(Work::kLog)) oracle_.OnLogIdle();
  if (work == Work::kNode) {
    checker_.OnProgress(number_, before, progress());
    raft().CheckInvariants();
    // The member has recovered all that its disk may have lost.
    if (!machine_.counts() && !machine_.has_hidden_fault() &&
        raft().durable_index() >= machine_.whole_with() &&
        raft().member_state() == consensus::MemberState::kNormal &&
        data_dir_->hard_state().member_state == consensus::MemberState::kNormal) {
      machine_.SetCounts();
    }
  }
  Poke();
}

void Process::Post(std::function<void()> task) {
  replica_->node().Post(std::move(task));
  Poke();
}

std::string Process::Describe() { return raft().ToString(); }

// --- rpc::PeerHandler ----------------------------------------------------------------------------

absl::Status Process::OnPeerBatch(MemberId from, rpc::PeerBatch batch) {
  if (batch.disk_report) {
    // As in the replica: processed on the node thread.
    replica_->node().Post(
        [this, from, report = *batch.disk_report] { oracle_.OnReport(from, report); });
  }
  return replica_->OnPeerBatch(from, std::move(batch));
}

// --- rpc::ReplicaHost ----------------------------------------------------------------------------

void Process::OnFatal(const absl::Status& error) {
  if (!lifetime_->alive()) return;
  const bool expected = machine_.env().powered_off() || machine_.disk_is_full() ||
                        machine_.disk_fails() || !machine_.disk_is_whole();
  if (!expected) {
    simulation_.Fail("a server does not end without a fault",
                     fmt::format("server {}: {}", number_ + 1, std::string(error.message())));
  }
  simulation_.trace().Count("server: ended by its disk");
  machine_.DiesSoon(this, std::string(error.message()));
}

void Process::OnEnd(absl::Status why) {
  if (!lifetime_->alive()) return;
  // In a simulation no server runs on an older directory of its member.
  if (why.message().find("later data directory") != std::string_view::npos) {
    simulation_.Fail("no message displaces a member",
                     fmt::format("server {}: {}", number_ + 1, std::string(why.message())));
  }
  simulation_.trace().Count("server: ended by itself");
  machine_.DiesSoon(this, std::string(why.message()));
}

absl::Status Process::SaveIncarnation(uint64_t incarnation) {
  return rpc::SaveIncarnation(&machine_.env(), kDirectory, incarnation);
}

void Process::OnDiverged(const rpc::Divergence& divergence) {
  if (!lifetime_->alive()) return;
  simulation_.Fail("no server finds that its tree differs",
                   fmt::format("server {} at {}, when {} is committed: digest {:x}, a majority's "
                               "{:x}",
                               number_ + 1, divergence.zxid, checker_.committed().value(),
                               divergence.own_digest, divergence.majority_digest));
}

// --- rpc::Frontend -------------------------------------------------------------------------------

void Process::OnTreeReplaced(const tree::Tree& tree) {
  applied_ = Index{static_cast<uint64_t>(tree.last_zxid().value())};
  closed_sessions_.clear();
  checker_.OnStateLoaded(number_, applied_, tree.digest());
  CheckConfigNode(tree);
  frontends_->OnTreeReplaced(tree);
}

void Process::CheckConfigNode(const tree::Tree& tree) {
  checker_.OnConfigNode(number_, applied_, rpc::ReadMembersText(tree, ""));
}

void Process::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                          const tree::EventAcls& acls) {
  frontends_->OnNodeEvent(type, path, zxid, acls);
}

void Process::OnSessionAttached(const tree::SessionInfo& session) {
  frontends_->OnSessionAttached(session);
  checker_.OnSessionAttached(number_, session);
}

void Process::OnSessionClosed(tree::SessionId session, tree::Zxid zxid) {
  frontends_->OnSessionClosed(session, zxid);
  closed_sessions_.push_back(session);
}

void Process::OnResult(tree::ApplyResult result) {
  checker_.OnResult(number_, result);
  frontends_->OnResult(std::move(result));
}

bool Process::AllowsInlineApply() const { return frontends_->AllowsInlineApply(); }

std::shared_ptr<const rpc::RecentEvents> Process::TakeRecentEvents() const {
  return frontends_->TakeRecentEvents();
}

void Process::OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) {
  frontends_->OnRecentEvents(parts, zxid);
}

void Process::OnBatchApplied() { frontends_->OnBatchApplied(); }

void Process::OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) {
  frontends_->OnSyncDone(proposer_tag, sync_id, zxid);
}

void Process::OnEntryApplied(const consensus::Entry& entry, const tree::Tree& tree) {
  if (entry.index != applied_ + 1) {
    simulation_.Fail("nothing is skipped", fmt::format("server {} applies {} after {}", number_ + 1,
                                                       ToString(entry), applied_.value()));
  }
  applied_ = entry.index;
  checker_.OnApplied(number_, entry, tree.digest());
  if (entry.kind == consensus::EntryKind::kMembership) CheckConfigNode(tree);
  for (tree::SessionId session : std::exchange(closed_sessions_, {})) {
    const auto header = tree::DecodeHeader(entry.payload.view());
    ASSERT(header.ok(), "it was applied");
    checker_.OnSessionClosed(number_, session,
                             tree::Zxid(static_cast<int64_t>(entry.index.value())),
                             header->kind == tree::CommandKind::kExpireSession);
  }
}

}  // namespace quorate::simulation
