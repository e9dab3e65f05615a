// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/seeded_bug.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/membership/members.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

// When this many bytes of accepted writes are not applied yet, front ends stop reading from
// clients.
constexpr size_t kWaitingBytesMax = 64u << 20;
// The most sessions that are expired in one tick.
constexpr size_t kExpiriesAtOnceMax = 512;
// No cluster reaches this term by elections. A greater one is corrupt and must not be adopted,
// because terms could then not grow any more.
constexpr consensus::Term kTermMax{uint64_t{1} << 46};
// Forwarded writes that are not applied within this many election timeouts are forwarded again.
constexpr int kResendElections = 4;
// A server that was without a leader for this many election timeouts accepts no new clients.
constexpr int kInTouchElections = 3;

static_assert(tree::kVersionFirst == consensus::kVersionBase);
static_assert(tree::kVersionTransactions <= consensus::kVersionNewest, "one numbering for all");
static_assert(kVersionDigests <= consensus::kVersionNewest);

// Returns the length of a tick, short enough that members draw different election timeouts. Ticks
// cost little, because an idle server sleeps from heartbeat to heartbeat.
int TickMs(const Config& config) { return std::max(1, config.heartbeat_ms / 4); }

int64_t MsBetween(std::chrono::steady_clock::time_point from,
                  std::chrono::steady_clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
}

// The least time without a leader before read-only mode, as in ZooKeeper: this time, or tickTime if
// that is longer.
constexpr int kReadOnlyAfterMsMin = 2000;
// The bytes of applied entries that a standalone server keeps in memory. It needs few, because no
// follower reads them.
constexpr size_t kStandaloneCachedBytes = 1u << 20;
// The most that the log keeps before a checkpoint for members that lag or are away: as many
// entries, and as many bytes, as make this many checkpoints due.
constexpr uint64_t kRetainedCheckpoints = 5;
constexpr uint64_t kRetainedCheckpointBytes = 16;

// The bits of a read id below the incarnation. An incarnation is a time in milliseconds, and no
// server starts 2^20 reads in a millisecond.
constexpr int kReadIdBits = 20;

// How often the sessions of stalled threads are touched at the leader.
constexpr int kHeldUpTouchMs = 100;

// The interval at which members report that a disk is low; the time after which such a report
// expires; and how long a leader whose disk is low tries to transfer leadership before it refuses
// writes that add data.
constexpr int kDiskReportMs = 200;
constexpr int kDiskForgetMs = 2000;
constexpr int kDiskPatienceMs = 5000;

DiskGuard::Options DiskGuardOptions(const ReplicaOptions& options) {
  const auto ticks = [&](int ms) { return std::max(1, ms / options.node.tick_ms); };
  return {options.node.raft.self, ticks(kDiskReportMs), ticks(kDiskForgetMs),
          ticks(kDiskPatienceMs)};
}

// Returns how much older a session may get from one tick to the next: by the longest sleep of a
// leader and one tick. If more time has passed, the process was paused.
int64_t TrackedMsMax(const ReplicaOptions& options) {
  return (options.node.raft.heartbeat_ticks + 1) * int64_t{options.node.tick_ms};
}

// Returns the reserve of free space, by default enough for the next log file and for a checkpoint.
uint64_t DiskReserve(const Config& config) {
  constexpr uint64_t kMiB = 1u << 20;
  if (config.disk_reserve_mb >= 0) return static_cast<uint64_t>(config.disk_reserve_mb) * kMiB;
  constexpr uint64_t kSegments = 2;
  return kSegments * (config.log_segment_bytes > 0 ? static_cast<uint64_t>(config.log_segment_bytes)
                                                   : consensus::SegmentLogOptions().segment_bytes);
}

// Returns for how long a reconfig waits until new participants have caught up.
int ReconfigTimeoutMs(const Config& config) {
  constexpr int kInitLimitDefault = 10;  // as ZooKeeper's sample
  constexpr int64_t kMsMax = 24 * 3600 * 1000;
  const int64_t ticks = config.init_limit > 0 ? config.init_limit : kInitLimitDefault;
  return static_cast<int>(std::min(ticks * config.tick_time_ms, kMsMax));
}

}  // namespace

