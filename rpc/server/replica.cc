#include "rpc/server/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/planted_fault.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

// Bytes accepted from clients and not applied at which doors stop reading.
constexpr size_t kWaitingBytesMax = 64u << 20;
// Sessions whose end is proposed in one tick.
constexpr size_t kExpiriesAtOnceMax = 512;
// No cluster gets there by elections; a term near the end of the numbers is nonsense that must not
// be adopted.
constexpr consensus::Term kTermMax{uint64_t{1} << 62};
// Forwarded writes that are not applied within this many election timeouts are sent again.
constexpr int kResendElections = 4;
// A server that has been without a leader for so many of them sends new clients elsewhere.
constexpr int kInTouchElections = 3;

// Ticks fine enough for the heartbeat, and no finer: an idle server should sleep.
int TickMs(const Config& config) { return std::max(1, config.heartbeat_ms / 4); }

int64_t MsBetween(std::chrono::steady_clock::time_point from,
                  std::chrono::steady_clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
}

// As ZooKeeper: so long, or a tick if that is longer.
constexpr int kReadOnlyAfterMsMin = 2000;

// How much older a session may grow from one tick to the next.
int64_t TrackedMsMax(const ReplicaOptions& options) { return 3 * options.node.tick_ms; }

}  // namespace

ReplicaOptions MakeReplicaOptions(const Config& config, std::string cluster_id_if_new) {
  consensus::NodeOptions node;
  node.tick_ms = TickMs(config);
  node.raft.self = MemberId(config.my_id);
  for (const auto& [id, server] : config.servers) {
    auto& group = server.observer ? node.raft.membership.learners : node.raft.membership.voters;
    group.push_back(MemberId(id));
  }
  if (config.standalone()) node.raft.membership.voters = {node.raft.self};
  node.raft.heartbeat_ticks = std::max(1, config.heartbeat_ms / node.tick_ms);
  node.raft.election_ticks =
      std::max(node.raft.heartbeat_ticks + 1, config.election_timeout_ms / node.tick_ms);
  node.raft.cluster_id_if_new = std::move(cluster_id_if_new);
  if (config.snap_count > 0) node.checkpoint_entries = static_cast<uint64_t>(config.snap_count);
  return {.node = std::move(node),
          .standalone = config.standalone(),
          .tick_time_ms = config.tick_time_ms,
          .election_timeout_ms = config.election_timeout_ms,
          .container_check_interval_ms = config.container_check_interval_ms,
          .container_max_per_minute = config.container_max_per_minute,
          .read_only_after_ms = config.read_only_mode && !config.standalone()
                                    ? std::max(kReadOnlyAfterMsMin, config.tick_time_ms)
                                    : 0,
          .data_dir = config.log_dir,
          .checkpoint_dir = config.data_dir + "/checkpoints"};
}

Replica::Replica(ReplicaOptions options, uint64_t incarnation, consensus::DataDir* data_dir,
                 tree::RecordStore* store, consensus::RandomSource* random, const Clock* clock,
                 PeerLinks* links, ReplicaHost* host)
    : options_(std::move(options)),
      origin_{static_cast<uint16_t>(options_.node.raft.self.value()), incarnation},
      clock_(clock),
      links_(links),
      host_(host),
      data_dir_(data_dir),
      random_(random),
      replicated_(origin_),
      router_(origin_, kResendElections * options_.node.raft.election_ticks, this),
      tracker_(options_.tick_time_ms, TrackedMsMax(options_)),
      containers_(options_.container_check_interval_ms, options_.container_max_per_minute),
      last_tick_(clock->Now()),
      leaderless_since_(clock->Now()),
      not_serving_since_(clock->Now()),
      looking_since_(clock->Now()) {
  counts_.lookings = 1;
  status_.standalone = options_.standalone;
  status_.voters = options_.node.raft.membership.voters.size();
  status_.leader_contact_age_ms = INT32_MAX;
  if (store != nullptr) checkpoints_.emplace(store, &replicated_, clock);
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
        ", and there is no checkpoint of what was before; move the directory away and start again, "
        "and the member is rebuilt from the others"));
  }
  const uint64_t loaded = newest.has_value() ? newest->index.value() : 0;
  const uint64_t last = data_dir_->log().last_index().value();
  if (last > loaded) spdlog::info("log replay from entry {} to {}", loaded + 1, last);
  node_ = std::make_unique<consensus::Node>(options_.node, data_dir_, random_, &replicated_,
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
  // What it promised to others was lost with the old log.
  if (data_dir_->hard_state().standing == consensus::Standing::kBlank) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.checkpoint_dir, ": there is a checkpoint, but the log in ", options_.data_dir,
        " is new; point dataLogDir to the log that belongs to it, or move both directories away "
        "and start again, and the member is rebuilt from the others"));
  }
  return absl::OkStatus();
}

