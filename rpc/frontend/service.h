// SPDX-License-Identifier: Apache-2.0

// The interface between a server and its front ends, which speak a protocol to clients: what the
// server offers them (Service), and what it notifies them of (Frontend).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure_limit.h"
#include "consensus/core/limits.h"
#include "rpc/frontend/attached_sessions.h"
#include "rpc/frontend/guarded_tree.h"
#include "rpc/frontend/memory_budget.h"
#include "rpc/frontend/request_stages.h"
#include "rpc/frontend/request_statistics.h"
#include "rpc/frontend/slow_requests.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/membership/reconfiguration.h"
#include "rpc/peer/frame.h"
#include "tree/tree.h"

namespace quorate::rpc {

class RequestAudit;

// With more watches than this a front end does not allow inline apply
// (Frontend::AllowsInlineApply), unless it knows that a change fires only a few of them.
inline constexpr size_t kInlineWatchesMax = 10'000;

// The largest command that the log takes.
inline constexpr size_t kCommandBytesMax = consensus::kEntryPayloadBytesMax;

// The recent events of a front end at one moment, in parts. Later only the last part grows and the
// first parts disappear, so that a checkpoint writes only what is new since the one before.
//
// Thread-safety: immutable; any thread.
class RecentEvents {
 public:
  // Two parts of one front end with the same number and the same bytes are equal.
  struct Part {
    uint64_t number = 0;
    size_t bytes = 0;  // about the size of what Encode returns, never 0
  };
  virtual ~RecentEvents() = default;
  // Returns the parts, by ascending number.
  virtual std::vector<Part> parts() const = 0;
  // Returns parts()[i] in the front end's own format.
  virtual std::string Encode(size_t i) const = 0;
};

// How many watches there are, and about how many bytes they take.
struct WatchTotals {
  size_t count = 0;
  size_t bytes = 0;
};

// The calls by which a server notifies a front end of applied commands. Except where a function
// says otherwise, calls come in log order, one at a time. They come from the thread that applies
// (the apply thread or the node thread), which holds the write side of the tree's lock. So an event
// that a front end queues for a client is queued before any read can see the change.
class Frontend : public tree::ApplyListener {
 public:
  // Returns whether a few changes may be applied inline, on the node thread, because the calls that
  // they cause are short now: there are few watches, or few on any one znode, and no other thread
  // is reading all watches.
  virtual bool AllowsInlineApply() const = 0;
  // Called when the tree was replaced by `tree`, a later one. The front end did not receive the
  // events in between, nor the results of commands under way. The front end has to close every
  // connection before it reads from the new tree for it. The client connects again, and the zxid
  // that it has seen shows what it missed. REQUIRES: the front end keeps no reference to `tree`.
  virtual void OnTreeReplaced(const tree::Tree& tree) = 0;
  // Returns the recent events as they are now, to be kept for the next start; null if the front end
  // keeps none. Called under either side of the tree's lock; must be fast.
  virtual std::shared_ptr<const RecentEvents> TakeRecentEvents() const { return nullptr; }
  // Called at start, when the tree was loaded from a checkpoint of `zxid`: `parts` are all parts,
  // in order, of what TakeRecentEvents returned when that checkpoint was taken.
  virtual void OnRecentEvents(std::span<const std::string> /*parts*/, tree::Zxid /*zxid*/) {}
  // Returns the sessions served by a thread of this server that is stalled. Their clients may have
  // sent bytes that are not read now, so they count as alive while the thread is stalled. Called
  // from any thread.
  virtual std::vector<int64_t> HeldUpSessions() { return {}; }
  // Returns what records the writes of clients, which the caller then notifies of each command of
  // this server; nullptr if nothing is recorded. Does not change after the start.
  virtual RequestAudit* request_audit() const { return nullptr; }
  // Returns the number and size of all clients' watches. O(1). Any thread.
  virtual WatchTotals watch_totals() const { return {}; }
  // Called when a batch was applied and the tree is unlocked, so that the front end wakes the
  // threads that have something to send.
  virtual void OnBatchApplied() = 0;
  // Called on the node thread: the Service::Sync `sync_id` is done. Everything up to `zxid` is
  // applied, and the front ends were notified of it before.
  virtual void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) = 0;
};

// The state of the cluster as this server sees it at one moment.
struct ServerStatus {
  bool leader_known = false;
  bool is_leader = false;  // and the first entry of its term is committed
  bool standalone = false;
  bool observer = false;              // this server has no vote
  int64_t leader_contact_age_ms = 0;  // since a leader was last heard from and could be reached
  // At some moment since its start, this server had applied everything that was committed. Before
  // that moment its tree may be of any age.
  bool caught_up = false;
  bool in_touch = false;  // caught_up, and recently in contact with a leader
  size_t voters = 0;
  size_t followers_in_sync = 0;  // at a leader: voters besides it that are up to date
  // This server has had no leader for the configured time, and now serves read-only clients.
  bool read_only = false;
  bool disk_low = false;      // this server has less free space than the reserve
  bool data_refused = false;  // as Service::refuses_data

  bool serving() const { return leader_known && in_touch; }
};

// The count and durations of one kind of event.
struct TimeSummary {
  int64_t count = 0;
  int64_t sum_ms = 0;
  int64_t min_ms = 0;
  int64_t max_ms = 0;

  void Add(int64_t ms) {
    min_ms = count == 0 ? ms : std::min(min_ms, ms);
    max_ms = std::max(max_ms, ms);
    ++count;
    sum_ms += ms;
  }
};

