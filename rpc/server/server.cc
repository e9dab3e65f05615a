#include "rpc/server/server.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"

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
constexpr auto kHandOverTimeout = std::chrono::seconds(2);
// Forwarded writes that are not applied within this many election timeouts are sent again.
constexpr int kResendElections = 4;
// A server that has been without a leader for so many of them sends new clients elsewhere.
constexpr int kInTouchElections = 3;

int64_t WallClockMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Ticks fine enough for the heartbeat, and no finer: an idle server should sleep.
int TickMs(const Config& config) { return std::max(1, config.heartbeat_ms / 4); }

std::string NewClusterId() {
  std::string id(consensus::kClusterIdBytes, '\0');
  ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size())) == 1);
  return id;
}

std::string IncarnationPath(const std::string& dir) { return dir + "/incarnation"; }

absl::Status SaveIncarnation(const std::string& dir, uint64_t incarnation) {
  consensus::Env* env = consensus::Env::Posix();
  const std::string temporary = IncarnationPath(dir) + ".new";
  auto file = env->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  const std::string text = std::to_string(incarnation);
  const std::string_view pieces[] = {text};
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, pieces); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  if (absl::Status s = env->Rename(temporary, IncarnationPath(dir)); !s.ok()) return s;
  return env->SyncDirectory(dir);
}

// A number that is greater at each start of this server, also when the clock went back (the file)
// and when the disk was lost (the clock).
absl::StatusOr<uint64_t> NextIncarnation(const std::string& dir) {
  consensus::Env* env = consensus::Env::Posix();
  const std::string path = IncarnationPath(dir);
  uint64_t last = 0;
  if (env->Exists(path)) {
    auto file = env->OpenFile(path, /*create=*/false);
    if (!file.ok()) return file.status();
    char text[32];
    auto size = (*file)->ReadAt(0, sizeof(text), text);
    if (!size.ok()) return size.status();
    if (!absl::SimpleAtoi(absl::string_view(text, *size), &last)) {
      return absl::DataLossError(absl::StrCat(path,
                                              ": it has to hold one number; remove the file, "
                                              "and the server goes on by its clock"));
    }
  }
  const uint64_t next = std::max(last + 1, static_cast<uint64_t>(WallClockMs()));
  if (absl::Status s = SaveIncarnation(dir, next); !s.ok()) return s;
  return next;
}

}  // namespace

consensus::NodeOptions Server::MakeNodeOptions(const Config& config) {
  consensus::NodeOptions options;
  options.tick_ms = TickMs(config);
  options.raft.self = MemberId(config.my_id);
  for (const auto& [id, server] : config.servers) {
    auto& group =
        server.observer ? options.raft.membership.learners : options.raft.membership.voters;
    group.push_back(MemberId(id));
  }
  if (config.standalone()) options.raft.membership.voters = {options.raft.self};
  options.raft.heartbeat_ticks = std::max(1, config.heartbeat_ms / options.tick_ms);
  options.raft.election_ticks =
      std::max(options.raft.heartbeat_ticks + 1, config.election_timeout_ms / options.tick_ms);
  options.raft.cluster_id_if_new = NewClusterId();
  return options;
}

