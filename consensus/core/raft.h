// The Raft algorithm (Ongaro and Ousterhout 2014; "thesis" is Ongaro's), pure and deterministic:
// the functions below take inputs, and TakeOutput returns what the driver has to do. There is no
// I/O, thread, clock, lock or callback in it; equal inputs give equal outputs, to the byte.
//
// Storage is asynchronous: a leader sends entries to its followers while its own write runs, and
// counts itself towards a quorum only when Persisted() says that its own copy is durable, in a
// cluster of one too. A message that promises durability (a granted vote, an acknowledgement of
// entries, a candidate's vote request, which implies its vote for itself) is sent after the write.
//
// Thread-safety: none; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "consensus/core/message.h"
#include "consensus/core/output.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// The source of randomness for election timeouts.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Any 64 bits.
  virtual uint64_t Next() = 0;
};

struct RaftOptions {
  MemberId self;  // need not be in `membership`
  // The membership at the bootstrap of the cluster. It counts only while neither checkpoint nor log
  // holds a membership. It is the same at each start of a directory whose member is kNormal
  // (DataDir::SettleMembership).
  Membership membership;
  // The epoch of this member's data directory: kFirstDirectoryEpoch if the directory is new, later
  // the last Output::directory_epoch.
  uint64_t directory_epoch = kFirstDirectoryEpoch;
  // The newest version that this program understands.
  uint32_t version = kVersionNewest;
  // A member starts an election when it has heard from no leader for a random number of ticks in
  // [election_ticks, 2 * election_ticks). A leader that does not hear from a quorum for
  // election_ticks steps down.
  int election_ticks = 20;
  // REQUIRES: 0 < heartbeat_ticks < election_ticks.
  int heartbeat_ticks = 4;
  // The payload of the no-op that a leader with an empty log appends at index 1.
  std::string cluster_id_if_new;
  // The number of entries before a checkpoint that the log keeps, for followers that lag a little.
  uint64_t trailing_entries = 5000;
  // The most entries, and bytes of entries, before a checkpoint that a leader keeps for a follower
  // that needs them and was heard in the last retained_ticks_max ticks (0: 400 times
  // election_ticks). A member that does not lead keeps as many, back to the checkpoint before its
  // newest, for the followers that it may have later.
  uint64_t retained_entries_max = 1'000'000;
  uint64_t retained_bytes_max;
  int retained_ticks_max = 0;
  // The most bytes of the log before a checkpoint that a leader keeps for a follower that receives
  // a snapshot, or catches up after one. The leader stops keeping them when the follower makes no
  // progress for snapshot_stall_ticks (0: 100 times election_ticks). A receiver discards what it
  // has staged after the same time without a chunk.
  uint64_t transfer_bytes_max;
  int snapshot_stall_ticks = 0;
  // A compaction removes at least this many entries.
  uint64_t compaction_step_entries = 1000;
  // The most entries by which a learner may lag when it becomes a voter.
  uint64_t promotion_lag_entries = 1000;
  // The bytes of one SnapshotChunk; of all chunks under way to one follower; and of all chunks that
  // are sent between two ticks, which is where an adaptive rate begins (snapshot.cc).
  size_t snapshot_chunk_bytes = 256u << 10;
  size_t snapshot_window_bytes_max;
  size_t snapshot_bytes_per_tick = 1u << 20;
  // A leader whose oldest write is not durable after this many ticks hands leadership over. 0: ten
  // times election_ticks.
  int disk_stall_ticks = 0;
  // Bounds; see limits.h for the reasons. Tests and simulation make them tiny.
  size_t append_bytes_max;
  size_t inflight_messages_max;
  size_t inflight_bytes_max;
  size_t uncommitted_bytes_max;
  size_t cached_bytes_max;
  size_t apply_bytes_max;
  // A batch that is written for another reason includes the commit hint when the commit index has
  // grown by this many entries since the last hint; a batch with a new term or vote always does. It
  // is not included more often because a hard state may cost the storage a sync of its own.
  size_t commit_hint_entries = 4096;

  RaftOptions();  // the values of limits.h
  // InvalidArgument, naming the field, if a value or a relation is not allowed.
  absl::Status Validate() const;
};

// A run of entries of one term: those from `first` up to the next run, or to the end of the log.
struct TermRun {
  Index first;
  Term term;
};

// A run of entries: those after the previous run, up to `last`, and their bytes (Entry::ByteSize).
struct SizeRun {
  Index last;
  uint64_t bytes = 0;
};

// The state that a member finds on its disk at start. All of it is durable. If the log does not
// contain the entry of the checkpoint, the driver first resets the log to begin after that entry.
struct InitialState {
  HardState hard_state;
  Index base_index;  // the log begins with the entry after it
  Term base_term;
  Index last_index;                    // base_index if the log is empty
  std::vector<TermRun> term_runs;      // ascending; empty if and only if the log is
  std::vector<SizeRun> size_runs;      // ascending; roughly
  std::vector<Entry> control_entries;  // those of the log with IsControl(kind), ascending
  // The newest durable checkpoint: base_index <= checkpoint->index <= last_index. If there is none,
  // base_index is 0.
  std::optional<SnapshotMeta> checkpoint;
  Index applied;  // the last index that the state machine holds: at least base_index
};

class Raft {
 public:
  // `random` must outlive the object. REQUIRES: options.Validate().ok(), state is consistent.
  Raft(RaftOptions options, InitialState state, RandomSource* random);
  ~Raft();
  Raft(const Raft&) = delete;
  Raft& operator=(const Raft&) = delete;

