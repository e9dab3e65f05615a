// SPDX-License-Identifier: Apache-2.0

// A running member: the threads that drive the Raft object, the log and the state machine.
//
//   node thread   owns Raft; takes all events that were queued while it was busy, steps Raft with
//                 them, and hands the outputs to the other threads; waits in an EventLoop, if there
//                 is one, and handles its events
//   log thread    writes and syncs all batches that were queued during the last sync (group
//                 commit), then sends the messages that had to wait for the sync. A small batch is
//                 made durable by the node thread itself, if the log thread has nothing to do and
//                 the disk is fast: two wake-ups less for each batch. If such a sync stalls, the log
//                 thread takes the place of the node thread, which becomes the log thread
//   apply thread  gives committed entries to the state machine, and takes checkpoints of it. A few
//                 entries at a time are applied inline, on the node thread, if that need not wait:
//                 wake-ups are most of the cost of a small load
//   read thread   reads old entries from the log, and chunks of a checkpoint, for a follower that
//                 lags; removes log files after a compaction
//   checkpoint thread
//                 makes checkpoints durable, and stages the chunks of a snapshot that is received
//
// A full disk delays appends to the log (but not votes), checkpoints, and the recording of the
// cluster's id in the directory. Each is retried automatically, and nothing is lost. Any other disk
// error ends the process.
//
// The threads hand over batches, never single requests. A stalled disk delays only the log thread, or
// the node thread for some milliseconds until it has become the log thread:
// heartbeats, reads, and the commitment of entries that are durable on a majority continue.
//
// A simulation runs a node without threads: instead of Start, it calls Step for one queue at a
// time, and TickNow. The same code runs.
//
// Thread-safety: each function says from which thread it may be called.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "consensus/core/output.h"
#include "consensus/core/raft.h"
#include "consensus/core/state_machine.h"
#include "consensus/log/data_dir.h"
#include "consensus/runtime/batch_queue.h"
#include "consensus/runtime/event_loop.h"

namespace quorate::consensus {

// Sends messages to other members. May lose, duplicate and reorder them.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;
  // Called from the node thread and from the log thread; must not block on the network.
  virtual void Send(std::vector<Message> messages) = 0;
};

// Receives the events of a node. Calls come on the node thread unless a function says otherwise.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void OnStatus(const Status& status) = 0;
  // Reports the membership of the newest log entry that has one, committed or not. Also called at
  // the start.
  virtual void OnMembership(const Membership& membership) = 0;
  virtual void OnReads(const std::vector<ReadResult>& reads) = 0;
  // Reports that the state machine has applied everything up to `index`.
  virtual void OnApplied(Index index) = 0;
  // Called once for each batch of entries that was written to the log: everything up to `index` is
  // durable here. Called on the thread that has written, the log thread or the node thread, and by one at
  // a time, before the messages are sent that wait for the write. If entries were truncated before the write,
  // called first with the index after which they were.
  virtual void OnDurable(Index index) = 0;
  // Reports that everything up to `index` is committed, as far as this member knows; once for several
  // commits that become known together, and before any of these entries is given to the state machine.
  virtual void OnCommitted(Index index) = 0;
  // Returns whether the observer waits for the next OnApplied; otherwise that call may come a tick
  // later. Called after each batch of events has been handled.
  virtual bool AwaitsApplied() const = 0;
  // Returns whether OnTick has work at the next tick; otherwise that call may come a few ticks
  // later.
  virtual bool AwaitsTick() const = 0;
  // Called once each tick, after Raft's tick. If the node thread slept over ticks that had no work,
  // their calls follow one another.
  virtual void OnTick() = 0;
  // Called on the log thread when the cluster's id is known and durable; at most once in a process.
  virtual void OnClusterId(const std::string& cluster_id) = 0;
  // Called on the log thread when the disk is full and appends to the log begin to wait (`why` says
  // where), and, with `why` OK, when appends continue.
  virtual void OnLogFull(const absl::Status& why) = 0;
  // Called at the leader if `rejection.follower` could not store the checkpoint that this member
  // sent. Later the leader sends the newest checkpoint that it has then.
  virtual void OnSnapshotRejected(const SnapshotRejection& rejection) = 0;
  // Called on any of the threads: reports an error that is not retried; the process must end.
  virtual void OnFatal(const absl::Status& error) = 0;
};

