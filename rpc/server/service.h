// What the server offers to its front ends (the places where clients come in), and what it tells
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/limits.h"
#include "rpc/peer/frame.h"
#include "rpc/server/guarded_tree.h"
#include "rpc/server/memory_budget.h"
#include "tree/tree.h"

namespace quorate::rpc {

// A front end with more watches than these is not quick, unless it knows that few are told of a
// change.
inline constexpr size_t kQuickWatchesMax = 10'000;

// The largest command that the log takes.
inline constexpr size_t kCommandBytesMax = consensus::kEntryPayloadBytesMax;

// Recent events of a front end as they were at one time, in parts. Only the last one grows later
// on, and the first ones go: a checkpoint writes what is new since the one before.
//
// Immutable; from any thread.
class RecentEvents {
 public:
  // Of the same front end, parts with the same number and bytes are the same.
  struct Part {
    uint64_t number = 0;
    size_t bytes = 0;  // how much is in it, never 0; about as many as Encode makes
  };
  virtual ~RecentEvents() = default;
  // Their numbers ascend.
  virtual std::vector<Part> parts() const = 0;
  // The part that is parts()[i], in a form of the front end's own.
  virtual std::string Encode(size_t i) const = 0;
};

// How many watches there are, and about how many bytes they take.
struct WatchTotals {
  size_t count = 0;
  size_t bytes = 0;
};

// A front end learns of what is applied. All calls come from the thread that applies, one at a time
// (the apply thread or the node thread), while it holds the write side of the tree, in log order,
// except where it says otherwise: what a front end queues to a client in them is queued before any
// read can see the change.
class Frontend : public tree::ApplyListener {
 public:
  // Whether the calls that a few changes make are short now: there are few watches, or few of any
  // one node, and nobody looks through them.
  virtual bool IsQuick() const = 0;
  // The tree was replaced by a later one: what happened in between was not told, nor what became of
  // commands that were under way. Every connection has to be closed before anything is read from
  // the new tree on it; its client comes back, and learns what it missed from what it has seen.
  // `tree` is the new one, of which no reference is to be kept.
  virtual void OnTreeReplaced(const tree::Tree& tree) = 0;
  // Its recent events as they are now, for the next start. Called under either side of the tree's
  // lock; quick. Null: it keeps none.
  virtual std::shared_ptr<const RecentEvents> TakeRecentEvents() const { return nullptr; }
  // At the start, when the tree was replaced by a checkpoint of `zxid`: all parts, in order, of
  // what TakeRecentEvents returned when that was taken.
  virtual void OnRecentEvents(std::span<const std::string> /*parts*/, tree::Zxid /*zxid*/) {}
  // Returns the sessions served by a thread of this server that is stalled. Their clients may have
  // sent bytes that nobody reads, so they count as alive while it is stalled. Called from any
  // thread.
  virtual std::vector<int64_t> HeldUpSessions() { return {}; }
  // The watches of its clients. O(1); from any thread.
  virtual WatchTotals watch_totals() const { return {}; }
  // After a batch, when the tree is free again: wake up whoever has something to send.
  virtual void OnBatchApplied() = 0;
  // On the node thread: the sync `sync_id` that a connection asked for by Service::Sync is done.
  // Everything up to `zxid` is applied, and the front ends were told of it before.
  virtual void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) = 0;
};

// How the cluster looks from this server; a snapshot.
struct ServerStatus {
  bool leader_known = false;
  bool is_leader = false;  // and its own first entry is committed
  bool standalone = false;
  int64_t leader_contact_age_ms = 0;  // since a leader was last heard from and could be reached
  // Since its start, this server has applied once everything that was committed before: what its
  // disk had was a state of any age.
  bool caught_up = false;
  bool in_touch = false;  // it has, and the contact is so recent that new clients are welcome
  size_t voters = 0;
  size_t followers_in_sync = 0;  // at a leader: voters besides it that are up to date
  // This server has had no leader for so long that it serves reads alone, if it is configured to.
  bool read_only = false;
  bool disk_low = false;      // of this server: less is free than the reserve
  bool data_refused = false;  // as Service::refuses_data

  bool serving() const { return leader_known && in_touch; }
};

// How often something took how long.
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

// What a member counts and measures for people; a snapshot. Since its start, but for what only a
// leader has: since it leads.
struct ServerMetrics {
  int64_t leader_uptime_ms = 0;
  size_t learners = 0;  // other members that this leader hears from
  size_t observers_in_sync = 0;
  size_t pending_syncs = 0;
  // Bytes of a command in the log; -1 if there was none.
  int64_t proposal_bytes_last = -1;
  int64_t proposal_bytes_min = -1;
  int64_t proposal_bytes_max = -1;
  uint64_t proposals = 0;
  uint64_t commits = 0;
  uint64_t lookings = 0;  // how often it was without a leader
  uint64_t sessions_expired = 0;
  uint64_t log_losses = 0;  // times that the log lacked what was acknowledged
  uint64_t time_leaps = 0;  // times that the clock of a leader was far from the tree's
  TreeLockWaits tree_lock_waits;
  WatchTotals watches;                   // of all front ends
  uint64_t snapshot_bytes_received = 0;  // of the snapshot that is being received; 0: there is none
  int64_t digest_compared_zxid = 0;      // where the tree had the digest of a majority, the last
  uint64_t digest_mismatches = 0;        // members that differed from a majority
  bool digest_is_undecided = false;      // members differ, and there is no majority
  int64_t disk_free_bytes = -1;          // where there is the least; -1: not measured
  TimeSummary election;                  // from having no leader to knowing one
  TimeSummary unavailable;               // from having no leader to serving
  TimeSummary fsync;                     // of the log
  TimeSummary snapshot;                  // of a checkpoint
};

// Thread-safety: all functions may be called from any thread.
class Service {
 public:
  virtual ~Service() = default;

  // The tree, locked for reading as long as the guard lives: once for a batch of reads. There is no
  // other way to it.
  virtual GuardedTree::ReadGuard ReadTree() const = 0;

  // What goes into the header of each command that is submitted here.
  virtual tree::Proposer proposer() const = 0;
  // The version that every member is known to understand: it only grows.
  virtual uint32_t version_in_force() const = 0;
  // Takes commands for the log, in order; each is applied exactly once, if a majority stays alive,
  // whatever happens to leaders meanwhile. The server writes their sequence numbers; the buffer is
  // its own from now on. REQUIRES: none needs a newer version (tree::VersionNeeded) than the one in
  // force.
  virtual void Submit(CommandBatch batch) = 0;
  // Whether so much waits to be applied that front ends should stop reading from clients for a
  // while.
  virtual bool congested() const = 0;

  // Whether disks, or the memory of this server, are so full that writes which add data are to be
  // refused: the front end says so to the client, and submits everything else.
  virtual bool refuses_data() const = 0;

  // A linearizable barrier: Frontend::OnSyncDone follows once everything that was committed
  // anywhere before this call is applied here, confirmed by a quorum.
  virtual void Sync(uint32_t proposer_tag, uint64_t sync_id) = 0;

  // Sessions that were heard from.
  virtual void Touch(std::vector<int64_t> sessions) = 0;

  virtual ServerStatus status() const = 0;
  virtual ServerMetrics metrics() const = 0;

  // What the server's memory goes to. Front ends count what their clients make them keep.
  MemoryBudget& memory() { return memory_; }
  const MemoryBudget& memory() const { return memory_; }

 private:
  MemoryBudget memory_;
};

}  // namespace quorate::rpc
