// One running member: the threads that drive the pure Raft object, the log and the state machine.
//
//   node thread   owns Raft; takes everything that queued while it was busy, steps it, hands on the
//                 outputs; waits in an EventLoop, if there is one, and serves its events
//   log thread    writes and syncs all batches that queued during the last sync (group commit),
//                 then sends what had to wait for it
//   apply thread  gives committed entries to the state machine, and takes checkpoints of it. A few
//                 at a time are applied on the node thread, if that need not wait for anything:
//                 small loads are mostly made of wake-ups
//   read thread   reads old entries from the log, and parts of a checkpoint, for a follower that
//                 lags; removes files of the log that a compaction left
//   checkpoint thread
//                 makes checkpoints durable, and what is received of a snapshot
//
// A disk that is full holds up the log thread too, but for votes, or a checkpoint, or the note of
// the cluster's id in the directory; all try again by themselves, and nothing is lost. Any other
// error of the disk ends the process.
//
// Between them there is one hand-off for a batch, never one for a request. A stalled disk holds up
// the log thread only: heartbeats, reads and commits that a majority has go on.
//
// Without threads, for a simulation: instead of Start, its owner calls Step for one of the queues
// at a time, and TickNow; the same code runs.
//
// Thread-safety: each function says from which thread it may be called.
#pragma once

#include <atomic>
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
#include "base/mutex.h"
#include "consensus/core/output.h"
#include "consensus/core/raft.h"
#include "consensus/core/state_machine.h"
#include "consensus/log/data_dir.h"
#include "consensus/runtime/batch_queue.h"
#include "consensus/runtime/event_loop.h"

namespace quorate::consensus {

// Carries messages to other members. May lose, duplicate and reorder them.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;
  // Called from the node thread and from the log thread; must not block on the network.
  virtual void Send(std::vector<Message> messages) = 0;
};

// Told about what happens, on the node thread unless it says otherwise.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void OnStatus(const Status& status) = 0;
  // Who takes part, by the newest entry of the log, committed or not; also at the start.
  virtual void OnMembership(const Membership& membership) = 0;
  virtual void OnReads(const std::vector<ReadResult>& reads) = 0;
  // The state machine has applied everything up to `index`.
  virtual void OnApplied(Index index) = 0;
  // Whether something waits for the next OnApplied; else it may come a tick later. Asked when what
  // there was to do is done.
  virtual bool AwaitsApplied() const = 0;
  // Whether OnTick has something to do at the next tick; else it may come a few ticks later.
  virtual bool AwaitsTick() const = 0;
  // Once each tick, after Raft's. When the thread slept over some that had nothing to do, the calls
  // follow one another.
  virtual void OnTick() = 0;
  // On the log thread: the cluster's id is known and durable (at most once in a process).
  virtual void OnClusterId(const std::string& cluster_id) = 0;
  // On the log thread: the disk is full, and what would make the log longer waits (`why` says
  // where); or that is over (OK).
  virtual void OnLogFull(const absl::Status& why) = 0;
  // `rejection.follower` could not keep a checkpoint that this member, which leads, sent it. It is
  // tried again later, with a newer one if there is one.
  virtual void OnSnapshotRejected(const SnapshotRejection& rejection) = 0;
  // On any of the threads: the log cannot be written or read; the process must end.
  virtual void OnFatal(const absl::Status& error) = 0;
};

struct NodeOptions {
  RaftOptions raft;
  int tick_ms = 30;
  // A checkpoint is taken when so much was applied since the last one, and that is durable; the
  // first one of a node's life after less, which is different for each voter.
  uint64_t checkpoint_entries = 200'000;
  uint64_t checkpoint_bytes = 64u << 20;
  // What is committed at once and has at most so many entries and bytes is applied on the node
  // thread, if nothing is in the way. 0: never.
  size_t apply_here_entries_max = 32;
  size_t apply_here_bytes_max = 32u << 10;
};

// So many ticks in a row the node thread may sleep over, if they have nothing to do: more than lie
// between two heartbeats, or followers would wake up for nothing.
inline constexpr int kIdleTicksMax = 7;

// Stands for a thread, to Clang's thread-safety analysis alone: what is guarded by it is used on
// that thread only. It is no lock, and costs nothing.
class ABSL_LOCKABLE ThreadRole {
 public:
  // Says that the code from here on runs on the thread: where its work begins, or in a step.
  void Enter() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}
};