struct NodeOptions {
  RaftOptions raft;
  int tick_ms = 30;
  // A checkpoint is taken when this many entries or bytes were applied since the last one, and are
  // durable in the log. The first one after a start is taken earlier, at a different point for each
  // voter.
  uint64_t checkpoint_entries = 200'000;
  uint64_t checkpoint_bytes = 64u << 20;
  // A range of committed entries with at most this many entries and bytes is applied inline, on the
  // node thread, if no other work is queued for the apply thread. 0: never.
  size_t apply_here_entries_max = 32;
  size_t apply_here_bytes_max = 32u << 10;
  // Entries with at most this many bytes are made durable by the node thread, if the log thread has
  // nothing to do and the disk is fast. 0: never.
  size_t persist_here_bytes_max = 64u << 10;
};

// The node thread may sleep over at most this many ticks in a row, if they have no work. This is
// more than the ticks between two heartbeats; otherwise followers would wake up without work
// between heartbeats.
inline constexpr int kIdleTicksMax = 7;

// The disk is fast if it makes a batch durable in less than this, on average. Otherwise the node thread leaves all
// syncs to the log thread, and handles messages and requests meanwhile.
inline constexpr std::chrono::microseconds kFastSync{500};
// For how long a sync of the node thread may last before the log thread takes its place; up to twice
// as long, because the log thread looks at intervals of this length.
inline constexpr std::chrono::milliseconds kStalledSync{2};

// Represents a thread in Clang's thread-safety analysis: data guarded by a role is used on that
// thread only. It is not a lock and costs nothing at run time.
class ABSL_LOCKABLE ThreadRole {
 public:
  // Tells the analysis that the code after the call runs on the thread. Called where the thread's
  // work begins, or in a Step.
  void Enter() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}
};

class Node {
 public:
  // All pointers must outlive the node. From Start on, only the node's threads use `data_dir`.
  // `checkpoints` may be null: then the log is never compacted, and no snapshot can be sent or
  // received. REQUIRES: the state machine holds the newest checkpoint, and the log was aligned with
  // it (DataDir::AlignLog).
  Node(NodeOptions options, DataDir* data_dir, RandomSource* random, StateMachine* state_machine,
       CheckpointStore* checkpoints, PeerTransport* transport, NodeObserver* observer);
  // Stops the node if it runs.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Starts the threads. `event_loop` must outlive them; null: the node thread waits for its own
  // queue alone.
  void Start(EventLoop* event_loop = nullptr);
  // Ends all threads; entries that are not yet durable are lost, as in a crash. REQUIRES: not
  // called from a thread of the node.
  void Stop();

  // --- Instead of Start, all on one thread -------------------------------------------------------
  // The queues, by the thread that empties them.
  enum class Work : uint8_t { kNode, kLog, kApply, kRead, kCheckpoint };
  // Returns whether Step has something to do; always false after OnFatal.
  bool HasWork(Work work) const;
  // Handles everything in that queue, as its thread does when it wakes up.
  void Step(Work work);
  // Runs a tick of Raft and of the observer, and dispatches the outputs.
  void TickNow();

  // Queues messages from other members for the node thread. May be called from any thread.
  void Deliver(std::vector<Message> messages);
  // Runs `task` on the node thread. May be called from any thread.
  void Post(std::function<void()> task);
  // Reports that the connection to `member` broke. May be called from any thread.
  void PeerUnreachable(MemberId member);
  // Takes a checkpoint now, unless the newest one already covers `index`. May be called from any
  // thread. The next checkpoint serves all requests that come while one is being written. `done` is
  // called on the node thread once a checkpoint at or above `index` is durable; never if the node
  // stops before that. No checkpoint is taken at index 0: a request for index 0 waits for the first
  // checkpoint. REQUIRES: `checkpoints` is not null.
  void RequestCheckpoint(Index index, std::function<void()> done);

  // REQUIRES: called on the node thread (in a posted task or a call to the observer).
  Raft& raft() {
    on_node_.Enter();
    return *node_.raft;
  }

 private:
  struct Persisted {
    PersistId id;
  };
  struct Applied {
    Index index;
  };
  struct Unreachable {
    MemberId member;
  };
  struct LogReadDone {
    MemberId follower;
    std::vector<Entry> entries;
  };
  struct SnapshotReadDone {
    MemberId follower;
    std::optional<SnapshotChunkData> chunk;  // none: the checkpoint could not be read
  };
  struct SnapshotWritten {
    Index index;
    uint64_t next_offset = 0;
    absl::Status status;  // on an error nothing is staged any more
  };
  struct SnapshotInstalled {
    Index index;
  };
  struct Checkpointed {
    Index index;
  };
  using Event =
      std::variant<std::vector<Message>, std::function<void()>, Persisted, Applied, Unreachable,
                   LogReadDone, SnapshotReadDone, SnapshotWritten, SnapshotInstalled, Checkpointed>;

