// One member of the cluster: consensus, the tree, the sessions and the way of the writes, wired
// together. It has no threads, files or sockets of its own: the node's threads drive it in a
// server, and a simulation steps it by hand (consensus/runtime/node.h), on a clock, a disk and
// links of its own. Nothing in it waits for another thread, except for the locks.
//
// Thread-safety: the constructor, SetFrontend and the destructor from one thread while the node
// does not run. Service, Administration and PeerHandler may be called from any thread. The rest are
// interfaces that the node calls as its own header says.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/log/ballast_file.h"
#include "consensus/log/data_dir.h"
#include "consensus/runtime/node.h"
#include "rpc/peer/peer_links.h"
#include "rpc/server/administration.h"
#include "rpc/server/clock_comparison.h"
#include "rpc/server/config.h"
#include "rpc/server/container_manager.h"
#include "rpc/server/digest_comparison.h"
#include "rpc/server/disk_guard.h"
#include "rpc/server/divergence_marker.h"
#include "rpc/server/replicated_tree.h"
#include "rpc/server/service.h"
#include "rpc/server/session_log.h"
#include "rpc/server/session_tracker.h"
#include "rpc/server/tree_checkpoints.h"
#include "rpc/server/wait_reporter.h"
#include "rpc/server/write_router.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

// The bytes that are free on the disks of log and checkpoints, which may be one.
struct DiskFreeSpace {
  uint64_t log_bytes = 0;
  uint64_t checkpoint_bytes = 0;
};

struct ReplicaOptions {
  consensus::NodeOptions node;
  bool standalone = false;        // how it calls itself
  int tick_time_ms = 3000;        // sessions expire at multiples of it
  int election_timeout_ms = 300;  // as configured; node.raft has it in ticks
  // When the leader removes containers and nodes with a TTL (rpc/server/container_manager.h).
  int container_check_interval_ms = 60'000;
  int container_max_per_minute = 10'000;
  // Of writes that are forwarded to the leader and not applied yet (rpc/server/write_router.h).
  size_t forward_window_bytes = kForwardWindowBytes;
  // How often the trees of members are compared.
  DigestComparisonOptions digests = {};
  // How long this member has to be without a leader to serve reads alone; 0: it never does.
  int read_only_after_ms = 0;
  // Of free space on the disk; 0: it is not watched (rpc/server/disk_guard.h).
  uint64_t disk_reserve_bytes = 0;
  // What a checkpoint may give up when it finds no free space; null: nothing. Outlives the replica.
  consensus::BallastFile* checkpoint_ballast = nullptr;
  // Whether log and checkpoints are on one disk, so that what one takes is missing to the other.
  bool shares_disk = true;
  // How long syncs of the log took, for people; null: that is not measured.
  std::function<TimeSummary()> sync_times = nullptr;
  // For messages to the administrator.
  std::string data_dir;
  std::string checkpoint_dir;
};

// What a server of this configuration runs with. `cluster_id_if_new` (consensus::kClusterIdBytes)
// is the id of the cluster that it bootstraps if it leads an empty one.
ReplicaOptions MakeReplicaOptions(const Config& config, std::string cluster_id_if_new);

// What only the process around a replica can do.
class ReplicaHost {
 public:
  virtual ~ReplicaHost() = default;
  // On any thread of the node: the log cannot be written or read. The process must end, and nothing
  // may be tidied up: what the disk holds is unknown.
  virtual void OnFatal(const absl::Status& error) = 0;
  // On any thread, and any number of times: this server cannot go on, and should stop; `why` is for
  // the administrator. Aborted: it can if it is started again, which should be done at once.
  virtual void OnEnd(absl::Status why) = 0;
  // On the node thread: keeps `incarnation`, so that the next start has a greater one.
  virtual absl::Status SaveIncarnation(uint64_t incarnation) = 0;
  // On the node thread: this member's tree differs from a majority's. It must not serve any more,
  // also after a restart: keep the marker (rpc/server/divergence_marker.h) and end the process at
  // once. There is nothing to be tidied up: what the tree holds is wrong.
  virtual void OnDiverged(const Divergence& divergence) = 0;
  // On the node thread, at least once a tick: Service::status() is new.
  virtual void OnStatusPublished() = 0;
};