// Counters and measurements of a member at one moment: since its start, or, for what only a leader
// has, since it leads.
struct ServerMetrics {
  int64_t leader_uptime_ms = 0;
  size_t learners = 0;  // other members that this leader hears from
  size_t observers_in_sync = 0;
  size_t pending_syncs = 0;
  // The size of proposed commands; -1 if there was none.
  int64_t proposal_bytes_last = -1;
  int64_t proposal_bytes_min = -1;
  int64_t proposal_bytes_max = -1;
  uint64_t proposals = 0;
  uint64_t commits = 0;
  uint64_t lookings = 0;  // times that this member was without a leader
  uint64_t sessions_expired = 0;
  uint64_t log_losses = 0;  // times that acknowledged entries were missing from the log
  uint64_t time_leaps = 0;  // times that the clock of a leader was far from the tree's
  TreeLockWaits tree_lock_waits;
  WatchTotals watches;                   // of all front ends
  uint64_t snapshot_bytes_received = 0;  // of the snapshot that is being received; 0: there is none
  int64_t digest_compared_zxid = 0;      // the last at which the tree had a majority's digest
  uint64_t digest_mismatches = 0;        // members that differed from a majority
  bool digest_is_undecided = false;      // members differ, and there is no majority
  int64_t disk_free_bytes = -1;          // on the disk with the least; -1: not measured
  TimeSummary election;                  // from having no leader to knowing one
  TimeSummary unavailable;               // from having no leader to serving
  TimeSummary fsync;                     // of the log
  TimeSummary snapshot;                  // of writing checkpoints
  int64_t checkpoint_written_ms =
      -1;             // the wall time of the last of them; -1: none since the start
  uint64_t term = 0;  // of Raft
  uint64_t commit_index = 0;
  uint64_t applied_index = 0;
  size_t waiting_bytes = 0;  // of commands that are not applied yet
};

// Thread-safety: all functions may be called from any thread.
class Service {
 public:
  virtual ~Service() = default;

  // Returns the tree, locked for reading while the guard exists. Callers lock it once for a batch
  // of reads. There is no other access to the tree.
  virtual GuardedTree::ReadGuard ReadTree() const = 0;

  // Returns the proposer that the header of each command submitted here has to name.
  virtual tree::Proposer proposer() const = 0;
  // Returns the cluster version, which every member understands. It never decreases.
  virtual uint32_t cluster_version() const = 0;
  // Submits commands to the log, in order. Each is applied exactly once, even if leaders change
  // meanwhile, as long as a majority stays alive. The server takes the buffer and writes the
  // sequence numbers into it. REQUIRES: no command needs a newer version (tree::VersionNeeded) than
  // the cluster version.
  virtual void Submit(CommandBatch batch) = 0;
  // Returns whether so many writes wait to be applied that front ends should stop reading from
  // clients.
  virtual bool congested() const = 0;

  // Returns whether front ends have to refuse writes that add data, because disks or the memory of
  // this server are almost full. They submit everything else.
  virtual bool refuses_data() const = 0;

  // Starts a linearizable barrier: calls Frontend::OnSyncDone once everything that was committed
  // anywhere before this call is applied here, as a quorum has confirmed.
  virtual void Sync(uint32_t proposer_tag, uint64_t sync_id) = 0;

  // Reports sessions whose clients were heard from.
  virtual void Touch(std::vector<int64_t> sessions) = 0;

  // Changes the members as ZooKeeper's reconfig does, here or at the leader. `done` is called on the
  // node thread with the outcome, when the change is applied here; never if the server stops before
  // that. It must be brief.
  virtual void Reconfigure(Reconfiguration /*request*/,
                           std::function<void(ReconfigurationOutcome)> done) {
    done({.is_known = true, .error = tree::ErrorCode::kReconfigDisabled});
  }

  virtual ServerStatus status() const = 0;
  virtual ServerMetrics metrics() const = 0;

  // Returns the memory budget of the server, in which front ends count what they keep for their
  // clients.
  MemoryBudget& memory() { return memory_; }
  const MemoryBudget& memory() const { return memory_; }
  // Returns when the writes of the server's clients passed their stages, and the requests that took long.
  ProgressMarks& marks() { return marks_; }
  SlowRequests& slow_requests() { return slow_requests_; }
  const SlowRequests& slow_requests() const { return slow_requests_; }
  // Returns the statistics of the requests of all front ends.
  RequestStatistics& requests() { return requests_; }
  const RequestStatistics& requests() const { return requests_; }
  // Returns the tenants of the server, for which front ends count their clients.
  TenantTable& tenants() { return tenants_; }
  // Returns the sessions whose clients this server serves.
  AttachedSessions& attached_sessions() { return attached_sessions_; }

  // Makes super_failures(), unless an earlier front end did. `clock` must outlive the clients of all
  // front ends. REQUIRES: called by each front end before its first client connects.
  void BeginSuperFailures(const Clock* clock) {
    if (!super_failures_.has_value()) super_failures_.emplace(clock);
  }
  // Returns the limit of wrong passwords of superDigest, which clients of all front ends share. The
  // passwords that administrators send as metadata have a limit of their own (Administrators).
  FailureLimit* super_failures() { return &*super_failures_; }

  // Counts a failed authentication of a client that is not counted by a front end's statistics.
  void CountFailedAuthentication() {
    failed_authentications_.fetch_add(1, std::memory_order_relaxed);
  }
  int64_t failed_authentications() const {
    return failed_authentications_.load(std::memory_order_relaxed);
  }

 private:
  MemoryBudget memory_;
  ProgressMarks marks_;
  SlowRequests slow_requests_;
  RequestStatistics requests_;
  TenantTable tenants_;
  AttachedSessions attached_sessions_;
  std::optional<FailureLimit> super_failures_;
  std::atomic<int64_t> failed_authentications_{0};
};

}  // namespace quorate::rpc