class Node {
 public:
  // All pointers must outlive the node. `data_dir` is used by the node's threads alone from Start
  // on. `checkpoints` may be null: then the log is never compacted, and no snapshot can be sent or
  // received. REQUIRES: the state machine holds the newest checkpoint, and the log was brought in
  // line with it (DataDir::AlignLog).
  Node(NodeOptions options, DataDir* data_dir, RandomSource* random, StateMachine* state_machine,
       CheckpointStore* checkpoints, PeerTransport* transport, NodeObserver* observer);
  // Stops it if it runs.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // `event_loop` must outlive the threads; none: there are no events but the node's own.
  void Start(EventLoop* event_loop = nullptr);
  // Ends all threads; what was not yet persisted is lost, as in a crash. Not from a thread of the
  // node.
  void Stop();

  // --- Instead of Start, all on one thread -------------------------------------------------------
  // The queues, by the thread that empties them.
  enum class Work : uint8_t { kNode, kLog, kApply, kRead, kCheckpoint };
  // Whether Step would do anything. Never again after OnFatal.
  bool HasWork(Work work) const;
  // What the thread of that queue does when it wakes up: handles all that is queued there.
  void Step(Work work);
  // A tick of Raft and of the observer, and what follows from it.
  void TickNow();

  // From any thread: messages from other members.
  void Deliver(std::vector<Message> messages);
  // From any thread: runs `task` on the node thread.
  void Post(std::function<void()> task);
  // From any thread: the connection to `member` broke.
  void PeerUnreachable(MemberId member);
  // From any thread: takes a checkpoint now, unless the newest covers `index` already; all who ask
  // while one is written share the next. `done` is called on the node thread once there is a
  // durable one at or behind `index`; never if the node stops before. There is none of index 0: who
  // asks for that waits for the first. REQUIRES: there are
  // checkpoints.
  void RequestCheckpoint(Index index, std::function<void()> done);