class Replica final : public Service,
                      public Administration,
                      public PeerHandler,
                      private consensus::NodeObserver,
                      private DigestComparison::Actions,
                      private WriteRouter::Actions {
 public:
  // All pointers must outlive the object. `store` keeps checkpoints; null: there are none, and the
  // log is never cut. `incarnation` is greater than at any earlier start of
  // this member (rpc/server/incarnation.h). `random` is for election timeouts. REQUIRES:
  // options.node.raft.Validate().ok().
  Replica(ReplicaOptions options, uint64_t incarnation, consensus::DataDir* data_dir,
          tree::RecordStore* store, consensus::RandomSource* random, const Clock* clock,
          PeerLinks* links, ReplicaHost* host);
  ~Replica() override;
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // The front end through which all clients come; before the node runs, and for as long.
  void SetFrontend(Frontend* frontend);
  // The same; for checks.
  void SetApplyObserver(ApplyObserver* observer) { replicated_.SetObserver(observer); }
  // Takes the newest checkpoint as what was applied, and makes the node. Once, before anything else
  // is called but SetFrontend. Errors: DataLoss if checkpoint or log are damaged or do not go
  // together.
  absl::Status Load();
  // To be started and stopped, or stepped. REQUIRES: Load was called. Nothing may call the replica
  // while it is destroyed.
  consensus::Node& node() { return *node_; }

  // From any thread: asks another server to lead, if this one does. status() shows when it is done.
  void HandLeadershipOver();

  // From one thread at a time: so much is free. Makes ballast files of it, if there are none
  // (rpc/server/disk_guard.h).
  void OnDiskSpace(DiskFreeSpace space);

  // Service
  GuardedTree::ReadGuard ReadTree() const override { return replicated_.ReadTree(); }
  tree::Proposer proposer() const override { return proposer_; }
  uint32_t cluster_version() const override { return cluster_version_.load(); }
  void Submit(CommandBatch batch) override;
  bool congested() const override;
  bool refuses_data() const override {
    return refuses_data_.load(std::memory_order_relaxed) || memory().low();
  }
  // From one thread at a time: the process takes so much memory.
  void OnMemory();
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override;
  void Touch(std::vector<int64_t> sessions) override;
  ServerStatus status() const override;
  ServerMetrics metrics() const override;

  // Administration
  ClusterView cluster_view() const override;
  void TransferLeadership(consensus::MemberId target,
                          std::function<void(absl::Status)> done) override;
  void Barrier(std::function<void(tree::Zxid)> done) override;
  void RequestCheckpoint(tree::Zxid zxid, std::function<void()> done) override;
  tree::Zxid checkpoint_zxid() const override;
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override;

  // PeerHandler
  absl::Status OnPeerBatch(consensus::MemberId from, PeerBatch batch) override;
  void OnPeerUp(consensus::MemberId member) override;
  void OnPeerDown(consensus::MemberId member) override;
  void OnOtherCluster(consensus::MemberId member, const std::string& cluster_id) override;

 private:
  // consensus::NodeObserver
  void OnStatus(const consensus::Status& status) override;
  void OnMembership(const consensus::Membership& membership) override;
  void OnReads(const std::vector<consensus::ReadResult>& reads) override;
  void OnApplied(consensus::Index index) override;
  bool AwaitsApplied() const override;
  bool AwaitsTick() const override;
  void OnTick() override;
  void OnClusterId(const std::string& cluster_id) override;
  void OnLogFull(const absl::Status& why) override;
  void OnSnapshotRejected(const consensus::SnapshotRejection& rejection) override;
  void OnFatal(const absl::Status& error) override;

  // DigestComparison::Actions (replica_digests.cc)
  std::optional<uint64_t> DigestAt(tree::Zxid zxid) override;
  void SendDigest(consensus::MemberId to, const DigestNote& note) override;
  void OnDiverged(const Divergence& divergence) override;
  void OnOtherDiverged(consensus::MemberId member, const Divergence& divergence) override;
  void OnUndecided(tree::Zxid zxid, const DigestComparison::Digests& digests) override;

  // WriteRouter::Actions
  absl::Status Propose(std::vector<Slice> commands) override;
  void Forward(consensus::MemberId leader, const std::vector<std::string_view>& commands) override;
  bool IsSending(consensus::MemberId leader) const override { return links_->IsSending(leader); }
  uint32_t ClusterVersion() override;
  int64_t NowMs() override;
  void StampTime(tree::CommandHeader* header);

  struct PendingSync {
    uint32_t proposer_tag = 0;
    uint64_t sync_id = 0;
    std::function<void(tree::Zxid)> done = nullptr;  // not null: instead of the front end
  };
  // FailedPrecondition if the newest checkpoint is not one of this log.
  absl::Status CheckBelongs(const consensus::SnapshotMeta& newest) const;
  void StartSync(PendingSync sync);
  void FinishSync(const PendingSync& sync, consensus::Index applied);
  void TouchOnNodeThread(const std::vector<int64_t>& sessions);
  // The same, and tells the leader.
  void TouchEverywhere(const std::vector<int64_t>& sessions);
  // Sessions that cannot be heard because of this server are not silent.
  void TouchHeldUp();
  // Once a leader is known: waits until all that was committed before is applied here.
  void CatchUpOnce();
  void BeginToLead();
  void EndAsOutdated(uint64_t incarnation);
  // What is said of it in the log (replica_reports.cc), and what ends the server. `status` is new.
  void LogLeader(const consensus::Status& status);
  void CheckMemberState(const consensus::Status& status);
  void LogLoss(const consensus::Status& status);
  // While it cannot serve: for what it waits.
  void ReportWait(std::chrono::steady_clock::time_point now);
  WaitFacts FindWaitFacts() const;
  // Before the tracker knows of the change.
  void RecordSession(const ReplicatedTree::News::SessionChange& change);
  // The newest command has this time of the leader's clock.
  void CompareClocks(int64_t command_ms);
  // Both have nothing to do unless this member leads.
  void ExpireSessions(int64_t elapsed_ms);
  void DeleteContainers(int64_t elapsed_ms);
  // Free space on the disks (replica_disk.cc).
  bool IsDiskLow() const;
  absl::Status MakeBallast(DiskFreeSpace space);
  // Whether there is so much that a full disk would be in the way: before, the log's first file has
  // enough free space.
  bool NeedsBallast() const;
  // Whether so much as `ballast` takes may be taken of `free_bytes`.
  bool HasFreeSpaceFor(const consensus::BallastFile& ballast, uint64_t free_bytes) const;
  void GuardDisk();
  void GuardLog();
  void HandOverTo(const std::vector<consensus::MemberId>& successors);
  // Counts and measures elections.
  void MeasureElection(const consensus::Status& status);
  void MeasureServing();
  // Once a while for each server, on any thread.
  void LogRefused(consensus::MemberId from, const absl::Status& error);
  void PublishStatus();
  // How long ago a leader was last heard and could be reached, in milliseconds; 0 at the leader.
  int64_t LeaderContactAgeMs();
  void UpdateStatus();
  void UpdateReadOnly(bool has_contact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);
  void UpdateMetrics() ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);
  void UpdateClusterView() ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);

  const ReplicaOptions options_;
  const tree::Proposer proposer_;
  const Clock* const clock_;
  std::chrono::steady_clock::time_point memory_released_;  // of the thread that measures
  PeerLinks* const links_;
  ReplicaHost* const host_;
  consensus::DataDir* const data_dir_;
  consensus::RandomSource* const random_;
  ReplicatedTree replicated_;
  std::optional<TreeCheckpoints> checkpoints_;
  Frontend* frontend_ = nullptr;

  // Node thread.
  WriteRouter router_;
  SessionTracker tracker_;
  ContainerManager containers_;
  DigestComparison digests_;
  DiskGuard disk_guard_;
  bool log_ballast_used_ = false;  // and that was said
  bool log_is_cut_short_ = false;
  // Until the log of a full disk asks for a checkpoint again; and whether it waits for one.
  int ticks_to_checkpoint_ = 0;
  bool awaits_checkpoint_ = false;
  consensus::Status raft_status_;
  consensus::Index applied_;
  consensus::Term applied_term_;
  bool expires_sessions_ = false;  // leads, and has applied what came before
  bool is_catching_up_ = false;    // for the first time since the start: the barrier is under way
  bool caught_up_ = false;
  WaitReporter wait_reporter_;
  SessionLog session_log_;
  ClockComparison clocks_;
  int64_t compared_command_ms_ = 0;  // the newest that clocks_ knows, and when it was told of it
  std::chrono::steady_clock::time_point clocks_compared_;
  std::chrono::steady_clock::time_point held_up_touched_;
  // As a leader: the last of them is at or before it.
  consensus::Index expiries_proposed_;
  consensus::Index container_deletions_proposed_;
  std::chrono::steady_clock::time_point last_tick_;
  std::chrono::steady_clock::time_point not_serving_since_;
  // Starts again far above those of earlier starts, whose answers may still be on their way.
  uint64_t next_read_;
  std::map<uint64_t, PendingSync> reads_;       // asked of Raft, by request id
  std::vector<PendingSync> refused_reads_;      // to be asked again at the next tick
  std::multimap<uint64_t, PendingSync> syncs_;  // wait for an index to be applied

  ServerMetrics counts_;
  std::chrono::steady_clock::time_point looking_since_;
  bool unavailable_ = true;  // since then
  std::chrono::steady_clock::time_point leader_since_;

  std::atomic<size_t> waiting_bytes_{0};
  std::atomic<uint32_t> cluster_version_{consensus::kVersionBase};
  std::atomic<int64_t> disk_free_bytes_{-1};
  std::atomic<bool> disk_low_{false};  // less than the reserve
  // Why the log takes no entries now: its disk is full, or no file can be opened.
  std::atomic<bool> log_full_{false};
  std::atomic<bool> log_out_of_descriptors_{false};
  std::atomic<bool> refuses_data_{false};

  mutable Mutex status_mutex_;
  ServerStatus status_ ABSL_GUARDED_BY(status_mutex_);
  std::chrono::steady_clock::time_point status_at_ ABSL_GUARDED_BY(status_mutex_);
  std::chrono::steady_clock::time_point contact_at_;      // when a leader was last heard
  uint64_t leader_contacts_ = 0;                          // how often, at the last look
  ServerMetrics metrics_ ABSL_GUARDED_BY(status_mutex_);  // counts_ and more, once a tick
  ClusterView cluster_view_ ABSL_GUARDED_BY(status_mutex_);

  Mutex refusals_mutex_;
  std::map<consensus::MemberId, std::chrono::steady_clock::time_point> refusals_
      ABSL_GUARDED_BY(refusals_mutex_);

  Mutex other_clusters_mutex_;
  std::map<consensus::MemberId, std::string> other_clusters_ ABSL_GUARDED_BY(other_clusters_mutex_);

  std::unique_ptr<consensus::Node> node_;  // last: it uses all of the above
};

}  // namespace quorate::rpc