ReplicaOptions MakeReplicaOptions(const Config& config, std::string cluster_id_if_new) {
  consensus::NodeOptions node;
  node.tick_ms = TickMs(config);
  node.raft.self = MemberId(config.my_id);
  for (const auto& [id, server] : config.servers) {
    auto& group = server.observer ? node.raft.membership.learners : node.raft.membership.voters;
    group.push_back(MemberId(id));
  }
  if (config.standalone()) {
    node.raft.membership.voters = {node.raft.self};
    node.raft.cached_bytes_max = kStandaloneCachedBytes;
  }
  node.raft.feeds_observers = config.observer_master_port != 0;
  node.raft.heartbeat_ticks = std::max(1, config.heartbeat_ms / node.tick_ms);
  node.raft.election_ticks =
      std::max(node.raft.heartbeat_ticks + 1, config.election_timeout_ms / node.tick_ms);
  node.raft.cluster_id_if_new = std::move(cluster_id_if_new);
  if (config.cluster_version_max > 0) {
    node.raft.version =
        std::min(node.raft.version, static_cast<uint32_t>(config.cluster_version_max));
  }
  if (config.snap_count > 0) node.checkpoint_entries = static_cast<uint64_t>(config.snap_count);
  // The changes of one checkpoint must fit into the ballast file.
  if (config.log_segment_bytes > 0) {
    node.checkpoint_bytes =
        std::min(node.checkpoint_bytes, static_cast<uint64_t>(config.log_segment_bytes));
  }
  // The log keeps a few checkpoints' worth of entries for members that are away or lag.
  node.raft.retained_entries_max =
      std::max(node.raft.trailing_entries, kRetainedCheckpoints * node.checkpoint_entries);
  node.raft.retained_bytes_max = kRetainedCheckpointBytes * node.checkpoint_bytes;
  return {.node = std::move(node),
          .standalone = config.standalone(),
          .tick_time_ms = config.tick_time_ms,
          .election_timeout_ms = config.election_timeout_ms,
          .container_check_interval_ms = config.container_check_interval_ms,
          .container_max_per_minute = config.container_max_per_minute,
          .read_only_after_ms = config.read_only_mode && !config.standalone()
                                    ? std::max(kReadOnlyAfterMsMin, config.tick_time_ms)
                                    : 0,
          .disk_reserve_bytes = DiskReserve(config),
          .servers = config.servers,
          .reconfig_enabled = config.reconfig_enabled,
          .standalone_enabled = config.standalone_enabled,
          .reconfig_timeout_ms = ReconfigTimeoutMs(config),
          .data_dir = config.log_dir,
          .checkpoint_dir = CheckpointDirectory(config.data_dir)};
}

Replica::Replica(ReplicaOptions options, uint64_t incarnation, consensus::DataDir* data_dir,
                 tree::RecordStore* store, consensus::RandomSource* random, const Clock* clock,
                 PeerLinks* links, ReplicaHost* host)
    : options_(std::move(options)),
      proposer_{static_cast<uint16_t>(options_.node.raft.self.value()), incarnation},
      clock_(clock),
      links_(links),
      host_(host),
      data_dir_(data_dir),
      random_(random),
      replicated_(proposer_),
      router_(proposer_, kResendElections * options_.node.raft.election_ticks, this,
              options_.forward_window_bytes),
      tracker_(options_.tick_time_ms, TrackedMsMax(options_)),
      containers_(options_.container_check_interval_ms, options_.container_max_per_minute),
      digests_(options_.node.raft.self, options_.digests, this),
      disk_guard_(DiskGuardOptions(options_)),
      last_tick_(clock->Now()),
      not_serving_since_(clock->Now()),
      next_read_((incarnation << kReadIdBits) + 1),
      next_reconfig_(next_read_),
      looking_since_(clock->Now()) {
  counts_.lookings = 1;
  status_.standalone = options_.standalone;
  status_.voters = options_.node.raft.membership.voters.size();
  status_.observer = IsObserver(options_.node.raft.membership);
  status_.leader_contact_age_ms = INT32_MAX;
  status_at_ = contact_at_ = clock_->Now();
  cluster_view_.self = options_.node.raft.self;
  cluster_view_.cluster_id = data_dir_->cluster_id();
  if (store != nullptr) {
    checkpoints_.emplace(store, &replicated_, clock, options_.checkpoint_ballast);
  }
}

absl::Status Replica::Load() {
  ASSERT(node_ == nullptr, "once");
  std::optional<consensus::SnapshotMeta> newest;
  if (checkpoints_.has_value()) {
    if (absl::Status s = checkpoints_->Load(); !s.ok()) return s;
    newest = checkpoints_->newest();
  }
  if (newest.has_value()) {
    if (absl::Status s = CheckBelongs(*newest); !s.ok()) return s;
    if (absl::Status s = data_dir_->AlignLog(newest->index, newest->term); !s.ok()) return s;
  } else if (data_dir_->log().base_index() > consensus::Index{0}) {
    return absl::DataLossError(absl::StrCat(
        options_.data_dir, ": the log begins behind entry ", data_dir_->log().base_index().value(),
        ", and there is no checkpoint of what was before; `quorate verify` with the data directory "
        "shows all that is wrong, and `quorate rebuild` puts the data aside, so that the member is "
        "filled again by the others"));
  }
  const uint64_t loaded = newest.has_value() ? newest->index.value() : 0;
  const uint64_t last = data_dir_->log().last_index().value();
  if (last > loaded) {
    replicated_.ExpectReplay(consensus::Index(loaded + 1), consensus::Index(last), clock_);
  }
  consensus::NodeOptions node = options_.node;
  auto membership = data_dir_->SettleMembership(node.raft.membership, newest, options_.standalone);
  if (!membership.ok()) return membership.status();
  node.raft.membership = *std::move(membership);
  node_ = std::make_unique<consensus::Node>(std::move(node), data_dir_, random_, &replicated_,
                                            checkpoints_.has_value() ? &*checkpoints_ : nullptr,
                                            links_, static_cast<consensus::NodeObserver*>(this));
  if (newest.has_value()) OnApplied(newest->index);
  counts_.commits = 0;
  return absl::OkStatus();
}