  // Returns an independent copy that draws from the same random source. For tests that try several
  // continuations of one run.
  std::unique_ptr<Raft> Clone() const;

  // Tells that one unit of time has passed.
  void Tick();
  // Returns the number of coming ticks that start no election and send no heartbeat, unless another
  // input comes first. A driver may skip so many calls of Tick and make them up together. The other
  // checks of a tick (a lost quorum, a stalled disk, a lost message, a compaction) are delayed by
  // as much.
  int IdleTicks() const;

  // Handles a message from another member. Messages may be old, duplicated or reordered. A message
  // from an unknown member, or for another member, is ignored.
  void Step(Message message);

  // Appends commands to the log, in order: all of them or none.
  // Errors: FailedPrecondition if this member does not lead (or is handing leadership over),
  // ResourceExhausted if too much is uncommitted (try again after commits), InvalidArgument if a
  // payload is larger than kEntryPayloadBytesMax.
  absl::Status Propose(std::vector<Slice> payloads);

  // Asks for a linearizable read point (thesis 6.4). One ReadResult of a later Output answers, at a
  // leader and at any other member. `request_id` must never have been used, in this process or an
  // earlier one.
  void ReadIndex(uint64_t request_id);

  // Tells that the batch `id` and all batches before it are durable. Ids ascend; some may be
  // skipped.
  void Persisted(PersistId id);
  // Returns whether a call of Persisted would let something go on at once: a leader's commit, or an
  // acknowledgement or vote of another member. Messages that leave with the batch do not count, nor
  // entries of a leader that too few followers hold.
  bool PersistWaits() const;

  // Tells that the state machine holds everything up to `index`. REQUIRES: an Output had `index` in
  // a range to apply.
  void Applied(Index index);
  // Returns whether committed entries are held back until the state machine has applied more.
  bool ApplyWaits() const;

  // Answers a LogReadRequest with the entries from its `first` on, at least one. Ignored if the
  // follower no longer needs them.
  void LogRead(MemberId follower, std::vector<Entry> entries);

  // Tells that the transport lost its connection to `member`, as it does at once when a process
  // dies. A leader stops pipelining to that member until it answers. If `member` leads, this member
  // starts an election within a heartbeat instead of an election timeout.
  void PeerUnreachable(MemberId member);

  // Hands leadership over to `target` (thesis 3.10), or to the most up-to-date voter if it is
  // kNoMember. The transfer is given up after an election timeout. Errors: FailedPrecondition if
  // this member does not lead or there is no such voter.
  absl::Status TransferLeadership(MemberId target);

  // Gives up a transfer that is under way, so that Propose works again. The target may have
  // received its TimeoutNow already, and may still win.
  void CancelTransfer();

  // Changes the membership to `target`, through a joint membership if voters change (thesis 4.3).
  // The change is complete when the committed membership is `target` (Output::membership, status);
  // a later leader completes a change that was begun.
  // Errors: InvalidArgument if `target` is not valid or is joint. FailedPrecondition if this member
  // does not lead, has not committed an entry of its term yet or hands leadership over; if another
  // change is under way; if the cluster version does not allow it, or a new member does not
  // understand the cluster version (the message names these members). Unavailable, to be tried
  // again, if a new voter is not a learner yet, was not heard lately, is recovering, or lags by
  // more than promotion_lag_entries.
  absl::Status ChangeMembership(Membership target);

  // Tells that a durable checkpoint of the state machine holds everything up to `index`. REQUIRES:
  // `index` is applied.
  void Checkpointed(Index index);
  // `is_short`: the disk is almost full, and compaction keeps as few entries as it can.
  void SetSpaceIsShort(bool is_short);

  // Answers a SnapshotReadRequest. Ignored if the follower no longer needs it.
  void SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes, bool last);
  // Answers a SnapshotReadRequest for a checkpoint that does not exist any more.
  void SnapshotReadFailed(MemberId follower);
  // Answers a SnapshotWriteRequest for the snapshot of `index`: everything before `next_offset` is
  // staged, durably if that chunk was the last. Answers come in the order of the requests.
  void SnapshotWritten(Index index, uint64_t next_offset);
  // Answers a SnapshotWriteRequest whose chunk could not be kept; nothing is staged any more. The
  // leader receives `reason`.
  void SnapshotWriteFailed(Index index, std::string reason);
  // Answers Output::install.
  void SnapshotInstalled(Index index);

  // Returns whether TakeOutput would return anything to do.
  bool HasOutput() const;
  Output TakeOutput();

  // --- State, for status pages and tests ---------------------------------------------------------
  Role role() const;
  Term term() const;
  MemberId leader() const;
  Index commit_index() const;
  Index last_index() const;
  Index durable_index() const;
  // The log begins with the entry after this index.
  Index base_index() const;
  // The newest membership in the log. It is in effect whether it is committed or not (thesis 4.1).
  const Membership& membership() const;
  MemberState member_state() const;
  // The cluster version: the newest that is committed.
  uint32_t cluster_version() const;
  // The newest version that `member` understands, by its last message; 0 if there was none.
  uint32_t version_of(MemberId member) const;
  // The ticks since a leader was last heard from; 0 at a leader.
  int ticks_since_leader() const;
  // The number of times that a leader was heard from. A caller that compares two values learns
  // whether one was heard in between.
  uint64_t leader_contacts() const;
  // At a leader, the highest index up to which `member`'s durable log is known to match; else 0.
  Index match_index(MemberId member) const;
  // The state on one line.
  std::string ToString() const;

  // Checks the invariants that hold after every input; aborts with a message if one is violated.
  // O(members).
  void CheckInvariants() const;

 private:
  class Impl;
  explicit Raft(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
