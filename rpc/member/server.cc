// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/server.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/random.h"
#include "consensus/log/env.h"
#include "consensus/log/new_data_dir.h"
#include "rpc/config/log_warnings.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/checkpoints/start_progress.h"
#include "rpc/member/disk/free_space.h"
#include "rpc/member/disk/incarnation.h"
#include "rpc/member/disk/incomplete_directory.h"
#include "rpc/member/exit_status.h"
#include "rpc/member/fatal_error.h"
#include "rpc/member/member_security.h"
#include "rpc/membership/reconfiguration.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

constexpr auto kHandOverTimeout = std::chrono::seconds(2);
constexpr auto kMeasuringInterval = std::chrono::milliseconds(500);
// The size of the checkpoints' ballast file, in log files: a checkpoint is due when one log file's
// worth of changes was written, and more changes come until it is durable.
constexpr uint64_t kCheckpointBallastFiles = 2;

// Returns whether two directories are on one disk. Returns true if that is unknown, because the log
// then leaves space for the checkpoints.
bool AreOnOneDisk(const std::string& a, const std::string& b) {
  struct stat a_info, b_info;
  return stat(a.c_str(), &a_info) != 0 || stat(b.c_str(), &b_info) != 0 ||
         a_info.st_dev == b_info.st_dev;
}

}  // namespace