absl::Status Replica::CheckBelongs(const consensus::SnapshotMeta& newest) const {
  const std::string& cluster_id = data_dir_->cluster_id();
  if (!cluster_id.empty() && !newest.cluster_id.empty() && newest.cluster_id != cluster_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.checkpoint_dir, ": the checkpoint is of cluster ",
                     absl::BytesToHexString(newest.cluster_id), ", but the log in ",
                     options_.data_dir, " of cluster ", absl::BytesToHexString(cluster_id),
                     "; point dataDir and dataLogDir to directories that belong together"));
  }
  // The member's votes and acknowledgements were lost with the old log.
  if (data_dir_->hard_state().member_state == consensus::MemberState::kNew) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.checkpoint_dir, ": there is a checkpoint, but the log in ", options_.data_dir,
        " is new; point dataLogDir to the log that belongs to it, or move both directories away "
        "and start again, and the member is rebuilt from the others"));
  }
  return absl::OkStatus();
}

Replica::~Replica() = default;

void Replica::SetFrontend(Frontend* frontend) {
  frontend_ = frontend;
  replicated_.SetFrontend(frontend);
  replicated_.SetMarks(&marks().applied, clock_);
}

void Replica::HandLeadershipOver() {
  node_->Post([this] {
    if (node_->raft().TransferLeadership(consensus::kNoMember).ok()) {
      spdlog::info("handing leadership over before the stop");
    }
  });
}

// --- Service -------------------------------------------------------------------------------------

void Replica::Submit(CommandBatch batch) {
  size_t bytes = 0;
  for (const CommandBatch::Range& range : batch.commands) bytes += range.size;
  waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  auto shared = std::make_shared<CommandBatch>(std::move(batch));
  node_->Post([this, shared] { router_.Submit(std::move(*shared)); });
}

bool Replica::congested() const {
  return waiting_bytes_.load(std::memory_order_relaxed) > kWaitingBytesMax;
}

void Replica::Sync(uint32_t proposer_tag, uint64_t sync_id) {
  node_->Post([this, proposer_tag, sync_id] { StartSync({proposer_tag, sync_id}); });
}

void Replica::StartSync(PendingSync sync) {
  const uint64_t request_id = next_read_++;
  reads_[request_id] = sync;
  node_->raft().ReadIndex(request_id);
}

void Replica::FinishSync(const PendingSync& sync, consensus::Index applied) {
  const tree::Zxid zxid(static_cast<int64_t>(applied.value()));
  if (sync.done != nullptr) {
    sync.done(zxid);
  } else {
    frontend_->OnSyncDone(sync.proposer_tag, sync.sync_id, zxid);
  }
}

void Replica::Touch(std::vector<int64_t> sessions) {
  auto shared = std::make_shared<std::vector<int64_t>>(std::move(sessions));
  node_->Post([this, shared] { TouchEverywhere(*shared); });
}

void Replica::TouchEverywhere(const std::vector<int64_t>& sessions) {
  TouchOnNodeThread(sessions);
  if (raft_status_.leader != consensus::kNoMember &&
      raft_status_.leader != options_.node.raft.self) {
    links_->SendTouches(raft_status_.leader, sessions);
  }
}

void Replica::TouchHeldUp() {
  const auto now = clock_->Now();
  if (frontend_ == nullptr || MsBetween(held_up_touched_, now) < kHeldUpTouchMs) return;
  held_up_touched_ = now;
  const std::vector<int64_t> sessions = frontend_->HeldUpSessions();
  if (!sessions.empty()) TouchEverywhere(sessions);
}

void Replica::CatchUpOnce() {
  if (is_catching_up_ || raft_status_.leader == consensus::kNoMember) return;
  is_catching_up_ = true;
  StartSync({.done = [this](tree::Zxid zxid) {
    spdlog::info("this server has caught up with its leader, at zxid 0x{:x}", zxid.value());
    caught_up_ = true;
    LinkMembers(node_->raft().membership());
    PublishStatus();
  }});
}

void Replica::TouchOnNodeThread(const std::vector<int64_t>& sessions) {
  for (int64_t session : sessions) tracker_.Touch(tree::SessionId(session));
}

ServerStatus Replica::status() const {
  MutexLock lock(&status_mutex_);
  ServerStatus status = status_;
  // The time since status_ was updated counts too: if the process was paused, it received nothing.
  status.leader_contact_age_ms +=
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - status_at_).count();
  return status;
}