Replica::~Replica() = default;

void Replica::SetDoor(Door* door) {
  door_ = door;
  replicated_.SetDoor(door);
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

void Replica::Sync(uint32_t origin_tag, uint64_t sync_id) {
  node_->Post([this, origin_tag, sync_id] { StartSync({origin_tag, sync_id}); });
}

void Replica::StartSync(PendingSync sync) {
  const uint64_t request_id = next_read_++;
  reads_[request_id] = sync;
  node_->raft().ReadIndex(request_id);
}

void Replica::Touch(std::vector<int64_t> sessions) {
  auto shared = std::make_shared<std::vector<int64_t>>(std::move(sessions));
  node_->Post([this, shared] {
    TouchOnNodeThread(*shared);
    if (raft_status_.leader != consensus::kNoMember &&
        raft_status_.leader != options_.node.raft.self) {
      links_->SendTouches(raft_status_.leader, *shared);
    }
  });
}

void Replica::TouchOnNodeThread(const std::vector<int64_t>& sessions) {
  for (int64_t session : sessions) tracker_.Touch(tree::SessionId(session));
}

ServerStatus Replica::status() const {
  MutexLock lock(&status_mutex_);
  return status_;
}

ServerMetrics Replica::metrics() const {
  ServerMetrics metrics;
  {
    MutexLock lock(&status_mutex_);
    metrics = metrics_;
  }
  if (options_.sync_times != nullptr) metrics.fsync = options_.sync_times();
  if (checkpoints_.has_value()) metrics.snapshot = checkpoints_->times();
  return metrics;
}

// --- consensus::NodeObserver ---------------------------------------------------------------------

void Replica::OnStatus(const consensus::Status& status) {
  if (status.leader != raft_status_.leader || status.role != raft_status_.role) {
    if (status.leader_established) {
      spdlog::info("leading in term {}", status.term.value());
    } else if (status.leader != consensus::kNoMember && status.leader != options_.node.raft.self) {
      spdlog::info("following server {} in term {}", status.leader.value(), status.term.value());
    } else if (status.leader == consensus::kNoMember &&
               raft_status_.leader != consensus::kNoMember) {
      spdlog::info("no leader (term {})", status.term.value());
    }
  }
  CheckStanding(status);
  MeasureElection(status);
  raft_status_ = status;
  router_.OnStatus(status);
  BeginToLead();
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

void Replica::CheckStanding(const consensus::Status& status) {
  if (status.later_birth > 0) {
    host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
        "the other servers know a later data directory of this server than ", options_.data_dir,
        ": this is an old copy, or the clock was set back before it was made. Start the server on "
        "the later one; or set the clock right, move this one away and start again, and the member "
        "is rebuilt from the others")));
  }
  if (status.version_needed > 0) {
    host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
        "the cluster uses version ", status.version_needed, " of the log, and this program knows ",
        options_.node.raft.version, " at most; start a newer program on the same data")));
  }
  if (status.standing != raft_status_.standing) {
    if (status.standing == consensus::Standing::kRecovering) {
      spdlog::info(
          "this server's data directory is new to a cluster that exists: it catches up, and "
          "neither "
          "votes nor counts until it has heard from every other voter");
    } else if (raft_status_.standing == consensus::Standing::kRecovering) {
      spdlog::info("this server has caught up, and counts as a member again");
    }
  }
  if (status.removed && !raft_status_.removed) {
    spdlog::warn("this server was removed from the cluster");
  }
}

void Replica::OnMembership(const consensus::Membership& membership) {
  spdlog::info("members: {}", consensus::ToString(membership));
  UpdateStatus();
}

void Replica::BeginToLead() {
  // Not before everything of earlier terms is applied here: after a restart, the sessions come back
  // with the replay, and their clients can attach only after it.
  const bool leads = raft_status_.leader_established && applied_term_ == raft_status_.term;
  if (leads && !judges_sessions_) {
    tracker_.TouchAll();
    expiries_proposed_ = consensus::Index{0};
    containers_.Reset();
    container_deletions_proposed_ = consensus::Index{0};
  }
  judges_sessions_ = leads;
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
      door_->OnSyncDone(sync.origin_tag, sync.sync_id, tree::Zxid(static_cast<int64_t>(applied)));
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
    if (change.closed) {
      tracker_.OnClosed(change.session.id);
    } else {
      tracker_.OnAttached(change.session.id, change.session.timeout_ms, change.session.attach_zxid);
    }
  }
  if (news.later_incarnation != 0) EndAsOutdated(news.later_incarnation);
  router_.OnApplied(news.own_sequence);
  if (news.no_op_term != applied_term_) {
    applied_term_ = news.no_op_term;
    router_.OnTermApplied(applied_term_);
    BeginToLead();
    MeasureServing();
  }
  waiting_bytes_.store(router_.waiting_bytes(), std::memory_order_relaxed);
  while (!syncs_.empty() && syncs_.begin()->first <= index.value()) {
    const PendingSync sync = syncs_.begin()->second;
    syncs_.erase(syncs_.begin());
    door_->OnSyncDone(sync.origin_tag, sync.sync_id,
                      tree::Zxid(static_cast<int64_t>(index.value())));
  }
}

