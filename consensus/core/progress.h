// What a leader knows of one follower, and the flow of AppendRequests to it.
//
// The states:
//
//   probe        where the two logs agree is not known. One request with entries is under way.
//   unconfirmed  what was sent may not have arrived. One request without entries is under way,
//                which asks whether it has; `next` stays. So a follower whose disk is slow does not
//                get the same entries again and again.
//   replicate    requests follow each other without waiting for answers, within a window; `next`
//                runs ahead of what is acknowledged.
//   snapshot     the follower needs entries that the log no longer holds: a checkpoint is sent
//                instead, in chunks (snapshot_transfer.h), and no requests.
//
// The transitions:
//
//   from                    on                                            to
//   probe, unconfirmed      accepted up to next - 1 or further            replicate
//   probe, unconfirmed      rejected (`next` goes down)                   probe
//   probe                   no answer until the next heartbeat            unconfirmed
//   replicate               rejected (`next` goes down)                   probe
//   replicate               the connection is lost; the follower was      unconfirmed
//                           restarted; or, while something is not
//                           acknowledged, the follower is heard again
//                           after a silence, or acknowledges nothing
//                           for an election timeout
//   all but snapshot        `next` lies at or below the log's base        snapshot
//   snapshot                the follower has the whole checkpoint, or     probe
//                           turns out to need none
//
// In probe and unconfirmed a request without an answer is sent again at each heartbeat.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/snapshot_transfer.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class Progress {
 public:
  enum class State : uint8_t { kProbe, kUnconfirmed, kReplicate, kSnapshot };

  // Probing after `last_index`, the leader's last entry before its own first one.
  Progress(MemberId member, Index last_index, size_t inflight_messages_max,
           size_t inflight_bytes_max);

  MemberId member() const { return member_; }
  State state() const { return state_; }
  // The index up to which the follower's durable log equals the leader's.
  Index match() const { return match_; }
  // The first entry that the next request carries. match() < next().
  Index next() const { return next_; }

  // --- Sending ---
  // In probe and unconfirmed: whether a request may leave now. In probe it should carry entries.
  bool ProbeDue() const { return IsProbing() && !probe_sent_; }
  // In replicate: whether no request with entries may leave. The window is open if nothing is under
  // way, and one free byte admits a whole request.
  bool WindowFull() const;
  // The largest commit index that was sent to the follower, at most the last entry sent to it.
  Index commit_sent() const { return commit_sent_; }

  // A request with entries up to `last` (next() - 1 if it has none) and the commit index `commit`
  // left.
  void Sent(Index last, size_t entry_bytes, Index commit);

  // --- Answers ---
  // The follower has the leader's log up to `match` durably, and up to `received` in memory.
  // Returns whether match() grew. REQUIRES: match <= received.
  bool Acknowledged(Index match, Index received);
  // A request after `rejected_prev` did not fit; `candidate` is the last index which may fit.
  // Returns false if the rejection is outdated. match() goes back only if a follower turns out to
  // have lost what it acknowledged.
  bool Rejected(Index rejected_prev, Index candidate);
  // Records from a message the newest version that the follower understands, and whether its
  // acknowledgements count.
  void RecordSender(uint32_t version, bool voting);
  // 0 until the follower was heard.
  uint32_t version() const { return version_; }
  // True until a message says otherwise; before its first message the follower has acknowledged
  // nothing.
  bool voting() const { return voting_; }

  // A message of the follower came. If it was silent for `silence_ticks` before, the cause of that
  // may also have lost the requests under way.
  void Heard(int silence_ticks);
  // The requests under way may be lost: replicate becomes unconfirmed.
  void BecomeUnconfirmed();

  // --- Time ---
  // After `stall_ticks` ticks without progress, held_from() is 0. REQUIRES: election_ticks > 0.
  void Tick(int election_ticks, int stall_ticks);
  void ProbeAgain();
  int ticks_since_heard() const { return ticks_since_heard_; }

  // --- Snapshots ---
  // The log no longer holds the entry at next(). REQUIRES: state() != kSnapshot.
  void BecomeSnapshot(const SnapshotTransfer::Limits& limits);
  // The follower has everything up to `index` >= match(), durable or not. REQUIRES: kSnapshot.
  void LeaveSnapshot(Index index);
  // REQUIRES: state() == kSnapshot.
  SnapshotTransfer& transfer() { return transfer_; }
  const SnapshotTransfer& transfer() const { return transfer_; }
  // The follower has staged everything before `next_offset` of the checkpoint. REQUIRES: state() ==
  // kSnapshot.
  void AcknowledgedChunk(uint64_t next_offset);
  // The index of the checkpoint that is being sent to the follower; after that, how far the
  // follower has come since. The log after this index is kept while the follower makes progress. 0:
  // nothing is kept for it.
  Index held_from() const;
  // The follower has caught up: nothing is kept for it any more.
  void ReleaseHeld() { held_from_ = Index{0}; }

  // --- Leaving ---
  // Sets whether the follower was removed from the membership. A removed one is kept for a while,
  // so that it receives the entry that removes it.
  void SetLeaving(bool leaving);
  bool leaving() const { return leaving_; }
  // Ticks since the removal was committed, which the caller counts here.
  int TickLeaving() { return ++leaving_ticks_; }

  // --- Entries that must be read from the log for it ---
  bool log_read_outstanding() const { return log_read_first_ != Index{0}; }
  void LogReadRequested() { log_read_first_ = next_; }
  // Handles the answer to the log read from `first` on. Returns whether the entries are still
  // wanted.
  bool LogReadAnswered(Index first);
  void KeepReadEntries(std::vector<Entry> entries) { read_entries_ = std::move(entries); }
  // Whether entries from next() on were read. TakeReadEntries REQUIRES: HasReadEntries().
  bool HasReadEntries() const {
    return !read_entries_.empty() && read_entries_.front().index == next_;
  }
  std::vector<Entry> TakeReadEntries() { return std::exchange(read_entries_, {}); }

  // --- Confirmation rounds ---
  ReadRound read_round() const { return read_round_; }
  void RoundAnswered(ReadRound round);

  // Aborts if an invariant is violated. `last_index`: the leader's last index.
  void CheckInvariants(Index last_index) const;
  std::string ToString() const;

 private:
  // Whether only one request at a time may be under way.
  bool IsProbing() const { return state_ == State::kProbe || state_ == State::kUnconfirmed; }
  void Become(State state);

  struct Request {
    Index last;
    size_t bytes;
  };
  // Whether entries were sent that are not acknowledged as durable. Those that the follower has
  // received but not yet made durable count: their acknowledgement may be lost, too, though no
  // request is under way.
  bool AwaitsAcknowledgement() const { return match_ + 1 < next_; }
  void FreeWindow();
  void RecordHeldProgress();
  void ForgetInflight();

  MemberId member_;
  size_t inflight_messages_max_;
  size_t inflight_bytes_max_;

  State state_ = State::kProbe;
  Index match_;
  Index next_;
  Index commit_sent_;
  bool probe_sent_ = false;  // in probe and unconfirmed: a request is under way

  // Requests with entries above match(), oldest first. They are kept while unconfirmed, because
  // requests that arrived still take the follower's memory.
  std::deque<Request> inflight_;
  size_t inflight_bytes_ = 0;
  int ticks_since_progress_ = 0;

  uint32_t version_ = 0;
  bool voting_ = true;
  SnapshotTransfer transfer_;
  Index held_from_;  // unused while a snapshot is sent: then it is transfer_.index()
  bool held_stalls_ = false;
  int ticks_since_held_progress_ = 0;
  bool leaving_ = false;
  int leaving_ticks_ = 0;

  int ticks_since_heard_ = 0;
  ReadRound read_round_;
  Index log_read_first_;  // 0: none outstanding
  std::vector<Entry> read_entries_;
};

}  // namespace quorate::consensus