ServerMetrics Replica::metrics() const {
  ServerMetrics metrics;
  {
    MutexLock lock(&status_mutex_);
    metrics = metrics_;
  }
  metrics.watches = frontend_->watch_totals();
  metrics.time_leaps = replicated_.time_leaps();
  metrics.tree_lock_waits = replicated_.guarded_tree().waits();
  if (options_.sync_times != nullptr) metrics.fsync = options_.sync_times();
  if (checkpoints_.has_value()) {
    metrics.snapshot = checkpoints_->times();
    metrics.checkpoint_written_ms = checkpoints_->written_ms();
  }
  metrics.waiting_bytes = waiting_bytes_.load(std::memory_order_relaxed);
  return metrics;
}

// --- Administration ------------------------------------------------------------------------------

ClusterView Replica::cluster_view() const {
  MutexLock lock(&status_mutex_);
  return cluster_view_;
}

void Replica::TransferLeadership(MemberId target, std::function<void(absl::Status)> done) {
  node_->Post([this, target, done = std::move(done)] {
    absl::Status begun = node_->raft().TransferLeadership(target);
    if (begun.ok()) spdlog::info("transferring leadership, as requested");
    done(std::move(begun));
  });
}

void Replica::Barrier(std::function<void(tree::Zxid)> done) {
  node_->Post([this, done = std::move(done)] { StartSync({.done = done}); });
}

void Replica::RequestCheckpoint(tree::Zxid zxid, std::function<void()> done) {
  node_->RequestCheckpoint(consensus::Index(static_cast<uint64_t>(zxid.value())), std::move(done));
}

tree::Zxid Replica::checkpoint_zxid() const {
  const auto newest = checkpoints_->newest();
  return tree::Zxid(newest.has_value() ? static_cast<int64_t>(newest->index.value()) : 0);
}

absl::StatusOr<CheckpointView> Replica::OpenCheckpoint() const { return checkpoints_->OpenView(); }

// --- consensus::NodeObserver ---------------------------------------------------------------------

void Replica::OnStatus(const consensus::Status& status) {
  LogLeader(status);
  CheckMemberState(status);
  MeasureElection(status);
  // The version is stored first, because front ends rely on it as soon as later entries are
  // applied.
  cluster_version_.store(status.version);
  raft_status_ = status;
  router_.OnStatus(status);
  CatchUpOnce();
  BeginToLead();
  FinishChange();
  AdvanceReconfig();
  ForgetReconfigs(consensus::kNoMember);
  MeasureServing();
  PublishStatus();
}

void Replica::MeasureElection(const consensus::Status& status) {
  const auto now = clock_->Now();
  const bool had_leader = raft_status_.leader != consensus::kNoMember;
  const bool has_leader = status.leader != consensus::kNoMember;
  if (had_leader && !has_leader) {
    ++counts_.lookings;
    looking_since_ = now;
    unavailable_ = true;
  } else if (!had_leader && has_leader) {
    counts_.election.Add(MsBetween(looking_since_, now));
  }
  if (status.leader_established && !raft_status_.leader_established) {
    leader_since_ = now;
    counts_.proposal_bytes_last = counts_.proposal_bytes_min = counts_.proposal_bytes_max = -1;
  }
}

void Replica::MeasureServing() {
  if (!unavailable_ || raft_status_.leader == consensus::kNoMember ||
      applied_term_ != raft_status_.term) {
    return;
  }
  unavailable_ = false;
  counts_.unavailable.Add(MsBetween(looking_since_, clock_->Now()));
}

void Replica::OnMembership(const consensus::Membership& membership) {
  if (membership != shown_membership_) spdlog::info("members: {}", consensus::ToString(membership));
  shown_membership_ = membership;
  LinkMembers(membership);
  UpdateStatus();
}

void Replica::BeginToLead() {
  // Sessions are expired only after all entries of earlier terms are applied here. After a restart,
  // the replay creates the sessions again, and their clients can attach only after it.
  const bool leads = raft_status_.leader_established && applied_term_ == raft_status_.term;
  if (leads && !expires_sessions_) {
    tracker_.TouchAll();
    expiries_proposed_ = consensus::Index{0};
    containers_.Reset();
    container_deletions_proposed_ = consensus::Index{0};
  }
  expires_sessions_ = leads;
}

void Replica::OnReads(const std::vector<consensus::ReadResult>& reads) {
  const uint64_t applied = applied_.value();
  for (const consensus::ReadResult& read : reads) {
    auto it = reads_.find(read.request_id);
    if (it == reads_.end()) continue;
    const PendingSync sync = it->second;
    reads_.erase(it);
    if (!read.ok) {
      refused_reads_.push_back(sync);
    } else if (read.index.value() <= applied) {
      FinishSync(sync, consensus::Index(applied));
    } else {
      syncs_.emplace(read.index.value(), sync);
    }
  }
}