PeerNetworkOptions Server::MakePeerOptions(const Config& config, PeerSecurity security) {
  PeerNetworkOptions options;
  options.security = std::move(security);
  options.self = MemberId(config.my_id);
  for (const auto& [id, server] : config.servers) {
    const auto port = static_cast<uint16_t>(server.peer_port);
    if (id != config.my_id) {
      options.addresses[MemberId(id)] = {server.host, port};
    } else {
      options.listen_address = {config.quorum_listen_on_all_ips ? "" : server.host, port};
    }
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(Config config, FrontendFactory* frontends) {
  const std::set<std::string> dirs{config.log_dir, config.data_dir};
  auto server = Open(std::move(config), frontends);
  // ResourceExhausted may also be about other resources than disks, such as open files.
  const bool is_full = absl::StrContains(server.status().message(), std::strerror(ENOSPC)) ||
                       absl::StrContains(server.status().message(), std::strerror(EDQUOT));
  const bool is_known = server.ok() || ExitStatusOf(server.status()) != ExitStatus::kError;
  if (is_known || (absl::IsResourceExhausted(server.status()) && !is_full)) return server;
  if (!is_full) return WithExitStatus(server.status(), ExitStatus::kDataDirectory);
  // A server that has data needs no free space to start, unless its log has to begin again.
  return WithExitStatus(
      absl::ResourceExhaustedError(absl::StrCat(
          server.status().message(),
          ". The disk is full, and this step of the start needs free space; nothing is "
          "lost. Free some space on the disks of ",
          absl::StrJoin(dirs, " and "), ", and start the server again")),
      ExitStatus::kDataDirectory);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(Config config, FrontendFactory* frontends) {
  LogWarnings(kConfigurationWarning, config.warnings);
  ReplicaOptions options =
      MakeReplicaOptions(config, RandomBytes::System()->Make(consensus::kClusterIdBytes));
  if (absl::Status s = options.node.raft.Validate(); !s.ok()) {
    return WithExitStatus(std::move(s), ExitStatus::kConfiguration);
  }
  auto security = MakePeerSecurity(config);
  if (!security.ok()) return WithExitStatus(security.status(), ExitStatus::kConfiguration);
  auto env = std::make_unique<MeasuredEnv>(consensus::Env::Posix(), Clock::System());
  options.sync_times = [measured = env.get()] { return measured->sync_times(); };
  const int64_t now_ms = Clock::System()->WallMs();
  consensus::SegmentLogOptions log_options;
  if (config.log_segment_bytes > 0) {
    log_options.segment_bytes = static_cast<uint64_t>(config.log_segment_bytes);
  }
  if (absl::Status s = CheckNotDiverged(env.get(), config.log_dir); !s.ok()) return s;
  if (absl::Status s = CheckWhole(env.get(), config.log_dir, config.data_dir); !s.ok()) return s;
  LogScanProgress scan_progress(Clock::System());
  log_options.scan_observer = &scan_progress;
  auto data_dir = consensus::DataDir::Open(env.get(), config.log_dir, MemberId(config.my_id),
                                           log_options, consensus::kFirstDirectoryEpoch);
  if (!data_dir.ok()) return data_dir.status();
  if (absl::Status s = env->CreateDirectories(config.data_dir); !s.ok()) return s;
  // The mark remains if `quorate restore` or `quorate import` was killed just before removing it.
  if (consensus::NewDataDir::IsMarked(env.get(), config.data_dir)) {
    absl::Status s = consensus::NewDataDir::Unmark(env.get(), config.data_dir);
    if (!s.ok()) return s;
  }
  auto store = tree::RocksRecordStore::Open(options.checkpoint_dir);
  if (!store.ok()) return store.status();
  const tree::RocksRecordStore& opened_store = **store;
  if (opened_store.waits_for_free_space()) {
    spdlog::error(
        "the disk of {} is full: the server starts, but its checkpoints wait for free space. Free "
        "some space; nothing is lost, and it goes on by itself",
        options.checkpoint_dir);
  }
  auto incarnation = NextIncarnation(env.get(), config.log_dir, now_ms);
  if (!incarnation.ok()) return incarnation.status();
  options.node.raft.directory_epoch = (*data_dir)->directory_epoch();
  auto checkpoint_ballast = std::make_unique<consensus::BallastFile>(
      env.get(), options.checkpoint_dir, kCheckpointBallastFiles * log_options.segment_bytes);
  options.checkpoint_ballast = checkpoint_ballast.get();
  options.shares_disk = AreOnOneDisk(config.log_dir, options.checkpoint_dir);
  auto server = std::unique_ptr<Server>(new Server(
      std::move(config), std::move(options), *std::move(security), frontends, std::move(env),
      *std::move(data_dir), *std::move(store), std::move(checkpoint_ballast), *incarnation));
  if (absl::Status s = server->replica_->Load(); !s.ok()) {
    return absl::IsDataLoss(s) ? opened_store.WithOrigin(s) : s;
  }
  return server;
}

Server::Server(Config config, ReplicaOptions options, PeerSecurity security,
               FrontendFactory* frontends, std::unique_ptr<MeasuredEnv> env,
               std::unique_ptr<consensus::DataDir> data_dir,
               std::unique_ptr<tree::RecordStore> store,
               std::unique_ptr<consensus::BallastFile> checkpoint_ballast, uint64_t incarnation)
    : config_(std::move(config)),
      frontends_(frontends),
      env_(std::move(env)),
      checkpoint_ballast_(std::move(checkpoint_ballast)),
      data_dir_(std::move(data_dir)),
      store_(std::move(store)),
      member_files_(config_, env_.get()) {
  network_ = std::make_unique<PeerNetwork>(MakePeerOptions(config_, std::move(security)),
                                           static_cast<PeerHandler*>(this));
  replica_ = std::make_unique<Replica>(std::move(options), incarnation, data_dir_.get(),
                                       store_.get(), &random_, Clock::System(), network_.get(),
                                       static_cast<ReplicaHost*>(this));
  replica_->SetFrontend(frontends_->Make(config_, replica_.get(), replica_.get()));
  disk_space_ = std::make_unique<PeriodicTask>("disk-space", kMeasuringInterval, [this] {
    const std::optional<uint64_t> log_bytes = MeasureFreeBytes(config_.log_dir);
    const std::optional<uint64_t> data_bytes = MeasureFreeBytes(config_.data_dir);
    if (log_bytes.has_value() && data_bytes.has_value()) {
      replica_->OnDiskSpace({*log_bytes, *data_bytes});
    }
  });
  memory_ = std::make_unique<PeriodicTask>("memory", kMeasuringInterval,
                                           [this] { replica_->OnMemory(); });
  if (MemberFiles::IsConfigured(config_)) {
    member_files_task_ = std::make_unique<PeriodicTask>("member-files", kMeasuringInterval,
                                                        [this] { UpdateMemberFiles(); });
  }
  replica_->memory().SetLimit(config_.memory_limit_mb > 0
                                  ? static_cast<uint64_t>(config_.memory_limit_mb) << 20
                                  : DefaultMemoryLimit());
}

Server::~Server() = default;

absl::Status Server::Run() {
  spdlog::info("server {} of {}, data in {}, log in {} up to entry {}", config_.my_id,
               config_.standalone() ? "a standalone cluster"
                                    : fmt::format("{} members", config_.servers.size()),
               config_.data_dir, config_.log_dir, data_dir_->log().last_index().value());
  if (const auto& cut = data_dir_->log().cut_at_open(); cut.has_value()) {
    spdlog::warn(
        "{}: {} bytes at offset {} were no whole record, as a power failure leaves what was not "
        "written to the end; they were removed, and the log goes on with entry {}. If the power "
        "did not fail, look at the disk: it may have damaged what was written",
        cut->path, cut->bytes, cut->offset, cut->index.value());
  }
  if (absl::Status s = network_->Start(data_dir_->cluster_id()); !s.ok()) {
    return WithExitStatus(std::move(s), ExitStatus::kPeerPort);
  }
  disk_space_->Start();
  memory_->Start();
  replica_->node().Start(config_.standalone() ? nullptr : network_.get());
  if (member_files_task_ != nullptr) member_files_task_->Start();
  absl::Status result = frontends_->Open();
  if (result.ok()) {
    spdlog::info("listening for ZooKeeper clients on {}", config_.ClientEndpoints());
    MutexLock lock(&mutex_);
    while (!end_requested_) end_changed_.Wait(&mutex_);
    result = end_reason_;
  }
  if (result.ok()) HandLeadershipOver();
  // Each part stops before the parts that it calls: the threads of the node (and the connections
  // that one of them serves), then the front ends.
  if (member_files_task_ != nullptr) member_files_task_->Stop();
  memory_->Stop();
  disk_space_->Stop();
  replica_->node().Stop();
  frontends_->Close();
  spdlog::info("stopped");
  return result;
}

void Server::UpdateMemberFiles() {
  constexpr auto kRetryInterval = std::chrono::seconds(60);
  const std::string text = replica_->DurableMembersText();
  if (text.empty() || text == members_written_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!files_problem_.empty() && now < files_retried_at_ + kRetryInterval) return;
  files_retried_at_ = now;
  const absl::Status status = member_files_.Update(MembersOfText(text), VersionOf(text));
  if (status.ok()) {
    members_written_ = text;
    files_problem_.clear();
    return;
  }
  if (files_problem_ == status.message()) return;
  files_problem_ = std::string(status.message());
  spdlog::warn(
      "{} does not show the members of version 0x{:x}: {}. The membership in the log counts, here "
      "and after a restart; make the file and its directory writable, or change its lines by hand",
      config_.file, VersionOf(text), files_problem_);
}

void Server::RequestStop() { OnEnd(absl::OkStatus()); }

void Server::HandLeadershipOver() {
  if (config_.standalone()) return;
  replica_->HandLeadershipOver();
  const auto deadline = std::chrono::steady_clock::now() + kHandOverTimeout;
  MutexLock lock(&mutex_);
  while (replica_->status().is_leader && status_changed_.WaitUntil(&mutex_, deadline)) {
  }
}

// --- ReplicaHost ---------------------------------------------------------------------------------

void Server::OnEnd(absl::Status why) {
  MutexLock lock(&mutex_);
  if (end_requested_) return;
  end_requested_ = true;
  end_reason_ = std::move(why);
  end_changed_.NotifyAll();
}

void Server::OnFatal(const absl::Status& error) {
  // The contents of the disk are unknown now, so the process ends at once, without any clean-up.
  spdlog::critical("the server ends: {}", WithAdvice(std::string(error.message())));
  spdlog::default_logger_raw()->flush();
  std::_Exit(1);
}

absl::Status Server::SaveIncarnation(uint64_t incarnation) {
  return rpc::SaveIncarnation(consensus::Env::Posix(), config_.log_dir, incarnation);
}

void Server::OnDiverged(const Divergence& divergence) {
  const absl::Status kept =
      WriteDivergenceMarker(consensus::Env::Posix(), config_.log_dir, divergence);
  if (!kept.ok()) {
    spdlog::error("the next start will not know of it: {}", std::string(kept.message()));
  }
  // The process ends at once: clients must not read from this tree any more, and the other members
  // elect a leader as soon as the connections break.
  OnFatal(DivergenceError(config_.log_dir, divergence));
}

void Server::OnStatusPublished() {
  frontends_->OnStatusPublished();
  MutexLock lock(&mutex_);
  status_changed_.NotifyAll();
}

// --- PeerHandler ---------------------------------------------------------------------------------

absl::Status Server::OnPeerBatch(MemberId from, PeerBatch batch) {
  return replica_->OnPeerBatch(from, std::move(batch));
}

void Server::OnPeerUp(MemberId member) { replica_->OnPeerUp(member); }

void Server::OnPeerDown(MemberId member) { replica_->OnPeerDown(member); }

void Server::OnOtherCluster(MemberId member, const std::string& cluster_id) {
  replica_->OnOtherCluster(member, cluster_id);
}

}  // namespace quorate::rpc