  // Work for the log thread, in the order in which it is done.
  struct LogBatch {
    Output output;                 // the part that has to be persisted
    bool bind_cluster_id = false;  // entry 1 is committed: the directory belongs to its cluster
  };
  struct LogCompaction {
    Index to;
  };
  struct LogReset {
    SnapshotMeta meta;
    bool installed = false;  // false: the state machine installs the snapshot first
  };
  struct LogRetry {};    // space may have become free
  struct WatchSyncs {};  // the node thread begins to sync itself (SyncWatch)
  using LogWork = std::variant<LogBatch, LogCompaction, LogReset, LogRetry, WatchSyncs>;

  // Work for the apply thread: committed entries, a snapshot to install, or a checkpoint to take.
  struct CheckpointRequest {
    Index index;
  };
  struct CheckpointRetry {};  // the last checkpoint failed because the disk was full
  using ApplyWork = std::variant<ApplyRange, SnapshotMeta, CheckpointRequest, CheckpointRetry>;
  struct LogChores {};
  using ReadWork = std::variant<LogReadRequest, SnapshotReadRequest, LogChores>;

  // Work for the checkpoint thread, in the order in which it is done.
  struct FinishCheckpoint {
    Index index;
  };
  struct InstallAfter {  // the snapshot waits for an unfinished checkpoint
    SnapshotMeta meta;
  };
  struct AnswerLate {};  // CheckpointThread::late_answer is due
  struct DiscardStaged {};
  using CheckpointWork =
      std::variant<FinishCheckpoint, SnapshotWriteRequest, InstallAfter, AnswerLate, DiscardStaged>;

