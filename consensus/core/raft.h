// The Raft algorithm (Ongaro and Ousterhout 2014; "thesis" is Ongaro's), pure and deterministic:
// inputs go in by the functions below, and what is to be done comes out as one Output batch. No
// I/O, thread, clock, lock or callback; equal inputs give equal outputs, to the byte.
//
// Storage is asynchronous: a leader sends entries to its followers while its own write runs, and
// counts itself towards a quorum only when Persisted() says its own copy is durable, in a cluster
// of one too. Whatever promises durability (a granted vote, an append acknowledgement, a
// candidate's vote request and its vote for itself) leaves after the write.
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

// The randomness of election timeouts, injected.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Any 64 bits.
  virtual uint64_t Next() = 0;
};

struct RaftOptions {
  MemberId self;  // need not be in `membership`
  // With which a cluster begins: used if neither checkpoint nor log holds a membership. The same at
  // each start of a directory whose member is kNormal (DataDir::SettleMembership).
  Membership membership;
  // Of this member's data directory: kFirstDirectoryEpoch if it is new, later what
  // Output::directory_epoch said.
  uint64_t directory_epoch = kFirstDirectoryEpoch;
  // The newest version that this program understands.
  uint32_t version = kVersionNewest;
  // An election starts after a random time in [election_ticks, 2 * election_ticks) without word
  // from a leader; a leader that does not hear from a quorum for election_ticks steps down.
  int election_ticks = 20;
  // REQUIRES: 0 < heartbeat_ticks < election_ticks.
  int heartbeat_ticks = 4;
  // Payload of the no-op that a leader with an empty log appends at index 1.
  std::string cluster_id_if_new;
  // Entries kept in the log behind a checkpoint, for followers that lag a little.
  uint64_t trailing_entries = 5000;
  // Entries, and their bytes, kept behind a checkpoint at most for a follower that needs them and
  // was heard in the last retained_ticks_max ticks (0: 400 times election_ticks). A member that
  // does not lead keeps as much back to the checkpoint before its newest, for those it may come to
  // lead.
  uint64_t retained_entries_max = 1'000'000;
  uint64_t retained_bytes_max;
  int retained_ticks_max = 0;
  // Bytes of the log kept behind a checkpoint for a follower that is being sent one, or that
  // follows after one, unless that makes no progress for snapshot_stall_ticks (0: 100 times
  // election_ticks). A receiver gives up what it has staged after as long without a chunk.
  uint64_t transfer_bytes_max;
  int snapshot_stall_ticks = 0;
  // A log is compacted by at least so many entries at once.
  uint64_t compaction_step_entries = 1000;
  // A learner that becomes a voter may lag by so many entries.
  uint64_t promotion_lag_entries = 1000;
  // Bytes of one SnapshotChunk; of those on their way to one follower; and of all that leave
  // between two ticks, at the beginning: that adapts (snapshot.cc).
  size_t snapshot_chunk_bytes = 256u << 10;
  size_t snapshot_window_bytes_max;
  size_t snapshot_bytes_per_tick = 1u << 20;
  // A leader whose oldest write is not durable for so long hands leadership over. 0: ten times
  // election_ticks.
  int disk_stall_ticks = 0;
  // Bounds; see limits.h for the reasons. Tests and simulation make them tiny.
  size_t append_bytes_max;
  size_t inflight_messages_max;
  size_t inflight_bytes_max;
  size_t uncommitted_bytes_max;
  size_t cached_bytes_max;
  size_t apply_bytes_max;
  // A batch that is made anyway takes the commit hint along once it grew by so many entries (a
  // change of term or vote always does): a hard state may cost the storage a sync of its own.
  size_t commit_hint_entries = 4096;

  RaftOptions();  // the values of limits.h
  // InvalidArgument, naming the field, if a value or a relation is not allowed.
  absl::Status Validate() const;
};

// A run of the log in one term: entries from `first` up to the next run (or the end) have `term`.
struct TermRun {
  Index first;
  Term term;
};

// Entries up to `last`, behind those of the run before, and their bytes (Entry::ByteSize).
struct SizeRun {
  Index last;
  uint64_t bytes = 0;
};

// What a member finds on its disk at start. All of it is durable. If the log does not contain the
// entry that the checkpoint stands for, the driver resets it to begin behind that, first.
struct InitialState {
  HardState hard_state;
  Index base_index;  // the log begins behind it (0: with the first entry of all)
  Term base_term;
  Index last_index;                    // base_index if the log is empty
  std::vector<TermRun> term_runs;      // ascending; empty if and only if the log is
  std::vector<SizeRun> size_runs;      // ascending; roughly
  std::vector<Entry> control_entries;  // those of the log with IsControl(kind), ascending
  // The newest durable one. base_index <= checkpoint->index <= last_index; without one, base_index
  // is 0.
  std::optional<SnapshotMeta> checkpoint;
  Index applied;  // what the state machine holds already: at least base_index
};

class Raft {
 public:
  // `random` must outlive the object. REQUIRES: options.Validate().ok(), state is consistent.
  Raft(RaftOptions options, InitialState state, RandomSource* random);
  ~Raft();
  Raft(const Raft&) = delete;
  Raft& operator=(const Raft&) = delete;