void Replica::OnApplied(consensus::Index index) {
  counts_.commits += index.value() - applied_.value();
  applied_ = index;
  ReplicatedTree::News news = replicated_.TakeNews();
  if (news.replaced) tracker_.Clear();
  for (const auto& change : news.sessions) {
    if (!news.replaced) RecordSession(change);
    if (change.closed) {
      tracker_.OnClosed(change.session.id);
    } else {
      tracker_.OnAttached(change.session.id, change.session.timeout_ms, change.session.attach_zxid);
    }
  }
  if (news.later_incarnation != 0) EndAsOutdated(news.later_incarnation);
  CompareClocks(news.command_ms);
  router_.OnApplied(news.own_sequence);
  if (news.no_op_term != applied_term_) {
    applied_term_ = news.no_op_term;
    router_.OnTermApplied(applied_term_);
    BeginToLead();
    MeasureServing();
  }
  digests_.OnApplied(tree::Zxid(static_cast<int64_t>(index.value())));
  waiting_bytes_.store(router_.waiting_bytes(), std::memory_order_relaxed);
  while (!syncs_.empty() && syncs_.begin()->first <= index.value()) {
    const PendingSync sync = syncs_.begin()->second;
    syncs_.erase(syncs_.begin());
    FinishSync(sync, index);
  }
  FinishChange();
  FinishAppliedReconfigs();
}

void Replica::OnDurable(consensus::Index index) {
  marks().durable.Add(index.value(), clock_->Now());
}

void Replica::OnCommitted(consensus::Index index) {
  const bool leads = raft_status_.role == consensus::Role::kLeader;
  marks().committed.Add(index.value(), clock_->Now(), leads);
}

bool Replica::AwaitsApplied() const {
  // OnApplied finishes syncs and changes of members, begins a term, and lets writes and clients continue that wait until
  // fewer writes are unapplied.
  return !syncs_.empty() || change_.has_value() || !reconfigs_unapplied_.empty() ||
         applied_term_ != raft_status_.term || router_.window_is_full() ||
         router_.waiting_bytes() > kWaitingBytesMax / 2;
}

bool Replica::AwaitsTick() const {
  // A tick retries refused reads, submits unapplied writes again, and advances a reconfig.
  return !refused_reads_.empty() || reconfig_.has_value() || !reconfigs_sent_.empty() ||
         router_.waiting_bytes() > 0;
}

void Replica::EndAsOutdated(uint64_t incarnation) {
  // This server was started before with a greater incarnation: its disk was lost, and its clock was
  // ahead then or is behind now. No command that it submits now would be applied. If the greater
  // incarnation is saved, the next start gets one above it.
  const absl::Status saved = host_->SaveIncarnation(incarnation);
  const std::string found =
      absl::StrCat("this server has been started before with incarnation ", incarnation,
                   ", and has ", proposer_.incarnation,
                   " now: its disk was lost, and its clock was ahead before or is behind");
  host_->OnEnd(saved.ok() ? absl::AbortedError(found)
                          : absl::FailedPreconditionError(absl::StrCat(
                                found, ". A greater one could not be written: ", saved.message())));
}

void Replica::OnTick() {
  for (const PendingSync& sync : std::exchange(refused_reads_, {})) StartSync(sync);
  router_.OnTick();
  AdvanceReconfig();
  ForgetReconfigs(consensus::kNoMember);
  if (!unsent_answers_.empty()) SendAnswers();
  TryOtherAddresses();
  links_->Tick();
  // Only the time in which this thread ran counts, so that a pause of the process makes no session
  // older.
  const auto now = clock_->Now();
  const auto elapsed_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_tick_).count();
  if (elapsed_ms > 0) {
    last_tick_ = now;
    ExpireSessions(elapsed_ms);
    DeleteContainers(elapsed_ms);
    digests_.OnTick(elapsed_ms, expires_sessions_, node_->raft().membership());
    EndIfRemoved(elapsed_ms);
  }
  TouchHeldUp();
  GuardDisk();
  ReportWait(now);
  session_log_.Tick(now);
  PublishStatus();
}

void Replica::ExpireSessions(int64_t elapsed_ms) {
  // While proposed expiries are not applied, no others are proposed. Otherwise the same ones would
  // be proposed repeatedly to a slow log, and make it slower.
  const bool outstanding = expires_sessions_ && applied_ < expiries_proposed_;
  const int64_t tracked_ms_max =
      SeededBug("sessions age in a pause") ? elapsed_ms : TrackedMsMax(options_);
  const auto expired = tracker_.Advance(std::min<int64_t>(elapsed_ms, tracked_ms_max),
                                        outstanding ? 0 : kExpiriesAtOnceMax);
  if (!expires_sessions_ || expired.empty()) return;
  std::vector<Slice> commands;
  for (const SessionTracker::Expired& session : expired) {
    session_log_.Note(SessionLog::Event::kExpired, session.session, 0, last_tick_);
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kExpireSession;
    header.session = session.session;
    header.attach_zxid = session.attach_zxid;
    StampTime(&header);
    std::string command;
    tree::AppendCloseSession(header, &command);
    commands.emplace_back(std::move(command));
  }
  // If the proposal is refused, the tracker returns these sessions again after another timeout.
  if (absl::Status status = Propose(std::move(commands)); !status.ok()) {
    spdlog::warn("cannot expire sessions: {}; they are tried again after another timeout",
                 std::string(status.message()));
    return;
  }
  expiries_proposed_ = node_->raft().last_index();
  counts_.sessions_expired += expired.size();
}

