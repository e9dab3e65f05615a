// One running member: the threads that drive the pure Raft object, the log and the state machine.
//
//   node thread   owns Raft; takes everything that queued while it was busy, steps it, hands on the
//                 outputs
//   log thread    writes and syncs all batches that queued during the last sync (group commit),
//                 then sends what had to wait for it
//   apply thread  gives committed entries to the state machine, and takes pictures of it
//   read thread   reads old entries from the log, and parts of a checkpoint, for a follower that
//                 lags
//   checkpoint thread
//                 makes pictures durable, and what is received of a snapshot
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
#include <condition_variable>
#include <deque>
#include <functional>
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
  // Once each tick, after Raft's.
  virtual void OnTick() = 0;
  // On the log thread: the cluster's id is known and durable (at most once in a process).
  virtual void OnClusterId(const std::string& cluster_id) = 0;
  // On any of the threads: the log cannot be written or read; the process must end.
  virtual void OnFatal(const absl::Status& error) = 0;
};

struct NodeOptions {
  RaftOptions raft;
  int tick_ms = 15;
  // A checkpoint is taken when so much was applied since the last one, and that is durable.
  uint64_t checkpoint_entries = 200'000;
  uint64_t checkpoint_bytes = 64u << 20;
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

  void Start();
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

  // On the node thread only (in a posted task or an observer's call).
  Raft& raft() { return *raft_; }

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
  using LogWork = std::variant<LogBatch, LogCompaction, LogReset>;

  // For the apply thread: committed entries, or a snapshot to install.
  using ApplyWork = std::variant<ApplyRange, SnapshotMeta>;
  using ReadWork = std::variant<LogReadRequest, SnapshotReadRequest>;

  // For the checkpoint thread, in order.
  struct FinishPicture {
    Index index;
  };
  struct InstallAfter {  // a picture was unfinished when the snapshot could have been installed
    SnapshotMeta meta;
  };
  using CheckpointWork = std::variant<FinishPicture, SnapshotWriteRequest, InstallAfter>;

  // A queue of which the reader takes everything at once.
  template <class T>
  class BatchQueue {
   public:
    void Push(T item);
    // Waits for items, the stop, or `deadline` (if not null); false after Close and nothing is
    // left.
    bool TakeAll(std::vector<T>* items, const std::chrono::steady_clock::time_point* deadline);
    // Takes what there is, without waiting.
    std::vector<T> TakeQueued();
    bool HasItems() const;
    void Close();

   private:
    mutable Mutex mutex_;
    std::condition_variable changed_;
    std::vector<T> items_ ABSL_GUARDED_BY(mutex_);
    bool closed_ ABSL_GUARDED_BY(mutex_) = false;
    bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  };

  void RunNode();
  // Takes batches from `queue` until it is closed or one could not be handled.
  template <class T>
  void RunQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  template <class T>
  void StepQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches));
  absl::Status HandleLog(std::vector<LogWork>& work);
  absl::Status HandleApply(std::vector<ApplyWork>& work);
  absl::Status HandleReads(std::vector<ReadWork>& work);
  absl::Status HandleCheckpoints(std::vector<CheckpointWork>& work);
  void Tick();
  void Handle(Event event);
  void DispatchOutputs();
  void Dispatch(Output output);
  // Log thread.
  absl::Status PersistAndSend(std::vector<LogBatch>& batches);
  absl::Status Persist(std::vector<LogBatch>& batches);
  absl::Status BindToFirstEntry();
  absl::Status BindClusterId(const std::string& cluster_id);
  absl::Status Reset(const LogReset& reset);
  // Apply thread.
  absl::Status Apply(const ApplyRange& range);
  void ApplyEntries(const std::vector<Entry>& entries);
  void BeginPictureIfDue();
  absl::Status Install(const SnapshotMeta& meta);
  // Read thread.
  absl::Status ReadLog(const LogReadRequest& request);
  absl::Status ReadSnapshot(const SnapshotReadRequest& request);
  // Checkpoint thread.
  absl::Status Stage(const SnapshotWriteRequest& request);

  const NodeOptions options_;
  DataDir* const data_dir_;
  StateMachine* const state_machine_;
  CheckpointStore* const checkpoints_;
  PeerTransport* const transport_;
  NodeObserver* const observer_;
  const std::unique_ptr<Raft> raft_;  // node thread

  BatchQueue<Event> events_;
  BatchQueue<LogWork> log_work_;
  BatchQueue<ApplyWork> apply_work_;
  BatchQueue<ReadWork> read_work_;
  BatchQueue<CheckpointWork> checkpoint_work_;

  // Apply thread.
  SnapshotMeta applied_;
  uint64_t entries_since_picture_ = 0;
  uint64_t bytes_since_picture_ = 0;
  // How far the log was durable when the log thread last looked.
  std::atomic<Index> log_durable_{Index{0}};
  // A picture was begun and is not durable. Set by the apply thread, cleared by the other.
  std::atomic<bool> picture_unfinished_{false};

  std::vector<std::thread> threads_;
  bool failed_ = false;  // in a step
};

}  // namespace quorate::consensus
