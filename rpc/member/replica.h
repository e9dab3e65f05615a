// SPDX-License-Identifier: Apache-2.0

// One member of the cluster: consensus, the tree, the sessions and the routing of writes, wired
// together. It has no threads, files or sockets of its own: in a server the node's threads run it,
// and a simulation steps it by hand (consensus/runtime/node.h), with a simulated clock, disk and
// links. It never waits for another thread, except for a lock.
//
// Thread-safety: the constructor, SetFrontend and the destructor are called from one thread while
// the node does not run. Service, Administration and PeerHandler may be called from any thread. The
// other interfaces are called by the node as its header says.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/log/ballast_file.h"
#include "consensus/log/data_dir.h"
#include "consensus/runtime/node.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/service.h"
#include "rpc/member/checkpoints/digest_comparison.h"
#include "rpc/member/checkpoints/divergence_marker.h"
#include "rpc/member/checkpoints/replicated_tree.h"
#include "rpc/member/checkpoints/tree_checkpoints.h"
#include "rpc/member/clock_comparison.h"
#include "rpc/member/disk/disk_guard.h"
#include "rpc/member/routing/write_router.h"
#include "rpc/member/sessions/container_manager.h"
#include "rpc/member/sessions/session_log.h"
#include "rpc/member/sessions/session_tracker.h"
#include "rpc/member/wait_reporter.h"
#include "rpc/membership/reconfiguration.h"
#include "rpc/peer/peer_links.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

// The free bytes on the disks of the log and of the checkpoints, which may be the same disk.
struct DiskFreeSpace {
  uint64_t log_bytes = 0;
  uint64_t checkpoint_bytes = 0;
};

struct ReplicaOptions {
  consensus::NodeOptions node;
  bool standalone = false;        // as shown to clients
  int tick_time_ms = 3000;        // sessions expire at multiples of this time
  int election_timeout_ms = 300;  // as configured; node.raft has it in ticks
  // How often the leader looks for empty containers and expired TTL znodes, and how many of them it
  // removes in a minute at most (rpc/member/sessions/container_manager.h).
  int container_check_interval_ms = 60'000;
  int container_max_per_minute = 10'000;
  // The limit of the bytes of writes that are forwarded to the leader and not applied yet
  // (rpc/member/routing/write_router.h).
  size_t forward_window_bytes = kForwardWindowBytes;
  // How often the trees of members are compared.
  DigestComparisonOptions digests = {};
  // The time without a leader after which this member serves read-only clients; 0: never.
  int read_only_after_ms = 0;
  // The free space below which a disk is low; 0: disks are not watched
  // (rpc/member/disk/disk_guard.h).
  uint64_t disk_reserve_bytes = 0;
  // The ballast file that is given up when a checkpoint finds no free space; null: there is none.
  // It outlives the replica.
  consensus::BallastFile* checkpoint_ballast = nullptr;
  // Whether the log and the checkpoints are on the same disk, and so share its free space.
  bool shares_disk = true;
  // Returns how long syncs of the log took, for the metrics; null: that is not measured.
  std::function<TimeSummary()> sync_times = nullptr;
  ServerLines servers;  // of the configuration; empty if standalone
  // Reconfig of clients: whether it is allowed, whether two participants are needed at least, and how
  // long members that get a vote may take to catch up.
  bool reconfig_enabled = false;
  bool standalone_enabled = true;
  int reconfig_timeout_ms = 30'000;
  // Named in messages to the administrator.
  std::string data_dir;
  std::string checkpoint_dir;
};

// Returns the options of a server with this configuration. `cluster_id_if_new`
// (consensus::kClusterIdBytes) becomes the cluster's id if this server, as a leader, bootstraps a
// new cluster.
ReplicaOptions MakeReplicaOptions(const Config& config, std::string cluster_id_if_new);