void Replica::EndAsOutdated(uint64_t incarnation) {
  // This server has been started before with a greater number: its disk was lost and its clock is
  // behind. Nothing that it submits now would be applied; the greater number on disk cures that at
  // the next start.
  absl::Status saved = host_->SaveIncarnation(incarnation);
  host_->OnEnd(absl::FailedPreconditionError(absl::StrCat(
      "this server has been started before with incarnation ", incarnation, ", and has ",
      origin_.incarnation, " now; was its disk lost while its clock is behind? ",
      saved.ok() ? "Set the clock right and start it again" : std::string(saved.message()))));
}

void Replica::OnTick() {
  for (const PendingSync& sync : std::exchange(refused_reads_, {})) StartSync(sync);
  router_.OnTick();
  links_->Tick();
  // Only time in which this thread ran counts: a pause of the process makes nobody older.
  const auto now = clock_->Now();
  const auto elapsed_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_tick_).count();
  if (elapsed_ms > 0) {
    last_tick_ = now;
    ExpireSessions(elapsed_ms);
    DeleteContainers(elapsed_ms);
  }
  SayWhoIsMissing();
  PublishStatus();
}

void Replica::SayWhoIsMissing() {
  // Once all are there it takes a moment; nobody waits for a message then.
  constexpr auto kPatience = std::chrono::seconds(3);
  const consensus::Raft& raft = node_->raft();
  const auto now = clock_->Now();
  if (raft.standing() == consensus::Standing::kFull || raft.leader() != consensus::kNoMember) {
    leaderless_since_ = now;
    return;
  }
  if (now - leaderless_since_ < kPatience) return;
  leaderless_since_ = now;
  std::string missing;
  for (MemberId voter : raft.membership().voters) {
    if (voter == options_.node.raft.self || links_->DownForMs(voter) == 0) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", voter.value());
  }
  if (missing.empty()) return;
  if (raft.standing() == consensus::Standing::kBlank) {
    spdlog::info("a new cluster begins when all its voters are there; not reached yet: {}",
                 missing);
  } else {
    spdlog::info("there is no leader to catch up from; not reached: {}", missing);
  }
}

void Replica::ExpireSessions(int64_t elapsed_ms) {
  // While ends that were proposed are on their way, no more are: or else a log that is slow would
  // get the same ones again and again, and become slower.
  const bool outstanding = judges_sessions_ && applied_ < expiries_proposed_;
  const int64_t tracked_ms_max =
      PlantedFault("sessions age in a pause") ? elapsed_ms : TrackedMsMax(options_);
  const auto expired = tracker_.Advance(std::min<int64_t>(elapsed_ms, tracked_ms_max),
                                        outstanding ? 0 : kExpiriesAtOnceMax);
  if (!judges_sessions_ || expired.empty()) return;
  std::vector<Slice> commands;
  for (const SessionTracker::Expired& session : expired) {
    spdlog::info("session 0x{:x} expires: nothing was heard of it for its timeout",
                 session.session.value());
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kExpireSession;
    header.session = session.session;
    header.attach_zxid = session.attach_zxid;
    header.time_ms = NowMs();
    std::string command;
    tree::AppendCloseSession(header, &command);
    commands.emplace_back(std::move(command));
  }
  // If it is refused, the tracker comes back to these sessions after another timeout.
  if (absl::Status status = Propose(std::move(commands)); !status.ok()) {
    spdlog::warn("sessions could not be expired now: {}", std::string(status.message()));
    return;
  }
  expiries_proposed_ = node_->raft().last_index();
  counts_.sessions_expired += expired.size();
}

void Replica::DeleteContainers(int64_t elapsed_ms) {
  if (!judges_sessions_) return;
  containers_.Advance(elapsed_ms);
  // While deletions are on their way, the tree would name the same nodes again.
  const size_t allowed = containers_.allowed();
  if (allowed == 0 || applied_ < container_deletions_proposed_) return;
  tree::CommandHeader header;
  header.time_ms = NowMs();
  std::vector<std::string> paths;
  {
    ReaderLock lock(&replicated_.mutex());
    paths = replicated_.tree().FindExpired(header.time_ms, allowed);
  }
  containers_.OnFound(paths.size());
  if (paths.empty()) return;
  std::vector<Slice> commands;
  for (const std::string& path : paths) {
    std::string command;
    tree::AppendDeleteContainer(header, path, &command);
    commands.emplace_back(std::move(command));
  }
  // Whether it is so when the command is applied, each member's tree decides for itself.
  spdlog::info("{} containers or nodes with a TTL are removed, {} first", paths.size(), paths[0]);
  if (absl::Status status = Propose(std::move(commands)); !status.ok()) {
    spdlog::warn("containers could not be removed now: {}", std::string(status.message()));
    return;
  }
  container_deletions_proposed_ = node_->raft().last_index();
}