  // On the node thread only (in a posted task or an observer's call).
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
    std::optional<SnapshotChunkData> chunk;  // none: it could not be read
  };
  struct SnapshotWritten {
    Index index;
    uint64_t next_offset = 0;
    absl::Status status;  // an error: nothing is staged any more
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

  // For the log thread, in order.
  struct LogBatch {
    Output output;                 // its persistent part
    bool bind_cluster_id = false;  // entry 1 is committed: the directory belongs to its cluster
  };
  struct LogCompaction {
    Index to;
  };
  struct LogReset {
    SnapshotMeta meta;
    bool installed = false;  // false: the state machine comes first
  };
  struct LogRetry {};  // there may be space again
  using LogWork = std::variant<LogBatch, LogCompaction, LogReset, LogRetry>;

  // For the apply thread: committed entries, a snapshot to install, or a checkpoint to take.
  struct CheckpointRequest {
    Index index;
  };
  struct CheckpointRetry {};  // the last one found the disk full
  using ApplyWork = std::variant<ApplyRange, SnapshotMeta, CheckpointRequest, CheckpointRetry>;
  struct LogChores {};
  using ReadWork = std::variant<LogReadRequest, SnapshotReadRequest, LogChores>;

  // For the checkpoint thread, in order.
  struct FinishCheckpoint {
    Index index;
  };
  struct InstallAfter {  // a checkpoint was unfinished when the snapshot could have been installed
    SnapshotMeta meta;
  };
  struct AnswerLate {};  // late_answer_ is due
  struct DiscardStaged {};
  using CheckpointWork =
      std::variant<FinishCheckpoint, SnapshotWriteRequest, InstallAfter, AnswerLate, DiscardStaged>;

  void RunNode();
  // How many ticks from now on have nothing to do.
  int IdleTicks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Takes batches from `queue` until it is closed or one could not be handled.
  template <class T>
  void RunQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  template <class T>
  void StepQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  absl::Status HandleLog(std::vector<LogWork>& work);
  absl::Status HandleApplies(std::vector<ApplyWork>& work);
  absl::Status HandleApply(const ApplyWork& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  absl::Status HandleReads(std::vector<ReadWork>& work);
  absl::Status HandleCheckpoints(std::vector<CheckpointWork>& work);
  void Tick() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void Handle(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // One for each kind of Event.
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
  // Notes what the node thread, before it waits, wants to be woken for.
  void RecordAwaited() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // From the thread that has done it. Small loads are mostly made of wake-ups: of those that are
  // for nothing there are three for each write at each member.
  template <class T>
  void Report(T event, const std::atomic<bool>& is_awaited);
  void DispatchOutputs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void Dispatch(Output output) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  void PushApply(ApplyWork work);
  // Applies it on the node thread; false if that would have to wait, or take long.
  bool ApplyHere(const ApplyRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Tells those whose checkpoint is there.
  void ReleaseCheckpointWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Something happened that a checkpoint may have waited for.
  void AskForCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_node_);
  // Log thread.
  absl::Status WorkOffLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status CompactAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // The batches at the front of log_backlog_ that one sync makes durable.
  std::vector<LogBatch> TakeBatches() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status PersistAndSend(std::vector<LogBatch> batches) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // What the file of the hard state is to say.
  struct HardStateChange {
    HardState state;
    Index durable;
    bool changed = false;
  };
  // Adds what `batch` says to *change, and makes its directory epoch durable.
  absl::Status Include(const LogBatch& batch, HardStateChange* change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status WriteHardState(const HardStateChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // On a full disk: makes the newest hard state of the backlog durable, and sends the votes of all
  // its batches. They promise nothing of the entries that wait.
  absl::Status SendWaitingVotes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // On a full disk, the first batches are done, which leave `batches`, and it can be called again;
  // the hard state of all of them is durable.
  absl::Status Persist(std::vector<LogBatch>& batches, std::vector<LogBatch>* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status Write(LogBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status BindToFirstEntry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // On a full disk, that is tried again.
  absl::Status BindClusterId(std::string cluster_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  absl::Status Reset(const LogReset& reset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_log_);
  // Apply thread.
  absl::Status Apply(const ApplyRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void ApplyEntries(const std::vector<Entry>& entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  // The state machine holds them.
  void FollowApplied(const std::vector<Entry>& entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  bool IsCheckpointDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpointIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpointIfRequested(Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  // Whether the last one found the disk full a moment ago.
  bool CheckpointWaits() const;
  // False if it has to wait: for the checkpoint before it, or for the log.
  bool CanBeginCheckpoint() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void BeginCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  absl::Status Install(const SnapshotMeta& meta) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_turn_);
  void QueueChoresIfDue();
  // Read thread.
  absl::Status DoChores();
  absl::Status ReadLog(const LogReadRequest& request);
  absl::Status ReadSnapshot(const SnapshotReadRequest& request);
  // Checkpoint thread.
  absl::Status Finish(Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_checkpoint_);
  void AnswerLateNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(on_checkpoint_);
  // When what failed now is tried again, in ticks.
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

  // --- What one thread alone uses ---
  struct NodeThread {
    const std::unique_ptr<Raft> raft;
    Index applied_told{};  // the last OnApplied
    // By the index that a checkpoint has to cover.
    std::multimap<Index, std::function<void()>> checkpoint_waiters{};
  };
  struct LogThread {
    std::deque<LogWork> backlog;
    std::string unbound_cluster_id;  // there was no free space for it
  };
  // The apply thread, or the node thread while the other has nothing to do: whoever holds the turn.
  struct ApplyTurn {
    SnapshotMeta applied;
    uint64_t entries_since_checkpoint = 0;
    uint64_t bytes_since_checkpoint = 0;
  };
  struct CheckpointThread {
    // There was no free space for a part of a snapshot. That is said only after a while, or else it
    // would come again at once.
    std::optional<SnapshotWritten> late_answer;
  };
  ThreadRole on_node_;
  NodeThread node_ ABSL_GUARDED_BY(on_node_);
  ThreadRole on_log_;
  LogThread log_ ABSL_GUARDED_BY(on_log_);
  Mutex apply_turn_;
  ApplyTurn apply_ ABSL_GUARDED_BY(apply_turn_);
  ThreadRole on_checkpoint_;
  CheckpointThread checkpoint_ ABSL_GUARDED_BY(on_checkpoint_);
  // The read thread has nothing of its own.

  // --- What one thread tells the others ---
  struct Shared {
    // By the node thread.
    std::atomic<bool> persisted_awaited{true};
    std::atomic<bool> applied_awaited{true};
    std::atomic<uint64_t> ticks{0};
    // By the log thread.
    std::atomic<bool> log_full{false};
    std::atomic<bool> binding_waits{false};    // LogThread::unbound_cluster_id is not empty
    std::atomic<Index> log_durable{Index{0}};  // when it last looked
    // What was queued for the apply thread and is not done: grows where it is queued, and shrinks
    // there.
    std::atomic<size_t> apply_pending{0};
    // Set by the log thread, cleared by the read thread.
    std::atomic<bool> chores_queued{false};
    // A checkpoint was begun and is not durable. Set by the apply thread, cleared by the checkpoint
    // thread.
    std::atomic<bool> checkpoint_unfinished{false};
    // By the checkpoint thread: the last one found the disk full; when the next one may be begun,
    // in ticks.
    std::atomic<bool> checkpoint_failed{false};
    std::atomic<uint64_t> next_checkpoint_ticks{0};
    // By the checkpoint thread: when CheckpointThread::late_answer is due, in ticks; 0: there is
    // none.
    std::atomic<uint64_t> late_answer_ticks{0};
  };
  Shared shared_;

  EventLoop* event_loop_ = nullptr;
  std::thread node_thread_;
  std::vector<std::thread> threads_;  // the others
  bool failed_ = false;               // in a step
};

}  // namespace quorate::consensus