// The actions for which a replica needs the process in which it runs.
class ReplicaHost {
 public:
  virtual ~ReplicaHost() = default;
  // Called on any thread of the node when the log cannot be written or read. The process must end
  // at once, without any clean-up, because the contents of the disk are unknown.
  virtual void OnFatal(const absl::Status& error) = 0;
  // Called when this server cannot go on and should stop, on any thread and any number of times.
  // `why` is for the administrator. If `why` is Aborted, a restart solves the problem, and should
  // be done at once.
  virtual void OnEnd(absl::Status why) = 0;
  // Makes `incarnation` durable, so that the next start has a greater one. Called on the node
  // thread.
  virtual absl::Status SaveIncarnation(uint64_t incarnation) = 0;
  // Called on the node thread when this member's tree differs from a majority's. The member must
  // not serve any more, even after a restart: the host writes the marker
  // (rpc/member/checkpoints/divergence_marker.h) and ends the process at once, without any
  // clean-up, because the tree is wrong.
  virtual void OnDiverged(const Divergence& divergence) = 0;
  // Called on the node thread after Service::status() was updated, at least once a tick.
  virtual void OnStatusPublished() = 0;
};

class Replica final : public Service,
                      public Administration,
                      public PeerHandler,
                      private consensus::NodeObserver,
                      private DigestComparison::Actions,
                      private WriteRouter::Actions {
 public:
  // All pointers must outlive the object. `store` holds the checkpoints; null: there are none, and
  // the log is never compacted. `incarnation` is greater than at any earlier start of this member
  // (rpc/member/disk/incarnation.h). `random` is for election timeouts. REQUIRES:
  // options.node.raft.Validate().ok().
  Replica(ReplicaOptions options, uint64_t incarnation, consensus::DataDir* data_dir,
          tree::RecordStore* store, consensus::RandomSource* random, const Clock* clock,
          PeerLinks* links, ReplicaHost* host);
  ~Replica() override;
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Sets the front end of all clients. REQUIRES: called before the node runs; `frontend` outlives
  // the run.
  void SetFrontend(Frontend* frontend);
  // Sets an observer of applied entries, for checks. REQUIRES: as SetFrontend.
  void SetApplyObserver(ApplyObserver* observer) { replicated_.SetObserver(observer); }
  // Loads the newest checkpoint into the tree, and makes the node. REQUIRES: called once, before
  // all other functions except SetFrontend and SetApplyObserver. Errors: DataLoss if the checkpoint
  // or the log is damaged, or they do not belong together.
  absl::Status Load();
  // Returns the node, which the caller starts and stops, or steps. REQUIRES: Load was called. No
  // call of the replica may be running when it is destroyed.
  consensus::Node& node() { return *node_; }

  // Begins to transfer leadership to another server, if this one leads. status() shows when that is
  // done. From any thread.
  void HandLeadershipOver();

  // Returns the text of /zookeeper/config, if a change has made these members, the change is durable
  // in the log of this server, and this server has caught up once since its start; "" otherwise. From
  // any thread.
  std::string DurableMembersText() const;

  // Takes the measured free space, and makes missing ballast files of it
  // (rpc/member/disk/disk_guard.h). From one thread at a time.
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
  // Measures the memory of the process, and updates memory(). From one thread at a time.
  void OnMemory();
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override;
  void Touch(std::vector<int64_t> sessions) override;
  void Reconfigure(Reconfiguration request,
                   std::function<void(ReconfigurationOutcome)> done) override;
  ServerStatus status() const override;
  ServerMetrics metrics() const override;

  // Administration
  ClusterView cluster_view() const override;
  void TransferLeadership(consensus::MemberId target,
                          std::function<void(absl::Status)> done) override;
  void ChangeMembers(const ServerLines& members, consensus::Index based_on,
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
  void OnDurable(consensus::Index index) override;
  void OnCommitted(consensus::Index index) override;
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
  void OnSent(uint64_t sequence) override;
  bool IsSending(consensus::MemberId leader) const override { return links_->IsSending(leader); }
  uint32_t ClusterVersion() override;
  int64_t NowMs() override;
  void StampTime(tree::CommandHeader* header);

  struct PendingSync {
    uint32_t proposer_tag = 0;
    uint64_t sync_id = 0;
    std::function<void(tree::Zxid)> done = nullptr;  // if not null, called instead of the front end
  };
  // Returns FailedPrecondition if the checkpoint `newest` does not belong to this log.
  absl::Status CheckBelongs(const consensus::SnapshotMeta& newest) const;
  void StartSync(PendingSync sync);
  void FinishSync(const PendingSync& sync, consensus::Index applied);
  void TouchOnNodeThread(const std::vector<int64_t>& sessions);
  // As TouchOnNodeThread. Also sends the touches to the leader, if another server leads.
  void TouchEverywhere(const std::vector<int64_t>& sessions);
  // Touches the sessions of stalled threads (Frontend::HeldUpSessions).
  void TouchHeldUp();
  // These are about changes of members (replica_members.cc). Begins a change, on the node thread.
  absl::Status BeginChange(const consensus::Membership& target, consensus::Index based_on);
  // Returns Unavailable if the voters of `target` would have no majority among those that are reached
  // now and keep their addresses: nothing shows that a new address is right.
  absl::Status CheckStillReached(const consensus::Membership& target) const;
  // Sets the addresses of the other members at the links.
  void LinkMembers(const consensus::Membership& membership);
  // Until this server has caught up: tries the address that the configuration gives for a member if that
  // one cannot be reached at the address in the log, and the other way round. Called at each tick.
  void TryOtherAddresses();
  // Returns whether this server has no vote; one that is no member has the role of its configuration.
  bool IsObserver(const consensus::Membership& membership) const;
  // Waits for the outcome of a change that has begun, and calls `done` with it.
  void SetChange(consensus::Membership target, std::function<void(absl::Status)> done);
  // These keep ClusterView::change: record that a change to the members `next` is asked for, and how
  // the recorded one has ended, and return it as it is now.
  void RecordChange(const ServerLines& now, const ServerLines& next);
  void RecordOutcome(const absl::Status& outcome);
  ClusterView::Change CurrentChange();
  // Answers the caller of ChangeMembers that waits, if the outcome of its change is known.
  void FinishChange();
  // These are about reconfig (replica_reconfig.cc), on the node thread except for OnReconfigNotes.
  absl::Status OnReconfigNotes(consensus::MemberId from, std::vector<ReconfigNote> notes);
  void OnReconfigAnswer(consensus::MemberId from, uint64_t id,
                        const ReconfigurationOutcome& outcome);
  // Answers the requests that were sent to `lost_link`, and those to a leader that leads no more and
  // has not answered for a while: their outcome is not known. A leader that steps down still answers,
  // and one that its own change removes always steps down.
  void ForgetReconfigs(consensus::MemberId lost_link);
  // Answers the requests whose change is applied here.
  void FinishAppliedReconfigs();
  bool IsChangingMembers() const;
  // Takes a request as the leader: waits until the tree has what is committed, then checks the
  // request, and begins it.
  void LeadReconfig(const Reconfiguration& request,
                    std::function<void(ReconfigurationOutcome)> done);
  void BeginReconfig(const Reconfiguration& request,
                     std::function<void(ReconfigurationOutcome)> done);
  // Sends the answers that could not be sent before, and drops those that are too old.
  void SendAnswers();
  // Takes the next step, if there is one and it is possible now.
  void AdvanceReconfig();
  void TakeReconfigStep(const MembershipStep& step);
  void OnReconfigStep(const absl::Status& outcome, bool is_last);
  void FinishReconfig(const ReconfigurationOutcome& outcome);
  // Starts a barrier once a leader is known, only once per start. When the barrier is done, this
  // server has applied everything that was committed before it.
  void CatchUpOnce();
  void BeginToLead();
  void EndAsOutdated(uint64_t incarnation);
  // These log what changes with the new `status` (replica_reports.cc). CheckMemberState also ends
  // the server if it cannot go on.
  void LogLeader(const consensus::Status& status);
  void CheckMemberState(const consensus::Status& status);
  void LogLoss(const consensus::Status& status);
  // Ends this server when it has been removed from the cluster for a while. Called when `elapsed_ms` have
  // passed since the last call.
  void EndIfRemoved(int64_t elapsed_ms);
  // Logs what this member waits for while it cannot serve.
  void ReportWait(std::chrono::steady_clock::time_point now);
  WaitFacts FindWaitFacts() const;
  // Logs the change of a session. REQUIRES: called before the tracker is updated.
  void RecordSession(const ReplicatedTree::News::SessionChange& change);
  // Compares this server's clock with the leader's. `command_ms` is the leader's time in the newest
  // command.
  void CompareClocks(int64_t command_ms);
  // Both do nothing unless this member leads.
  void ExpireSessions(int64_t elapsed_ms);
  void DeleteContainers(int64_t elapsed_ms);
  // These are about free space on the disks (replica_disk.cc).
  bool IsDiskLow() const;
  absl::Status MakeBallast(DiskFreeSpace space);
  // Returns whether this member has data, so that it needs ballast files. A member without data
  // needs none, because the rest of the log's first file is enough.
  bool NeedsBallast() const;
  // Returns whether `ballast` may be made when `free_bytes` are free.
  bool HasFreeSpaceFor(const consensus::BallastFile& ballast, uint64_t free_bytes) const;
  void GuardDisk();
  void GuardLog();
  void HandOverTo(const std::vector<consensus::MemberId>& successors);
  // Counts and measures elections.
  void MeasureElection(const consensus::Status& status);
  void MeasureServing();
  // Logs, at a limited rate for each server, that a batch of `from` was refused. On any thread.
  void LogRefused(consensus::MemberId from, const absl::Status& error);
  void PublishStatus();
  // Returns for how many milliseconds the leader was not heard from or could not be reached; 0 at
  // the leader.
  int64_t LeaderContactAgeMs();
  void UpdateStatus();
  void UpdateReadOnly(bool has_contact) ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);
  void UpdateMetrics() ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);
  void UpdateClusterView() ABSL_EXCLUSIVE_LOCKS_REQUIRED(status_mutex_);

  const ReplicaOptions options_;
  const tree::Proposer proposer_;
  const Clock* const clock_;
  std::chrono::steady_clock::time_point memory_released_;  // used by the thread that calls OnMemory
  PeerLinks* const links_;
  ReplicaHost* const host_;
  consensus::DataDir* const data_dir_;
  consensus::RandomSource* const random_;
  ReplicatedTree replicated_;
  std::optional<TreeCheckpoints> checkpoints_;
  Frontend* frontend_ = nullptr;

  // Used on the node thread:
  WriteRouter router_;
  SessionTracker tracker_;
  ContainerManager containers_;
  DigestComparison digests_;
  DiskGuard disk_guard_;
  bool log_ballast_used_ = false;  // as it was last logged
  bool log_is_cut_short_ = false;
  // The ticks until a log that is short of space requests a checkpoint again, and whether one was
  // requested and is not done.
  int ticks_to_checkpoint_ = 0;
  bool awaits_checkpoint_ = false;
  consensus::Status raft_status_;
  consensus::Membership shown_membership_;  // the last one in the log of events
  consensus::Index applied_;
  consensus::Term applied_term_;
  bool expires_sessions_ = false;  // leads, and has applied all entries of earlier terms
  bool is_catching_up_ = false;    // the first barrier since the start is under way
  bool caught_up_ = false;
  // Whether this server has been a voter since its start, and for how long it has been no member and
  // heard no leader.
  bool has_voted_ = false;
  int64_t removed_for_ms_ = 0;
  // The members whose address in the configuration is tried, instead of that in the log.
  std::set<consensus::MemberId> at_configured_;
  std::chrono::steady_clock::time_point addresses_tried_{};  // when that changed
  WaitReporter wait_reporter_;
  SessionLog session_log_;
  ClockComparison clocks_;
  int64_t compared_command_ms_ = 0;  // the time of the command compared last, and when
  std::chrono::steady_clock::time_point clocks_compared_;
  std::chrono::steady_clock::time_point held_up_touched_;
  // At a leader: the commands that were proposed last are at or before these indexes.
  consensus::Index expiries_proposed_;
  consensus::Index container_deletions_proposed_;
  std::chrono::steady_clock::time_point last_tick_;
  std::chrono::steady_clock::time_point not_serving_since_;
  // The id of the next read. It starts far above the ids of earlier starts, to whose reads answers
  // may still arrive.
  uint64_t next_read_;
  std::map<uint64_t, PendingSync> reads_;       // that Raft has not answered, by request id
  std::vector<PendingSync> refused_reads_;      // retried at the next tick
  std::multimap<uint64_t, PendingSync> syncs_;  // by the index that must be applied first

  // The change of members that was asked for here and is under way.
  struct PendingChange {
    consensus::Membership target;
    consensus::Membership before;  // that the leader goes back to if the new voters do not answer
    consensus::Term term;          // in which it was begun
    std::function<void(absl::Status)> done;
  };
  std::optional<PendingChange> change_;
  ClusterView::Change asked_change_;  // the last one; without what a running one waits for

  // The reconfig of a client that this member, as the leader, works on.
  struct Reconfig {
    ServerLines before;
    ServerLines goal;
    bool undoes = false;  // a new member did not catch up: the members become `before` again
    std::chrono::steady_clock::time_point deadline;
    std::string problem = {};  // why the next step is not possible yet
    std::function<void(ReconfigurationOutcome)> done;
  };
  std::optional<Reconfig> reconfig_;
  // Reconfigs of clients here, which another member leads: those that it has not answered, by the
  // number of the note, and those that it has done and that are not applied here, by their index. A
  // client has one at a time.
  struct SentReconfig {
    consensus::MemberId leader;
    consensus::Term term;
    std::function<void(ReconfigurationOutcome)> done;
    // When it was first seen that the member does not lead any more.
    std::optional<std::chrono::steady_clock::time_point> stale_since = std::nullopt;
  };
  uint64_t next_reconfig_;  // starts far above those of earlier starts, as next_read_
  std::map<uint64_t, SentReconfig> reconfigs_sent_;
  struct UnsentAnswer {
    consensus::MemberId to;
    std::chrono::steady_clock::time_point since;
    ReconfigNote note;
  };
  std::deque<UnsentAnswer> unsent_answers_;
  // What waits until an index is applied here: answers, and requests to this leader.
  std::multimap<consensus::Index, std::function<void()>> reconfigs_unapplied_;

  ServerMetrics counts_;
  std::chrono::steady_clock::time_point looking_since_;
  bool unavailable_ = true;  // since looking_since_
  std::chrono::steady_clock::time_point leader_since_;

  std::atomic<size_t> waiting_bytes_{0};
  std::atomic<uint32_t> cluster_version_{consensus::kVersionBase};
  std::atomic<uint64_t> durable_index_{0};  // as of the last tick
  std::atomic<int64_t> disk_free_bytes_{-1};
  std::atomic<bool> disk_low_{false};  // the free space is below the reserve
  // Whether the log takes no entries now because its disk is full, or because no file can be
  // opened.
  std::atomic<bool> log_full_{false};
  std::atomic<bool> log_out_of_descriptors_{false};
  std::atomic<bool> refuses_data_{false};

  mutable Mutex status_mutex_;
  ServerStatus status_ ABSL_GUARDED_BY(status_mutex_);
  std::chrono::steady_clock::time_point status_at_ ABSL_GUARDED_BY(status_mutex_);
  std::chrono::steady_clock::time_point contact_at_;      // when a leader was last heard from
  uint64_t leader_contacts_ = 0;                          // Raft::leader_contacts() at that time
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