void Replica::PublishStatus() {
  UpdateStatus();
  host_->OnStatusPublished();
}

void Replica::UpdateStatus() {
  const consensus::Raft& raft = node_->raft();
  MutexLock lock(&status_mutex_);
  status_.leader_known = raft_status_.leader != consensus::kNoMember;
  status_.is_leader = raft_status_.leader_established;
  // To be in touch takes both directions: a leader that we hear but cannot reach does nothing for
  // our clients.
  status_.leader_contact_age_ms =
      raft_status_.role == consensus::Role::kLeader
          ? 0
          : std::max<int64_t>(
                static_cast<int64_t>(raft.ticks_since_leader()) * options_.node.tick_ms,
                links_->DownForMs(raft_status_.leader));
  status_.in_touch =
      status_.leader_contact_age_ms <= kInTouchElections * options_.election_timeout_ms;
  UpdateReadOnly();
  UpdateMetrics();
  const std::vector<MemberId>& voters = raft.membership().voters;
  status_.voters = voters.size();
  status_.followers_in_sync = 0;
  if (status_.is_leader) {
    for (MemberId voter : voters) {
      if (voter != options_.node.raft.self && raft.match_index(voter) >= raft.commit_index()) {
        ++status_.followers_in_sync;
      }
    }
  }
}

void Replica::UpdateReadOnly() {
  const auto now = clock_->Now();
  if (status_.serving()) not_serving_since_ = now;
  // One that has lost its data, or was removed, may not know even what was long ago.
  const bool knows = raft_status_.standing == consensus::Standing::kFull && !raft_status_.removed;
  status_.read_only = options_.read_only_after_ms > 0 && knows && !status_.serving() &&
                      MsBetween(not_serving_since_, now) >= options_.read_only_after_ms;
}

void Replica::UpdateMetrics() {
  metrics_ = counts_;
  metrics_.pending_syncs = reads_.size() + refused_reads_.size() + syncs_.size();
  if (!status_.is_leader) return;
  const consensus::Raft& raft = node_->raft();
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
    if (raft.match_index(learner) >= raft.commit_index()) ++metrics_.observers_in_sync;
  }
}

void Replica::OnClusterId(const std::string& cluster_id) {
  spdlog::info("this is cluster {}", absl::BytesToHexString(cluster_id));
  links_->SetClusterId(cluster_id);
}

void Replica::OnFatal(const absl::Status& error) { host_->OnFatal(error); }

// --- PeerHandler ---------------------------------------------------------------------------------

void Replica::OnPeerBatch(MemberId from, PeerBatch batch) {
  std::erase_if(batch.messages, [&](const consensus::Message& message) {
    return message.from != from || message.term > kTermMax;
  });
  if (!batch.messages.empty()) node_->Deliver(std::move(batch.messages));
  if (batch.forwards.empty() && batch.touched_sessions.empty()) return;
  auto shared = std::make_shared<PeerBatch>(std::move(batch));
  node_->Post([this, from, shared] {
    for (CommandBatch& forward : shared->forwards) router_.OnForward(from, std::move(forward));
    TouchOnNodeThread(shared->touched_sessions);
  });
}

void Replica::OnPeerUp(MemberId member) {
  node_->Post([this, member] { router_.OnPeerUp(member); });
  MutexLock lock(&other_clusters_mutex_);
  other_clusters_.erase(member);
}

void Replica::OnPeerDown(MemberId member) { node_->PeerUnreachable(member); }

void Replica::OnOtherCluster(MemberId member, const std::string& cluster_id) {
  size_t others;
  {
    MutexLock lock(&other_clusters_mutex_);
    other_clusters_[member] = cluster_id;
    others = static_cast<size_t>(
        std::count_if(other_clusters_.begin(), other_clusters_.end(),
                      [&](const auto& other) { return other.second == cluster_id; }));
  }
  // One that differs from us may itself be the stranger; a majority is not.
  const auto& membership = options_.node.raft.membership;
  if (others * 2 <= membership.voters.size() + membership.learners.size()) return;
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

int64_t Replica::NowMs() { return clock_->WallMs(); }

}  // namespace quorate::rpc
