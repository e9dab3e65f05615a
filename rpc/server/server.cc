#include "rpc/server/server.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/random.h"
#include "consensus/log/env.h"
#include "rpc/server/incarnation.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

constexpr auto kHandOverTimeout = std::chrono::seconds(2);

}  // namespace

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
  ReplicaOptions options =
      MakeReplicaOptions(config, RandomBytes::System()->Make(consensus::kClusterIdBytes));
  if (absl::Status s = options.node.raft.Validate(); !s.ok()) return s;
  auto env = std::make_unique<MeasuredEnv>(consensus::Env::Posix(), Clock::System());
  options.sync_times = [measured = env.get()] { return measured->sync_times(); };
  const int64_t now_ms = Clock::System()->WallMs();
  consensus::SegmentLogOptions log_options;
  if (config.log_segment_bytes > 0) {
    log_options.segment_bytes = static_cast<uint64_t>(config.log_segment_bytes);
  }
  auto data_dir = consensus::DataDir::Open(env.get(), config.log_dir, MemberId(config.my_id),
                                           log_options, static_cast<uint64_t>(now_ms));
  if (!data_dir.ok()) return data_dir.status();
  if (absl::Status s = env->CreateDirectories(config.data_dir); !s.ok()) return s;
  auto store = tree::RocksRecordStore::Open(options.checkpoint_dir);
  if (!store.ok()) return store.status();
  auto incarnation = NextIncarnation(env.get(), config.log_dir, now_ms);
  if (!incarnation.ok()) return incarnation.status();
  options.node.raft.birth = (*data_dir)->birth();
  auto server = std::unique_ptr<Server>(new Server(std::move(config), std::move(options), doors,
                                                   std::move(env), *std::move(data_dir),
                                                   *std::move(store), *incarnation));
  if (absl::Status s = server->replica_->Load(); !s.ok()) return s;
  return server;
}

Server::Server(Config config, ReplicaOptions options, DoorFactory* doors,
               std::unique_ptr<MeasuredEnv> env, std::unique_ptr<consensus::DataDir> data_dir,
               std::unique_ptr<tree::RecordStore> store, uint64_t incarnation)
    : config_(std::move(config)),
      doors_(doors),
      env_(std::move(env)),
      data_dir_(std::move(data_dir)),
      store_(std::move(store)) {
  network_ =
      std::make_unique<PeerNetwork>(MakePeerOptions(config_), static_cast<PeerHandler*>(this));
  replica_ = std::make_unique<Replica>(std::move(options), incarnation, data_dir_.get(),
                                       store_.get(), &random_, Clock::System(), network_.get(),
                                       static_cast<ReplicaHost*>(this));
  replica_->SetDoor(doors_->Make(config_, replica_.get()));
}

Server::~Server() = default;

absl::Status Server::Run() {
  spdlog::info("server {} of {}, data in {}, log in {} up to entry {}", config_.my_id,
               config_.standalone() ? "a standalone cluster"
                                    : fmt::format("{} members", config_.servers.size()),
               config_.data_dir, config_.log_dir, data_dir_->log().last_index().value());
  if (absl::Status s = network_->Start(data_dir_->cluster_id()); !s.ok()) return s;
  replica_->node().Start();
  absl::Status result = doors_->Open();
  if (result.ok()) {
    spdlog::info("clients are welcome on {}:{}", config_.client_address, config_.client_port);
    std::unique_lock<std::mutex> lock(mutex_.native());
    end_changed_.wait(lock, [this] { return end_requested_; });
    result = end_reason_;
  }
  if (result.ok()) HandLeadershipOver();
  // Whoever calls into something else stops before it does: streams, threads of the node, doors.
  network_->Stop();
  replica_->node().Stop();
  doors_->Close();
  spdlog::info("stopped");
  return result;
}

void Server::RequestStop() { OnEnd(absl::OkStatus()); }

void Server::HandLeadershipOver() {
  if (config_.standalone()) return;
  replica_->HandLeadershipOver();
  std::unique_lock<std::mutex> lock(mutex_.native());
  status_changed_.wait_for(lock, kHandOverTimeout,
                           [this] { return !replica_->status().is_leader; });
}

// --- ReplicaHost ---------------------------------------------------------------------------------

void Server::OnEnd(absl::Status why) {
  MutexLock lock(&mutex_);
  if (end_requested_) return;
  end_requested_ = true;
  end_reason_ = std::move(why);
  end_changed_.notify_all();
}

void Server::OnFatal(const absl::Status& error) {
  // What the disk holds now is unknown: nothing that runs on may rely on it, and nothing is tidied
  // up.
  spdlog::critical("the server ends: {}", std::string(error.message()));
  spdlog::shutdown();
  std::_Exit(1);
}

absl::Status Server::SaveIncarnation(uint64_t incarnation) {
  return rpc::SaveIncarnation(consensus::Env::Posix(), config_.log_dir, incarnation);
}

void Server::OnStatusPublished() {
  MutexLock lock(&mutex_);
  status_changed_.notify_all();
}

// --- PeerHandler ---------------------------------------------------------------------------------

void Server::OnPeerBatch(MemberId from, PeerBatch batch) {
  replica_->OnPeerBatch(from, std::move(batch));
}

void Server::OnPeerUp(MemberId member) { replica_->OnPeerUp(member); }

void Server::OnPeerDown(MemberId member) { replica_->OnPeerDown(member); }

void Server::OnOtherCluster(MemberId member, const std::string& cluster_id) {
  replica_->OnOtherCluster(member, cluster_id);
}

}  // namespace quorate::rpc