  // How a thread goes on after its part as node thread or log thread has ended.
  enum class Next : uint8_t { kEnd, kNodeThread, kLogThread };
  // Runs the node thread or the log thread, and the other one when they change places.
  void RunNodeOrLog(Next part);
  Next RunNode();
  Next RunLog();
  // Returns how many of the coming ticks have no work.
  int IdleTicks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Takes batches from `queue` until it is closed, or until `handle` fails.
  template <class T>
  void RunQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  template <class T>
  void StepQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  absl::Status HandleLog(std::vector<LogWork>& work);
  void PushLog(LogWork&& work);
  absl::Status HandleApplies(std::vector<ApplyWork>& work);
  absl::Status HandleApply(const ApplyWork& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  absl::Status HandleReads(std::vector<ReadWork>& work);
  absl::Status HandleCheckpoints(std::vector<CheckpointWork>& work);
  void Tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void Handle(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // One overload for each kind of Event.
  void HandleEvent(std::vector<Message>& messages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(std::function<void()>& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const Persisted& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const Applied& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const Unreachable& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(LogReadDone& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(SnapshotReadDone& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const SnapshotWritten& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const SnapshotInstalled& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void HandleEvent(const Checkpointed& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Records, before the node thread waits, which events of other threads have to wake it.
  void RecordAwaited() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Queues `event` for the node thread, and wakes that thread only if `is_awaited`. Called by the
  // thread that has done the work. Wake-ups are most of the cost of a small load; without
  // `is_awaited`, each write would cause three useless wake-ups at each member.
  template <class T>
  void Report(T event, const std::atomic<bool>& is_awaited) {
    // The order matters: either this thread sees what RecordAwaited has stored, or the node thread
    // sees the event before it waits.
    events_.PushQuietly(event);
    if (is_awaited.load()) events_.Wake();
  }
  void DispatchOutputs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void ReportCommitted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void Dispatch(Output output) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void PushApply(ApplyWork&& work);
  // Applies `range` on the node thread. Returns false, without applying, if that would have to wait
  // or take long.
  bool ApplyHere(const ApplyRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Makes node_.batches durable, or queues them for the log thread, as the threads' description says.
  // Called after all outputs were dispatched. Returns kLogThread if the log thread has taken the
  // place of the node thread meanwhile; the caller must not use what on_node_ guards then.
  Next PersistBatches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  bool MayPersistHere() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_, log_turn_);
  void QueueBatches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Begins a sync of the node thread, which the log thread watches. Returns its number.
  uint64_t BeginSync();
  // Called by the node thread when its sync with this number has ended, and by the log thread when
  // that takes too long. The first of them is the node thread from then on: for it, true is returned.
  bool BecomeNodeThread(uint64_t sync);
  // Called by the log thread at intervals of about kStalledSync while it watches the syncs of the
  // node thread. Returns whether it has become the node thread.
  bool TakeNodeThreadIfStalled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // Calls and removes the waiters whose index the newest durable checkpoint covers.
  void ReleaseCheckpointWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Requests a checkpoint from the apply thread if there are waiters. Called after each event that
  // may let a checkpoint begin.
  void AskForCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // These run on the log thread, or on the node thread in PersistBatches.
  absl::Status WorkOffLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  absl::Status CompactAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // Removes from the front of log_.backlog the batches that one sync can make durable, and returns
  // them.
  std::vector<LogBatch> TakeBatches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // Makes `batches` durable, sends the messages that wait for that, and sets `*persisted` to what has
  // to be reported to Raft, if that is anything. On a full disk, the rest is in log_.backlog.
  absl::Status PersistAndSend(std::vector<LogBatch> batches, std::optional<PersistId>* persisted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // The new contents of the hard state file.
  struct HardStateChange {
    HardState state;
    Index durable;
    bool changed = false;
  };
  // Adds the changes of `batch` to `*change`, and makes its directory epoch durable.
  absl::Status Include(const LogBatch& batch, HardStateChange* change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  absl::Status WriteHardState(const HardStateChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // On a full disk: makes the newest hard state of the backlog durable, and sends the votes of all
  // batches in the backlog. A vote promises nothing about the entries that wait.
  absl::Status SendWaitingVotes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // Makes `batches` durable and moves them to `*done`. On a full disk, returns ResourceExhausted,
  // and moves only the first batches, which are durable. The newest hard state of all batches is
  // durable even then, and Persist can be called again with the rest.
  absl::Status Persist(std::vector<LogBatch>& batches, std::vector<LogBatch>* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // Takes note of the time that it took to make a batch durable.
  void NoteSync(std::chrono::nanoseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  absl::Status Write(LogBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  absl::Status BindToFirstEntry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // Records the cluster's id in the directory; on a full disk that is retried later.
  absl::Status BindClusterId(std::string cluster_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  absl::Status Reset(const LogReset& reset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(log_turn_);
  // These run on the apply thread, or on the node thread in ApplyHere.
  absl::Status Apply(const ApplyRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void ApplyEntries(const std::vector<Entry>& entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  // Updates apply_ after `entries` were applied to the state machine.
  void FollowApplied(const std::vector<Entry>& entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  bool IsCheckpointDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpointIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpointIfRequested(Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  // Returns whether the last checkpoint failed on a full disk and its retry is not due yet.
  bool CheckpointWaits() const;
  // Returns false if there is no checkpoint store, or if a checkpoint has to wait for an unfinished
  // one or for the log to be durable.
  bool CanBeginCheckpoint() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  absl::Status Install(const SnapshotMeta& meta) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  // Runs on the log thread: queues DoChores for the read thread, if the log has chores.
  void QueueChoresIfDue();
  // These run on the read thread.
  absl::Status DoChores();
  absl::Status ReadLog(const LogReadRequest& request);
  absl::Status ReadSnapshot(const SnapshotReadRequest& request);
  // These run on the checkpoint thread.
  absl::Status Finish(Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_checkpoint_);
  void AnswerLateNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_checkpoint_);
  // Returns the tick at which an operation that fails on a full disk now is tried again.
  uint64_t CheckpointRetryTicks() const;
  absl::Status Stage(const SnapshotWriteRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_checkpoint_);

  const NodeOptions options_;
  DataDir* const data_dir_;
  StateMachine* const state_machine_;
  CheckpointStore* const checkpoints_;
  PeerTransport* const transport_;
  NodeObserver* const observer_;

  BatchQueue<Event> events_;
  BatchQueue<LogWork> log_work_;
  BatchQueue<ApplyWork> apply_work_;
  BatchQueue<ReadWork> read_work_;
  BatchQueue<CheckpointWork> checkpoint_work_;

  // --- Data of a single thread ---
  struct NodeThread {
    const std::unique_ptr<Raft> raft;
    Index applied_told{};    // the index of the last OnApplied
    Index committed_told{};  // the index of the last OnCommitted
    // Keyed by the index that a checkpoint has to cover.
    std::multimap<Index, std::function<void()>> checkpoint_waiters{};
    // The batches of this iteration that have to be made durable.
    std::vector<LogBatch> batches{};
    std::chrono::steady_clock::time_point next_tick{};
  };
  // Used by the thread that holds log_turn_: the log thread, or the node thread while the log thread
  // has nothing to do.
  struct LogTurn {
    std::deque<LogWork> backlog;
    std::string unbound_cluster_id;  // not recorded yet, because the disk was full
  };
  struct LogThread {
    uint64_t last_sync = 0;  // SyncWatch::sync as it was last seen
    int idle_looks = 0;      // how often in a row it was the same, and no sync
  };
  // Used by the thread that holds apply_turn_: the apply thread, or the node thread while the apply
  // thread has nothing to do.
  struct ApplyTurn {
    SnapshotMeta applied;
    uint64_t entries_since_checkpoint = 0;
    uint64_t bytes_since_checkpoint = 0;
  };
  struct CheckpointThread {
    // The response to a snapshot chunk for which there was no free space. It is sent after a delay,
    // because the leader would send the chunk again at once.
    std::optional<SnapshotWritten> late_answer;
  };
  ThreadRole on_node_;
  NodeThread node_ ABSL_GUARDED_BY(on_node_);
  Mutex log_turn_;
  LogTurn log_ ABSL_GUARDED_BY(log_turn_);
  ThreadRole on_log_;
  LogThread log_thread_ ABSL_GUARDED_BY(on_log_);
  Mutex apply_turn_;
  ApplyTurn apply_ ABSL_GUARDED_BY(apply_turn_);
  ThreadRole on_checkpoint_;
  CheckpointThread checkpoint_ ABSL_GUARDED_BY(on_checkpoint_);
  // The read thread has no data of its own.

  // --- Data that one thread sets and the others read ---
  struct Shared {
    // Set by the node thread.
    std::atomic<bool> persisted_awaited{true};
    std::atomic<bool> applied_awaited{true};
    std::atomic<uint64_t> ticks{0};
    // Set by the thread that holds log_turn_.
    std::atomic<bool> log_full{false};
    std::atomic<bool> binding_waits{false};    // LogTurn::unbound_cluster_id is not empty
    std::atomic<Index> log_durable{Index{0}};  // as of the last sync
    std::atomic<int64_t> sync_ns{0};           // the time that a sync takes, on average
    // The number of items that were queued for the log thread and are not done. Increased by the
    // threads that queue, decreased by the log thread.
    std::atomic<size_t> log_pending{0};
    // The number of items that were queued for the apply thread and are not done. Increased by the
    // threads that queue, decreased by the apply thread.
    std::atomic<size_t> apply_pending{0};
    // Set by the log thread, cleared by the read thread.
    std::atomic<bool> chores_queued{false};
    // A checkpoint was begun and is not durable yet. Set by the apply thread, cleared by the
    // checkpoint thread.
    std::atomic<bool> checkpoint_unfinished{false};
    // Set by the checkpoint thread: whether the last checkpoint failed on a full disk, and the tick
    // from which on the next one may begin.
    std::atomic<bool> checkpoint_failed{false};
    std::atomic<uint64_t> next_checkpoint_ticks{0};
    // Set by the checkpoint thread: the tick at which CheckpointThread::late_answer is due; 0:
    // there is none.
    std::atomic<uint64_t> late_answer_ticks{0};
  };
  Shared shared_;

  // The syncs of the node thread, which the log thread watches.
  struct SyncWatch {
    // Odd while the node thread is in a sync. Whoever makes it even, the node thread when the sync
    // ends, or the log thread if it takes too long, is the node thread from then on.
    std::atomic<uint64_t> sync{0};
    // Whether the log thread watches. If not, it sleeps until there is work, and has to be told.
    std::atomic<bool> is_watching{false};
  };
  SyncWatch sync_watch_;
  std::atomic<bool> is_stopping_{false};
  // Set when the node thread has ended for good.
  Mutex ended_mutex_;
  ConditionVariable ended_changed_;
  bool node_ended_ ABSL_GUARDED_BY(ended_mutex_) = false;

  EventLoop* event_loop_ = nullptr;
  bool has_threads_ = false;  // set by Start
  std::vector<std::thread> threads_;
  bool failed_ = false;  // a Step has failed
};

}  // namespace quorate::consensus