void Replica::DeleteContainers(int64_t elapsed_ms) {
  if (!expires_sessions_) return;
  containers_.Advance(elapsed_ms);
  const uint32_t needed = tree::VersionNeeded(tree::CommandKind::kDeleteContainer);
  if (node_->raft().cluster_version() < needed) return;
  // While proposed deletions are not applied, the tree would return the same nodes again.
  const size_t allowed = containers_.allowed();
  if (allowed == 0 || applied_ < container_deletions_proposed_) return;
  tree::CommandHeader header;
  StampTime(&header);
  const std::vector<std::string> paths =
      replicated_.ReadTree()->FindExpired(header.time_ms, allowed);
  containers_.OnFound(paths.size());
  if (paths.empty()) return;
  std::vector<Slice> commands;
  for (const std::string& path : paths) {
    std::string command;
    tree::AppendDeleteContainer(header, path, &command);
    commands.emplace_back(std::move(command));
  }
  // When a command is applied, each member's tree checks again whether the znode may be removed.
  spdlog::info("{} containers or nodes with a TTL are removed, {} first", paths.size(), paths[0]);
  if (absl::Status status = Propose(std::move(commands)); !status.ok()) {
    spdlog::warn("containers could not be removed now: {}", std::string(status.message()));
    return;
  }
  container_deletions_proposed_ = node_->raft().last_index();
}

// --- Memory --------------------------------------------------------------------------------------

void Replica::OnMemory() {
  constexpr uint64_t kMiB = 1u << 20;
  constexpr auto kReleasePeriod = std::chrono::seconds(10);
  uint64_t tree_bytes = 0;
  uint64_t free_bytes = 0;
  {
    const GuardedTree::ReadGuard tree = ReadTree();
    tree_bytes = tree->node_memory_bytes() + tree->answer_memory_bytes();
    free_bytes = tree->free_node_memory_bytes();
  }
  uint64_t resident_bytes = MeasureResidentBytes();
  const auto now = clock_->Now();
  if (memory().exceeds_bound(resident_bytes) && now - memory_released_ >= kReleasePeriod) {
    memory_released_ = now;
    ReleaseFreeMemory(std::min(64 * kMiB, memory().limit() / 32));
    resident_bytes = MeasureResidentBytes();
  }
  if (!memory().OnMeasured(resident_bytes, tree_bytes, free_bytes)) return;
  if (memory().low()) {
    spdlog::warn(
        "memory is almost used up: resident={} MiB limit={} MiB tree={} MiB: writes that add data "
        "are refused; if clients have a part in it, beside the tree, no new sessions are admitted "
        "and "
        "the connections that take the most are closed; delete znodes, or give the server more "
        "memory (memoryLimitMb)",
        resident_bytes / kMiB, memory().limit() / kMiB, tree_bytes / kMiB);
  } else {
    spdlog::info("memory is enough again: resident={} MiB limit={} MiB", resident_bytes / kMiB,
                 memory().limit() / kMiB);
  }
}

void Replica::PublishStatus() {
  UpdateStatus();
  host_->OnStatusPublished();
}

int64_t Replica::LeaderContactAgeMs() {
  const auto now = clock_->Now();
  const consensus::Raft& raft = node_->raft();
  const int64_t ticks_ms = int64_t{raft.ticks_since_leader()} * options_.node.tick_ms;
  const bool leads = raft_status_.role == consensus::Role::kLeader;
  // The time since the contact is taken from the clock, because no tick passes while the process is
  // paused.
  if (leads || raft.leader_contacts() != leader_contacts_) {
    contact_at_ = now - std::chrono::milliseconds(ticks_ms);
  }
  leader_contacts_ = raft.leader_contacts();
  if (leads) return 0;
  const int64_t silent_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - contact_at_).count();
  return std::max({ticks_ms, silent_ms, links_->DownForMs(raft_status_.leader)});
}