PeerNetworkOptions Server::MakePeerOptions(const Config& config) {
  PeerNetworkOptions options;
  options.self = MemberId(config.my_id);
  for (const auto& [id, server] : config.servers) {
    const bool v6 = server.host.find(':') != std::string::npos;
    const std::string address =
        absl::StrCat(v6 ? "[" : "", server.host, v6 ? "]" : "", ":", server.peer_port);
    if (id != config.my_id) {
      options.addresses[MemberId(id)] = address;
    } else {
      options.listen_address =
          config.quorum_listen_on_all_ips ? absl::StrCat("0.0.0.0:", server.peer_port) : address;
    }
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(Config config, DoorFactory* doors) {
  for (const std::string& warning : config.warnings) spdlog::warn("{}", warning);
  consensus::NodeOptions options = MakeNodeOptions(config);
  if (absl::Status s = options.raft.Validate(); !s.ok()) return s;
  auto data_dir =
      consensus::DataDir::Open(consensus::Env::Posix(), config.log_dir, MemberId(config.my_id), {});
  if (!data_dir.ok()) return data_dir.status();
  auto incarnation = NextIncarnation(config.log_dir);
  if (!incarnation.ok()) return incarnation.status();
  return std::unique_ptr<Server>(
      new Server(std::move(config), doors, *std::move(data_dir), *incarnation));
}

Server::Server(Config config, DoorFactory* doors, std::unique_ptr<consensus::DataDir> data_dir,
               uint64_t incarnation)
    : config_(std::move(config)),
      doors_(doors),
      origin_{static_cast<uint16_t>(config_.my_id), incarnation},
      node_options_(MakeNodeOptions(config_)),
      data_dir_(std::move(data_dir)),
      replicated_(std::make_unique<ReplicatedTree>(origin_)),
      router_(origin_, kResendElections * node_options_.raft.election_ticks, this),
      tracker_(config_.tick_time_ms),
      last_tick_(std::chrono::steady_clock::now()) {
  status_.standalone = config_.standalone();
  status_.voters = node_options_.raft.membership.voters.size();
  status_.leader_contact_age_ms = INT32_MAX;
  network_ =
      std::make_unique<PeerNetwork>(MakePeerOptions(config_), static_cast<PeerHandler*>(this));
  node_ = std::make_unique<consensus::Node>(node_options_, data_dir_.get(), &random_,
                                            replicated_.get(), network_.get(),
                                            static_cast<consensus::NodeObserver*>(this));
  door_ = doors_->Make(config_, this);
  replicated_->SetDoor(door_);
}

Server::~Server() = default;

absl::Status Server::Run() {
  spdlog::info("server {} of {}, data in {}, log entries up to {}", config_.my_id,
               config_.standalone() ? "a standalone cluster"
                                    : fmt::format("{} members", config_.servers.size()),
               config_.log_dir, data_dir_->log().last_index().value());
  if (absl::Status s = network_->Start(data_dir_->cluster_id()); !s.ok()) return s;
  node_->Start();
  absl::Status result = doors_->Open();
  if (result.ok()) {
    spdlog::info("clients are welcome on {}:{}", config_.client_address, config_.client_port);
    std::unique_lock<std::mutex> lock(end_mutex_.native());
    end_changed_.wait(lock, [this] { return end_requested_; });
    result = end_reason_;
  }
  if (result.ok()) HandLeadershipOver();
  // Whoever calls into something else stops before it does: streams, threads of the node, doors.
  network_->Stop();
  node_->Stop();
  doors_->Close();
  spdlog::info("stopped");
  return result;
}

void Server::RequestStop() { End(absl::OkStatus()); }

void Server::End(absl::Status why) {
  MutexLock lock(&end_mutex_);
  if (end_requested_) return;
  end_requested_ = true;
  end_reason_ = std::move(why);
  end_changed_.notify_all();
}

void Server::HandLeadershipOver() {
  if (config_.standalone()) return;
  node_->Post([this] {
    if (node_->raft().TransferLeadership(consensus::kNoMember).ok()) {
      spdlog::info("handing leadership over before the stop");
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + kHandOverTimeout;
  std::unique_lock<std::mutex> lock(status_mutex_.native());
  while (status_.is_leader &&
         status_changed_.wait_until(lock, deadline) != std::cv_status::timeout) {
  }
}

// --- Service -------------------------------------------------------------------------------------

void Server::Submit(CommandBatch batch) {
  size_t bytes = 0;
  for (const CommandBatch::Range& range : batch.commands) bytes += range.size;
  waiting_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  auto shared = std::make_shared<CommandBatch>(std::move(batch));
  node_->Post([this, shared] { router_.Submit(std::move(*shared)); });
}

bool Server::congested() const {
  return waiting_bytes_.load(std::memory_order_relaxed) > kWaitingBytesMax;
}

void Server::Sync(uint32_t origin_tag, uint64_t sync_id) {
  node_->Post([this, origin_tag, sync_id] { StartSync({origin_tag, sync_id}); });
}

void Server::StartSync(PendingSync sync) {
  const uint64_t request_id = next_read_++;
  reads_[request_id] = sync;
  node_->raft().ReadIndex(request_id);
}

void Server::Touch(std::vector<int64_t> sessions) {
  auto shared = std::make_shared<std::vector<int64_t>>(std::move(sessions));
  node_->Post([this, shared] {
    TouchOnNodeThread(*shared);
    if (raft_status_.leader != consensus::kNoMember &&
        raft_status_.leader != node_options_.raft.self) {
      network_->SendTouches(raft_status_.leader, *shared);
    }
  });
}

void Server::TouchOnNodeThread(const std::vector<int64_t>& sessions) {
  for (int64_t session : sessions) tracker_.Touch(tree::SessionId(session));
}

ServerStatus Server::status() const {
  MutexLock lock(&status_mutex_);
  return status_;
}

// --- consensus::NodeObserver ---------------------------------------------------------------------

void Server::OnStatus(const consensus::Status& status) {
  if (status.leader != raft_status_.leader || status.role != raft_status_.role) {
    if (status.leader_established) {
      spdlog::info("leading in term {}", status.term.value());
    } else if (status.leader != consensus::kNoMember && status.leader != node_options_.raft.self) {
      spdlog::info("following server {} in term {}", status.leader.value(), status.term.value());
    } else if (status.leader == consensus::kNoMember &&
               raft_status_.leader != consensus::kNoMember) {
      spdlog::info("no leader (term {})", status.term.value());
    }
  }
  raft_status_ = status;
  router_.OnStatus(status);
  BeginToLead();
  PublishStatus();
}

void Server::BeginToLead() {
  // Not before everything of earlier terms is applied here: after a restart, the sessions come back
  // with the replay, and their clients can attach only after it.
  const bool leads = raft_status_.leader_established && applied_term_ == raft_status_.term;
  if (leads && !judges_sessions_) tracker_.TouchAll();
  judges_sessions_ = leads;
}

void Server::OnReads(const std::vector<consensus::ReadResult>& reads) {
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

void Server::OnApplied(consensus::Index index) {
  applied_ = index;
  ReplicatedTree::News news = replicated_->TakeNews();
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
  }
  waiting_bytes_.store(router_.waiting_bytes(), std::memory_order_relaxed);
  while (!syncs_.empty() && syncs_.begin()->first <= index.value()) {
    const PendingSync sync = syncs_.begin()->second;
    syncs_.erase(syncs_.begin());
    door_->OnSyncDone(sync.origin_tag, sync.sync_id,
                      tree::Zxid(static_cast<int64_t>(index.value())));
  }
}

void Server::EndAsOutdated(uint64_t incarnation) {
  // This server has been started before with a greater number: its disk was lost and its clock is
  // behind. Nothing that it submits now would be applied; the greater number on disk cures that at
  // the next start.
  absl::Status saved = SaveIncarnation(config_.log_dir, incarnation);
  End(absl::FailedPreconditionError(absl::StrCat(
      "this server has been started before with incarnation ", incarnation, ", and has ",
      origin_.incarnation, " now; was its disk lost while its clock is behind? ",
      saved.ok() ? "Set the clock right and start it again" : std::string(saved.message()))));
}

void Server::OnTick() {
  for (const PendingSync& sync : std::exchange(refused_reads_, {})) StartSync(sync);
  router_.OnTick();
  network_->Tick();
  ExpireSessions();
  PublishStatus();
}

void Server::ExpireSessions() {
  // Only time in which this thread ran counts: a pause of the process makes nobody older.
  const auto now = std::chrono::steady_clock::now();
  const auto elapsed_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_tick_).count();
  if (elapsed_ms <= 0) return;
  last_tick_ = now;
  const auto expired = tracker_.Advance(std::min<int64_t>(elapsed_ms, 3 * node_options_.tick_ms),
                                        kExpiriesAtOnceMax);
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
  if (absl::Status s = Propose(std::move(commands)); !s.ok()) {
    spdlog::warn("sessions could not be expired now: {}", std::string(s.message()));
  }
}

void Server::PublishStatus() {
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
                static_cast<int64_t>(raft.ticks_since_leader()) * node_options_.tick_ms,
                network_->DownForMs(raft_status_.leader));
  status_.in_touch =
      status_.leader_contact_age_ms <= kInTouchElections * config_.election_timeout_ms;
  status_.followers_in_sync = 0;
  if (status_.is_leader) {
    for (MemberId voter : node_options_.raft.membership.voters) {
      if (voter != node_options_.raft.self && raft.match_index(voter) >= raft.commit_index()) {
        ++status_.followers_in_sync;
      }
    }
  }
  status_changed_.notify_all();
}

void Server::OnClusterId(const std::string& cluster_id) {
  spdlog::info("this is cluster {}", absl::BytesToHexString(cluster_id));
  network_->SetClusterId(cluster_id);
}

void Server::OnFatal(const absl::Status& error) {
  // What the disk holds now is unknown: nothing that runs on may rely on it, and nothing is tidied
  // up.
  spdlog::critical("the server ends: {}", std::string(error.message()));
  spdlog::shutdown();
  std::_Exit(1);
}

// --- PeerHandler ---------------------------------------------------------------------------------

void Server::OnPeerBatch(MemberId from, PeerBatch batch) {
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

void Server::OnPeerUp(MemberId member) {
  node_->Post([this, member] { router_.OnPeerUp(member); });
  MutexLock lock(&end_mutex_);
  other_clusters_.erase(member);
}

void Server::OnPeerDown(MemberId member) { node_->PeerUnreachable(member); }

void Server::OnOtherCluster(MemberId member, const std::string& cluster_id) {
  size_t others;
  {
    MutexLock lock(&end_mutex_);
    other_clusters_[member] = cluster_id;
    others = static_cast<size_t>(
        std::count_if(other_clusters_.begin(), other_clusters_.end(),
                      [&](const auto& other) { return other.second == cluster_id; }));
  }
  // One that differs from us may itself be the stranger; a majority is not.
  if (others * 2 <= config_.servers.size()) return;
  End(absl::FailedPreconditionError(absl::StrCat(
      "data directory ", config_.log_dir, " belongs to another cluster than the other servers (",
      absl::BytesToHexString(cluster_id),
      "); point dataDir to this member's own directory, or move it away and start again, and the "
      "member is rebuilt from the others")));
}

// --- WriteRouter::Actions ------------------------------------------------------------------------

absl::Status Server::Propose(std::vector<Slice> commands) {
  return node_->raft().Propose(std::move(commands));
}

void Server::Forward(MemberId leader, const std::vector<std::string_view>& commands) {
  network_->Forward(leader, commands);
}

int64_t Server::NowMs() { return WallClockMs(); }

}  // namespace quorate::rpc
