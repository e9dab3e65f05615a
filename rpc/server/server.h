// One Quorate server: everything wired together.
//
// Thread-safety: Create, Run and the destructor from one thread; RequestStop from any thread and
// from a signal handler's thread. The rest are interfaces that the parts call as their own headers
// say.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "consensus/log/data_dir.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/peer_network.h"
#include "rpc/server/config.h"
#include "rpc/server/replicated_tree.h"
#include "rpc/server/service.h"
#include "rpc/server/session_tracker.h"
#include "rpc/server/write_router.h"

namespace quorate::rpc {

// Makes the doors of a server; given by main, so that the server does not know which there are.
class DoorFactory {
 public:
  virtual ~DoorFactory() = default;
  // The door through which all clients come. `service` outlives it.
  virtual Door* Make(const Config& config, Service* service) = 0;
  // Opens it; errors name address and port.
  virtual absl::Status Open() = 0;
  virtual void Close() = 0;
};

class Server : private Service,
               private consensus::NodeObserver,
               private PeerHandler,
               private WriteRouter::Actions {
 public:
  // Opens the data directory and prepares everything; nothing listens yet. `doors` must outlive the
  // server.
  static absl::StatusOr<std::unique_ptr<Server>> Create(Config config, DoorFactory* doors);
  ~Server() override;

  // Serves until RequestStop, or until it cannot go on: then the error says why.
  absl::Status Run();
  // Hands leadership over, if it has it, and ends Run.
  void RequestStop();

 private:
  Server(Config config, DoorFactory* doors, std::unique_ptr<consensus::DataDir> data_dir,
         uint64_t incarnation);

  // Service
  const tree::Tree& tree() const override { return replicated_->tree(); }
  SharedMutex& tree_mutex() override { return replicated_->mutex(); }
  tree::Origin origin() const override { return origin_; }
  void Submit(CommandBatch batch) override;
  bool congested() const override;
  void Sync(uint32_t origin_tag, uint64_t sync_id) override;
  void Touch(std::vector<int64_t> sessions) override;
  ServerStatus status() const override;

  // consensus::NodeObserver
  void OnStatus(const consensus::Status& status) override;
  void OnReads(const std::vector<consensus::ReadResult>& reads) override;
  void OnApplied(consensus::Index index) override;
  void OnTick() override;
  void OnClusterId(const std::string& cluster_id) override;
  void OnFatal(const absl::Status& error) override;

  // PeerHandler
  void OnPeerBatch(consensus::MemberId from, PeerBatch batch) override;
  void OnPeerUp(consensus::MemberId member) override;
  void OnPeerDown(consensus::MemberId member) override;
  void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) override;

  // WriteRouter::Actions
  absl::Status Propose(std::vector<Slice> commands) override;
  void Forward(consensus::MemberId leader, const std::vector<std::string_view>& commands) override;
  int64_t NowMs() override;

  struct PendingSync {
    uint32_t origin_tag = 0;
    uint64_t sync_id = 0;
  };
  void StartSync(PendingSync sync);
  void TouchOnNodeThread(const std::vector<int64_t>& sessions);
  void BeginToLead();
  void EndAsOutdated(uint64_t incarnation);
  void ExpireSessions();
  void PublishStatus();
  void End(absl::Status why);
  void HandLeadershipOver();
  static consensus::NodeOptions MakeNodeOptions(const Config& config);
  static PeerNetworkOptions MakePeerOptions(const Config& config);

  class Random : public consensus::RandomSource {
   public:
    uint64_t Next() override { return engine_(); }

   private:
    std::mt19937_64 engine_{std::random_device{}()};
  };

  const Config config_;
  DoorFactory* const doors_;
  const tree::Origin origin_;
  const consensus::NodeOptions node_options_;
  std::unique_ptr<consensus::DataDir> data_dir_;
  Random random_;
  std::unique_ptr<ReplicatedTree> replicated_;
  std::unique_ptr<PeerNetwork> network_;
  std::unique_ptr<consensus::Node> node_;
  Door* door_ = nullptr;

  // Node thread.
  WriteRouter router_;
  SessionTracker tracker_;
  consensus::Status raft_status_;
  consensus::Index applied_;
  consensus::Term applied_term_;
  bool judges_sessions_ = false;  // leads, and has applied what came before
  std::chrono::steady_clock::time_point last_tick_;
  uint64_t next_read_ = 1;
  std::map<uint64_t, PendingSync> reads_;       // asked of Raft, by request id
  std::vector<PendingSync> refused_reads_;      // to be asked again at the next tick
  std::multimap<uint64_t, PendingSync> syncs_;  // wait for an index to be applied

  std::atomic<size_t> waiting_bytes_{0};

  mutable Mutex status_mutex_;
  std::condition_variable status_changed_;
  ServerStatus status_ ABSL_GUARDED_BY(status_mutex_);

  Mutex end_mutex_;
  std::condition_variable end_changed_;
  bool end_requested_ ABSL_GUARDED_BY(end_mutex_) = false;
  absl::Status end_reason_ ABSL_GUARDED_BY(end_mutex_);
  std::map<consensus::MemberId, std::string> other_clusters_ ABSL_GUARDED_BY(end_mutex_);
};

}  // namespace quorate::rpc
