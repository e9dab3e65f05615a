// SPDX-License-Identifier: Apache-2.0

// One Quorate server: a replica (replica.h) with its data directory, its links to the other servers
// and its front ends.
//
// Thread-safety: Create, Run and the destructor are called from one thread; RequestStop may be
// called from any thread. The other functions are interfaces that the parts call as their headers
// say.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "consensus/log/ballast_file.h"
#include "consensus/log/data_dir.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/service.h"
#include "rpc/member/disk/measured_env.h"
#include "rpc/member/periodic_task.h"
#include "rpc/member/replica.h"
#include "rpc/membership/member_files.h"
#include "rpc/peer/peer_network.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

// Makes the front ends of a server. main provides it, so that the server does not depend on them.
class FrontendFactory {
 public:
  virtual ~FrontendFactory() = default;
  // Makes the front end of all clients. `config`, `service` and `administration` must outlive it.
  virtual Frontend* Make(const Config& config, Service* service,
                         Administration* administration) = 0;
  // Begins to listen for clients; errors name address and port.
  virtual absl::Status Open() = 0;
  virtual void Close() = 0;
  // Called on the node thread, which runs between Make and Close, after Service::status() was
  // updated.
  virtual void OnStatusPublished() = 0;
};

class Server : private PeerHandler, private ReplicaHost {
 public:
  // Opens the data directory and prepares everything; nothing listens yet. `frontends` must outlive
  // the server. Also succeeds on a full disk if the member has data: the server serves that data,
  // and continues when there is free space. ResourceExhausted, naming the disk, if the member is
  // new.
  static absl::StatusOr<std::unique_ptr<Server>> Create(Config config, FrontendFactory* frontends);
  ~Server() override;

  // Serves until RequestStop is called, or until the server cannot go on: then returns the reason.
  // Aborted means that a new process can go on, and should be started at once.
  absl::Status Run();
  // Hands leadership over, if this server leads, and ends Run.
  void RequestStop();

 private:
  Server(Config config, ReplicaOptions options, PeerSecurity security, FrontendFactory* frontends,
         std::unique_ptr<MeasuredEnv> env, std::unique_ptr<consensus::DataDir> data_dir,
         std::unique_ptr<tree::RecordStore> store,
         std::unique_ptr<consensus::BallastFile> checkpoint_ballast, uint64_t incarnation);

  static absl::StatusOr<std::unique_ptr<Server>> Open(Config config, FrontendFactory* frontends);

  // PeerHandler. These forward to the replica, because the network is made before it.
  absl::Status OnPeerBatch(consensus::MemberId from, PeerBatch batch) override;
  void OnPeerUp(consensus::MemberId member) override;
  void OnPeerDown(consensus::MemberId member) override;
  void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) override;

  // ReplicaHost
  void OnFatal(const absl::Status& error) override;
  void OnEnd(absl::Status why) override;
  absl::Status SaveIncarnation(uint64_t incarnation) override;
  void OnDiverged(const Divergence& divergence) override;
  void OnStatusPublished() override;

  void HandLeadershipOver();
  // Makes the configuration files show the members, if these have changed.
  void UpdateMemberFiles();
  static PeerNetworkOptions MakePeerOptions(const Config& config, PeerSecurity security);

  class Random : public consensus::RandomSource {
   public:
    uint64_t Next() override { return engine_(); }

   private:
    std::mt19937_64 engine_{std::random_device{}()};
  };

  const Config config_;
  FrontendFactory* const frontends_;
  const std::unique_ptr<MeasuredEnv> env_;
  const std::unique_ptr<consensus::BallastFile> checkpoint_ballast_;  // outlives the log
  std::unique_ptr<consensus::DataDir> data_dir_;
  std::unique_ptr<tree::RecordStore> store_;
  Random random_;
  std::unique_ptr<PeerNetwork> network_;
  std::unique_ptr<Replica> replica_;
  // Two threads: a file system that hangs must not keep the server from measuring its memory.
  std::unique_ptr<PeriodicTask> disk_space_;
  std::unique_ptr<PeriodicTask> memory_;
  // Used by the thread of the task, which exists if the files are kept up to date.
  MemberFiles member_files_;
  std::string members_written_;
  std::string files_problem_;  // as it was logged last
  std::chrono::steady_clock::time_point files_retried_at_;
  std::unique_ptr<PeriodicTask> member_files_task_;

  Mutex mutex_;
  ConditionVariable status_changed_;  // the replica's
  ConditionVariable end_changed_;
  bool end_requested_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