void Replica::UpdateStatus() {
  const consensus::Raft& raft = node_->raft();
  durable_index_.store(raft.durable_index().value(), std::memory_order_relaxed);
  MutexLock lock(&status_mutex_);
  status_.leader_known = raft_status_.leader != consensus::kNoMember;
  status_.is_leader = raft_status_.leader_established;
  // Contact needs both directions: a leader that this server hears but cannot reach is of no use to
  // its clients.
  status_.leader_contact_age_ms = LeaderContactAgeMs();
  status_at_ = clock_->Now();
  const bool has_contact =
      status_.leader_contact_age_ms <= kInTouchElections * options_.election_timeout_ms;
  status_.caught_up = caught_up_;
  status_.in_touch = caught_up_ && has_contact;
  status_.disk_low = IsDiskLow();
  status_.data_refused = refuses_data();
  UpdateReadOnly(has_contact);
  UpdateMetrics();
  UpdateClusterView();
  const std::vector<MemberId>& voters = raft.membership().voters;
  status_.voters = voters.size();
  status_.observer = IsObserver(raft.membership());
  status_.followers_in_sync = 0;
  if (status_.is_leader) {
    for (MemberId voter : voters) {
      if (voter != options_.node.raft.self && links_->DownForMs(voter) == 0 &&
          raft.IsInSync(voter)) {
        ++status_.followers_in_sync;
      }
    }
  }
}

void Replica::UpdateReadOnly(bool has_contact) {
  const auto now = clock_->Now();
  const bool has_leader = status_.leader_known && has_contact;
  if (has_leader) not_serving_since_ = now;
  // The tree of a member that has lost its data, or was removed, may lack even old changes.
  const bool knows =
      raft_status_.member_state == consensus::MemberState::kNormal && !raft_status_.removed;
  status_.read_only = options_.read_only_after_ms > 0 && knows && !has_leader &&
                      MsBetween(not_serving_since_, now) >= options_.read_only_after_ms;
}

void Replica::UpdateMetrics() {
  metrics_ = counts_;
  metrics_.digest_compared_zxid = digests_.compared().value();
  metrics_.digest_mismatches = digests_.mismatches();
  metrics_.digest_is_undecided = digests_.undecided();
  metrics_.snapshot_bytes_received =
      checkpoints_.has_value() ? checkpoints_->staged_bytes() : uint64_t{0};
  metrics_.disk_free_bytes = disk_free_bytes_.load(std::memory_order_relaxed);
  metrics_.pending_syncs = reads_.size() + refused_reads_.size() + syncs_.size();
  const consensus::Raft& raft = node_->raft();
  metrics_.term = raft.term().value();
  metrics_.commit_index = raft.commit_index().value();
  metrics_.applied_index = applied_.value();
  if (!status_.is_leader) return;
  metrics_.leader_uptime_ms = MsBetween(leader_since_, clock_->Now());
  const auto is_other_and_there = [this](MemberId member) {
    return member != options_.node.raft.self && links_->DownForMs(member) == 0;
  };
  for (MemberId voter : raft.membership().voters) {
    if (is_other_and_there(voter)) ++metrics_.learners;
  }
  for (MemberId learner : raft.membership().learners) {
    if (!is_other_and_there(learner)) continue;
    ++metrics_.learners;
    if (raft.IsInSync(learner)) ++metrics_.observers_in_sync;
  }
}

void Replica::UpdateClusterView() {
  const consensus::Raft& raft = node_->raft();
  ClusterView& view = cluster_view_;
  view.leader = raft_status_.leader;
  view.is_leader = raft_status_.leader_established;
  view.term = raft.term();
  view.commit_index = raft.commit_index();
  view.applied_index = applied_;
  view.cluster_version = raft_status_.version;
  view.newest_version = options_.node.raft.version;
  view.program_version = consensus::kVersionNewest;
  const consensus::Membership& membership = raft.membership();
  view.changing = membership.joint() || !raft.MembershipIsCommitted() || reconfig_.has_value();
  view.change = CurrentChange();
  view.membership_index = raft.membership_index();
  const ServerLines lines = MembersOf(membership, options_.servers);
  view.members.clear();
  for (MemberId id : membership.Members()) {
    ClusterView::Member& member = view.members.emplace_back();
    member.id = id;
    member.observer = !membership.IsVoter(id);
    const bool self = id == options_.node.raft.self;
    member.reachable = self || links_->DownForMs(id) == 0;
    if (!member.reachable) member.problem = links_->ProblemOf(id);
    if (const auto line = lines.find(id.value()); line != lines.end()) {
      member.addresses = line->second;
    }
    if (self) member.newest_version = view.newest_version;
    if (!view.is_leader) continue;
    if (!self) member.newest_version = raft.version_of(id);
    member.match_index = self ? raft.durable_index() : raft.match_index(id);
    member.in_sync =
        member.reachable && (self ? member.match_index >= view.commit_index : raft.IsInSync(id));
  }
}

void Replica::OnClusterId(const std::string& cluster_id) {
  {
    MutexLock lock(&status_mutex_);
    cluster_view_.cluster_id = cluster_id;
  }
  spdlog::info("this is cluster {}", absl::BytesToHexString(cluster_id));
  links_->SetClusterId(cluster_id);
}

void Replica::OnFatal(const absl::Status& error) { host_->OnFatal(error); }