  // A copy, which goes on by itself; both draw from the same random source. For tests that try
  // several continuations of one run.
  std::unique_ptr<Raft> Clone() const;

  // One unit of time has passed.
  void Tick();
  // So many ticks from now on do nothing that could not wait for the one after them, unless
  // something else happens first: they begin no election and send no heartbeat. What they look
  // after besides (a quorum that is lost, a disk that stalls, a message that was lost, what can be
  // compacted) is seen that much later.
  int IdleTicks() const;

  // A message from another member. Anything may arrive: old, duplicated, reordered; a message from
  // an unknown member or not meant for this one is ignored.
  void Step(Message message);

  // Appends commands to the log, in order. Either all are taken or none.
  // Errors: FailedPrecondition if this member does not lead (or is handing leadership over),
  // ResourceExhausted if too much is uncommitted (try again after commits), InvalidArgument if a
  // payload is larger than kEntryPayloadBytesMax.
  absl::Status Propose(std::vector<Slice> payloads);

  // Asks for a linearizable read point (thesis 6.4): answered by one ReadResult in some later
  // Output, at this member whether it leads or not. `request_id` must be new, also after a restart.
  void ReadIndex(uint64_t request_id);

  // The batch of that id, and all before it, are durable. Ids come in order; some may be skipped.
  void Persisted(PersistId id);
  // Whether something waits for Persisted at this member: not what leaves with the batch, nor a
  // leader's entries that enough of the others do not hold yet.
  bool PersistWaits() const;

  // The state machine holds everything up to `index`. REQUIRES: it was handed out for apply.
  void Applied(Index index);
  // Whether something that is committed is handed out only after more was applied.
  bool ApplyWaits() const;

  // The answer to a LogReadRequest: entries as they were asked for, from `first` on (never empty).
  // Ignored if the follower no longer needs them.
  void LogRead(MemberId follower, std::vector<Entry> entries);

  // The transport lost its connection to `member`, which a process that dies causes at once: stop
  // pipelining to it until it answers; if it leads, stand ready to elect another within a heartbeat
  // instead of an election timeout.
  void PeerUnreachable(MemberId member);

  // Hands leadership to `target` (thesis 3.10), or to the most up-to-date voter if kNoMember.
  // Given up after an election timeout. Errors: FailedPrecondition if this member does not lead or
  // there is no such voter.
  absl::Status TransferLeadership(MemberId target);

  // Gives up a transfer that is under way: proposals are taken again. (The target may have been
  // told already, and win.)
  void CancelTransfer();

  // Changes the membership to `target`, by way of a joint one if voters change (thesis 4.3). The
  // change is done when the committed membership says so (Output::membership, status); a later
  // leader finishes one that was begun.
  // Errors: InvalidArgument if target is not valid or is joint; FailedPrecondition if this member
  // does not lead, has not committed an entry of its term yet, hands leadership over, if another
  // change is under way, if the version in force does not allow it or a new member does not
  // understand it (the members that hold it back are named); Unavailable if a new voter is no
  // learner yet, was not heard lately, is recovering, or lags by more than promotion_lag_entries:
  // try again later.
  absl::Status ChangeMembership(Membership target);

  // A durable checkpoint of the state machine covers everything up to `index`, which was applied.
  void Checkpointed(Index index);
  // Whether the log is to be cut as short as it can be: the disk is almost full.
  void SetSpaceIsShort(bool is_short);

  // The answer to a SnapshotReadRequest. Ignored if it is no longer wanted.
  void SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes, bool last);
  // There is no such checkpoint (any more).
  void SnapshotReadFailed(MemberId follower);
  // The answer to a SnapshotWriteRequest for the snapshot of `index`: everything before
  // `next_offset` is staged, durably if it was the last chunk. Answers come in the order of the
  // requests.
  void SnapshotWritten(Index index, uint64_t next_offset);
  // The other answer: it could not be kept, and nothing is staged any more. The leader learns why.
  void SnapshotWriteFailed(Index index, std::string reason);
  // The answer to Output::install.
  void SnapshotInstalled(Index index);

  // Whether TakeOutput would return anything.
  bool HasOutput() const;
  Output TakeOutput();

  // --- What it knows; for status pages and tests -----------------------------------------------
  Role role() const;
  Term term() const;
  MemberId leader() const;
  Index commit_index() const;
  Index last_index() const;
  Index durable_index() const;
  // The log begins behind it.
  Index base_index() const;
  // The newest in the log: effective, whether committed or not (thesis 4.1).
  const Membership& membership() const;
  MemberState member_state() const;
  // The newest version that is committed.
  uint32_t active_version() const;
  // The newest version that `member` understands, as the last message from it said; 0 if none came.
  uint32_t version_of(MemberId member) const;
  // Ticks since a leader was last heard from (0 at a leader that has its quorum).
  int ticks_since_leader() const;
  // How often one was heard from: by it a caller sees whether one was, since it last looked.
  uint64_t leader_contacts() const;
  // At a leader: how far `member`'s durable log is known to match; 0 elsewhere.
  Index match_index(MemberId member) const;
  // All of it on one line.
  std::string ToString() const;

  // Checks what must hold after every step; aborts with a message if it does not. O(members).
  void CheckInvariants() const;

 private:
  class Impl;
  explicit Raft(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
