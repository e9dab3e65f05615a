// SPDX-License-Identifier: Apache-2.0

// Linearizable reads that wait for an answer. At a leader they wait for a round of heartbeats
// (thesis 6.4), at another member for the leader.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "consensus/core/limits.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

struct PendingRead {
  uint64_t request_id;
  MemberId from;  // the leader itself, or the member that forwarded the read
  // The lowest index that may be answered. A recovering member must have the log up to there.
  Index floor{};
};

// The reads of a leader. Reads that arrive together are confirmed by one round of heartbeats. The
// next round begins when the previous one is confirmed, or with the next regular heartbeat.
class ReadRounds {
 public:
  // Returns whether the maximum number of reads wait for the next round.
  bool is_full() const { return waiting_.size() >= kPendingReadsMax; }
  // Adds a read, which waits for the next round. REQUIRES: !is_full().
  void Add(const PendingRead& read) {
    ASSERT(!is_full());
    waiting_.push_back(read);
  }
  // Returns whether reads wait for a round.
  bool has_waiting() const { return !waiting_.empty(); }
  // Returns whether a round is not confirmed yet.
  bool is_confirming() const { return !confirming_.empty(); }
  // Returns the newest round that was begun.
  ReadRound round() const { return round_; }

  // Begins a round for the waiting reads. Their answer is `commit`, the present commit index.
  // REQUIRES: has_waiting().
  void Start(Index commit);
  // Calls `answer(read, index)` for each read of the rounds up to `confirmed`, in the order of the
  // reads.
  template <class Answer>
  void Confirm(ReadRound confirmed, const Answer& answer) {
    while (!confirming_.empty() && confirming_.front().round <= confirmed) {
      const Batch& batch = confirming_.front();
      for (const PendingRead& read : batch.reads) answer(read, batch.index);
      confirming_.pop_front();
    }
  }
  // Calls `visit(read)` for all reads: first those of rounds, then those that wait for a round.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    for (const Batch& batch : confirming_) {
      for (const PendingRead& read : batch.reads) visit(read);
    }
    for (const PendingRead& read : waiting_) visit(read);
  }

 private:
  struct Batch {
    ReadRound round;
    Index index;
    std::vector<PendingRead> reads;
  };

  ReadRound round_;
  std::vector<PendingRead> waiting_;
  std::deque<Batch> confirming_;  // ascending rounds
};

// The reads that a member has forwarded to the leader.
class ForwardedReads {
 public:
  // Records that a read was forwarded at `now_ticks`, which never decreases. Returns false if too
  // many reads wait. REQUIRES: the request id was not used before.
  bool Add(uint64_t request_id, uint64_t now_ticks);
  // Removes a read because its answer arrived. Returns false if there is no such read.
  bool Remove(uint64_t request_id) { return forwarded_ticks_.erase(request_id) > 0; }
  // Removes the reads that were forwarded `timeout_ticks` ago or earlier, and returns their ids in
  // the order in which they were forwarded.
  std::vector<uint64_t> RemoveExpired(uint64_t now_ticks, uint64_t timeout_ticks);
  // Removes all reads and returns their ids in ascending order.
  std::vector<uint64_t> RemoveAll();
  bool empty() const { return forwarded_ticks_.empty(); }
  // Returns whether RemoveExpired has to be called as time passes. It is true for a while after the
  // last answer too.
  bool needs_ticks() const { return !in_order_.empty(); }

 private:
  std::map<uint64_t, uint64_t> forwarded_ticks_;  // by the request id
  // (ticks, request id) of all reads that have not expired, including those that were answered.
  std::deque<std::pair<uint64_t, uint64_t>> in_order_;
};

}  // namespace quorate::consensus