// --- PeerHandler ---------------------------------------------------------------------------------

absl::Status Replica::OnPeerBatch(MemberId from, PeerBatch batch) {
  std::erase_if(batch.messages, [&](const consensus::Message& message) {
    return message.from != from || message.term > kTermMax;
  });
  if (!batch.messages.empty()) node_->Deliver(std::move(batch.messages));
  if (!batch.reconfigs.empty()) {
    absl::Status status = OnReconfigNotes(from, std::move(batch.reconfigs));
    if (!status.ok()) {
      LogRefused(from, status);
      return status;
    }
  }
  if (batch.forwards.empty() && batch.touched_sessions.empty() && batch.digests.empty() &&
      !batch.disk_report) {
    return absl::OkStatus();
  }
  struct Work {
    std::vector<ForwardedCommands> forwards;
    std::vector<int64_t> touched_sessions;
    std::vector<DigestNote> digests;
    std::optional<DiskReport> disk_report;
  };
  auto work = std::make_shared<Work>();
  absl::Status status;
  for (CommandBatch& forward : batch.forwards) {
    auto checked = ForwardedCommands::Check(from, std::move(forward));
    status = checked.status();
    if (!status.ok()) break;
    work->forwards.push_back(*std::move(checked));
  }
  work->touched_sessions = std::move(batch.touched_sessions);
  work->digests = std::move(batch.digests);
  work->disk_report = batch.disk_report;
  node_->Post([this, from, work] {
    for (const ForwardedCommands& forward : work->forwards) router_.OnForward(forward);
    TouchOnNodeThread(work->touched_sessions);
    for (const DigestNote& note : work->digests) {
      digests_.OnNote(from, note, node_->raft().membership());
    }
    if (work->disk_report) disk_guard_.OnReport(from, *work->disk_report);
  });
  if (!status.ok()) LogRefused(from, status);
  return status;
}

void Replica::OnPeerUp(MemberId member) {
  node_->Post([this, member] {
    router_.OnPeerUp(member);
    ForgetReconfigs(member);
    digests_.OnPeerUp(member);
  });
  MutexLock lock(&other_clusters_mutex_);
  other_clusters_.erase(member);
}

void Replica::OnPeerDown(MemberId member) {
  node_->PeerUnreachable(member);
  node_->Post([this, member] { ForgetReconfigs(member); });
}

void Replica::OnOtherCluster(MemberId member, const std::string& cluster_id) {
  // Servers that are not members of this cluster any more do not count: those that were left behind
  // by `quorate recover` still belong to the cluster before it. They can be admitted again as
  // observers before they were rebuilt, so that only voters count. Before the members are known
  // there is nothing to count; a refused server connects again.
  std::vector<ClusterView::Member> voters = cluster_view().members;
  std::erase_if(voters, [](const ClusterView::Member& one) { return one.observer; });
  size_t others = 0;
  {
    MutexLock lock(&other_clusters_mutex_);
    other_clusters_[member] = cluster_id;
    for (const ClusterView::Member& voter : voters) {
      const auto other = other_clusters_.find(voter.id);
      others += other != other_clusters_.end() && other->second == cluster_id ? 1 : 0;
    }
  }
  // If one server is of another cluster, that server may be misconfigured. If most servers are,
  // this server is the misconfigured one.
  if (others * 2 <= voters.size()) return;
  host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
      "data directory ", options_.data_dir, " belongs to another cluster than the other servers (",
      absl::BytesToHexString(cluster_id),
      "); point dataDir to this member's own directory, or move it away and start again, and the "
      "member is rebuilt from the others")));
}

// --- WriteRouter::Actions ------------------------------------------------------------------------

absl::Status Replica::Propose(std::vector<Slice> commands) {
  for (const Slice& command : commands) {
    const auto bytes = static_cast<int64_t>(command.size());
    counts_.proposal_bytes_last = bytes;
    counts_.proposal_bytes_max = std::max(counts_.proposal_bytes_max, bytes);
    counts_.proposal_bytes_min =
        counts_.proposal_bytes_min < 0 ? bytes : std::min(counts_.proposal_bytes_min, bytes);
  }
  counts_.proposals += commands.size();
  return node_->raft().Propose(std::move(commands));
}

void Replica::Forward(MemberId leader, const std::vector<std::string_view>& commands) {
  links_->Forward(leader, commands);
}

void Replica::OnSent(uint64_t sequence) {
  const bool leads = raft_status_.role == consensus::Role::kLeader;
  marks().sent.Add(sequence, clock_->Now(), leads);
}

uint32_t Replica::ClusterVersion() { return node_->raft().cluster_version(); }

int64_t Replica::NowMs() { return clock_->WallMs(); }

void Replica::StampTime(tree::CommandHeader* header) {
  header->time_ms = NowMs();
  header->bounds_time = node_->raft().cluster_version() >= tree::kVersionBoundedTime;
}

}  // namespace quorate::rpc
