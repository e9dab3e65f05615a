// SPDX-License-Identifier: Apache-2.0

// A leader's knowledge of one follower, and the flow of AppendRequests to it.
//
// The states:
//
//   probe        the leader does not know where the two logs agree. One request with entries is in
//                flight.
//   unconfirmed  the entries that were sent may not have arrived. One request without entries is
//                in flight, which asks whether they have; `next` stays. Therefore a follower whose
//                disk is slow does not get the same entries again and again.
//   replicate    requests follow each other without waiting for answers, within a window; `next`
//                runs ahead of the acknowledged entries.
//   snapshot     the follower needs entries that the log no longer has: the leader sends a
//                checkpoint in chunks (snapshot_transfer.h) instead of requests.
//
// The transitions:
//
//   from                    on                                            to
//   probe, unconfirmed      accepted up to next - 1 or further            replicate
//   probe, unconfirmed      rejected (`next` goes down)                   probe
//   probe                   no answer until the next heartbeat            unconfirmed
//   replicate               rejected (`next` goes down)                   probe
//   replicate               the connection is lost; the follower was      unconfirmed
//                           restarted; or, while entries are not
//                           acknowledged, the follower is heard from
//                           again after a silence, or acknowledges
//                           nothing for an election timeout
//   all but snapshot        `next` is at or below the log's base          snapshot
//   snapshot                the follower has the whole checkpoint, or     probe
//                           turns out to need none
//
// In probe and unconfirmed, a request without an answer is sent again at each heartbeat.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/catch_up.h"
#include "consensus/core/snapshot_transfer.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class Progress {
 public:
  enum class State : uint8_t { kProbe, kUnconfirmed, kReplicate, kSnapshot };

  // Starts to probe after `last_index`, the leader's last entry before the first one of its term.
  Progress(MemberId member, Index last_index, size_t inflight_messages_max,
           size_t inflight_bytes_max);

  MemberId member() const { return member_; }
  State state() const { return state_; }
  // Returns the index up to which the follower's durable log equals the leader's.
  Index match() const { return match_; }
  // Returns the first entry that the next request carries. match() < next().
  Index next() const { return next_; }

  // --- Sending ---
  // Returns whether a request may be sent now in probe or unconfirmed. In probe it should have
  // entries.
  bool ProbeDue() const { return IsProbing() && !probe_sent_; }
  // Returns whether the window is full in replicate, so that no request with entries may be sent.
  // It is not full if nothing is in flight, and one free byte admits a whole request.
  bool WindowFull() const;
  // Returns the largest commit index that was sent to the follower. It is at most the last entry
  // sent.
  Index commit_sent() const { return commit_sent_; }

  // Records that a request with entries up to `last` (next() - 1 if it has none) and the commit
  // index `commit` was sent.
  void Sent(Index last, size_t entry_bytes, Index commit);

  // --- Answers ---
  // Records that the follower has the leader's log up to `match` durably, and up to `received` in
  // memory. Returns whether match() grew. REQUIRES: match <= received.
  bool Acknowledged(Index match, Index received);
  // Records that the follower rejected a request after `rejected_prev`. `candidate` is the last
  // index up to which the logs may agree. Returns false if the rejection is outdated. match()
  // decreases only if the follower turns out to have lost entries that it acknowledged.
  bool Rejected(Index rejected_prev, Index candidate);
  // Records what a message says of the follower: the newest version that it understands, and
  // whether its acknowledgements count.
  void RecordSender(uint32_t version, bool voting);
  // Returns the newest version that the follower understands; 0 until it was heard from.
  uint32_t version() const { return version_; }
  // Returns whether the follower's acknowledgements count. It is true until a message says
  // otherwise: before its first message the follower has acknowledged nothing.
  bool voting() const { return voting_; }

  // Records that a message of the follower arrived. If the follower was silent for `silence_ticks`
  // before, the cause of the silence may have lost the requests in flight too.
  void Heard(int silence_ticks);
  // Records that the requests in flight may be lost: replicate becomes unconfirmed.
  void BecomeUnconfirmed();

  // --- Time ---
  // Records that a tick has passed. After `stall_ticks` ticks without progress, held_from() becomes
  // 0. REQUIRES: election_ticks > 0.
  void Tick(int election_ticks, int stall_ticks);
  void ProbeAgain();
  int ticks_since_heard() const { return ticks_since_heard_; }

  // --- Snapshots ---
  // Enters the state snapshot, because the log no longer has the entry at next(). REQUIRES: state()
  // != kSnapshot.
  void BecomeSnapshot(const SnapshotTransfer::Limits& limits);
  // Leaves the state snapshot: the follower has everything up to `index` >= match(), durable or
  // not. REQUIRES: state() == kSnapshot.
  void LeaveSnapshot(Index index);
  // Returns the transfer of the checkpoint. REQUIRES: state() == kSnapshot.
  SnapshotTransfer& transfer() { return transfer_; }
  const SnapshotTransfer& transfer() const { return transfer_; }
  // Records that the follower has staged everything before `next_offset` of the checkpoint.
  // REQUIRES: state() == kSnapshot.
  void AcknowledgedChunk(uint64_t next_offset);
  // Returns the index after which the log is kept for the follower while it makes progress. It is
  // the index of the checkpoint that is being sent; after the transfer, it advances with the
  // follower. Returns 0 if nothing is kept for the follower.
  Index held_from() const;
  // Records that the follower has caught up: nothing is kept for it any more.
  void ReleaseHeld() { held_from_ = Index{0}; }

  // --- Promotion ---
  // Returns the rounds of catching up. The leader counts them, because it knows the end of its log.
  CatchUp& catch_up() { return catch_up_; }
  const CatchUp& catch_up() const { return catch_up_; }

  // --- Leaving ---
  // Sets whether the follower was removed from the membership. A removed follower is kept for a
  // while, so that it receives the entry that removes it.
  void SetLeaving(bool leaving);
  bool leaving() const { return leaving_; }
  // Counts a tick since the removal was committed. Returns the number of these ticks.
  int TickLeaving() { return ++leaving_ticks_; }

  // --- Entries that must be read from the log for it ---
  bool log_read_outstanding() const { return log_read_first_ != Index{0}; }
  void LogReadRequested() { log_read_first_ = next_; }
  // Records the answer to the log read from `first` on. Returns whether the entries are still
  // wanted: this object has requested them, and has to send them next.
  bool LogReadAnswered(Index first);
  void KeepReadEntries(std::vector<Entry> entries) { read_entries_ = std::move(entries); }
  // Returns whether entries from next() on were read. TakeReadEntries REQUIRES: HasReadEntries().
  bool HasReadEntries() const {
    return !read_entries_.empty() && read_entries_.front().index == next_;
  }
  std::vector<Entry> TakeReadEntries() { return std::exchange(read_entries_, {}); }

  // --- Confirmation rounds ---
  ReadRound read_round() const { return read_round_; }
  void RoundAnswered(ReadRound round);

  // Aborts if an invariant is violated. `last_index` is the leader's last index.
  void CheckInvariants(Index last_index) const;
  std::string ToString() const;

 private:
  // Returns whether at most one request may be in flight.
  bool IsProbing() const { return state_ == State::kProbe || state_ == State::kUnconfirmed; }
  void Become(State state);

  struct Request {
    Index last;
    size_t bytes;
  };
  // Returns whether entries were sent that are not acknowledged as durable. They include entries
  // that the follower has received but not yet made durable: their acknowledgement may be lost too,
  // although no request is in flight.
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
  bool probe_sent_ = false;  // in probe and unconfirmed: a request is in flight

  // Requests with entries above match(), oldest first. They are kept in unconfirmed, because
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
  CatchUp catch_up_;
  bool leaving_ = false;
  int leaving_ticks_ = 0;

  int ticks_since_heard_ = 0;
  ReadRound read_round_;
  Index log_read_first_;  // 0 if no log read is outstanding
  std::vector<Entry> read_entries_;
};

}  // namespace quorate::consensus
