// SPDX-License-Identifier: Apache-2.0

// The progress of a member that recovers from the loss of its data directory: who knows its old
// directory, who has recorded its new one, and the read index that it waits for. data_loss.cc
// describes the steps, and why they are safe.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::consensus {

class Recovery {
 public:
  using Members = std::vector<MemberId>;

  // Runs at each tick. Returns whether the members have to be asked again, as answers may be lost.
  // Gives up, after `election_ticks`, to wait for the read index.
  bool Tick(int election_ticks, int heartbeat_ticks);
  // Returns those of `members` that have not answered yet, in the same order; the next time is a
  // heartbeat interval from now. `has_epoch` is whether the member has chosen its directory epoch.
  Members TakeMembersToAsk(const Members& members, bool has_epoch);

  // Records that `from` knows a directory of this member with `directory_epoch` (step 1).
  void RecordKnown(MemberId from, uint64_t directory_epoch) { known_[from] = directory_epoch; }
  bool AllHaveAnswered(const Members& needed) const;
  // Returns the directory epoch for this member. It is greater than the one that the leader knows,
  // and than that of a directory of which the leader does not know: such a directory recovered in
  // an earlier term, or the leader would know it.
  uint64_t ChooseEpoch(Term term);

  // Records that `from` has recorded the chosen epoch (step 2), and drops messages of the lost
  // directory.
  void RecordAcknowledged(MemberId from) { acknowledged_.insert(from); }
  bool HasAcknowledged(MemberId member) const { return acknowledged_.contains(member); }
  bool AllHaveAcknowledged(const Members& needed) const;

  // Steps 3 and 4. Records that the read index is requested from `leader` in `term`.
  void BeginRead(uint64_t request_id, MemberId leader, Term term);
  bool is_reading() const { return request_id_.has_value(); }
  // Handles the answer to a read index request. Returns whether it answers the request of this
  // recovery; it counts only if it is from the leader that was asked, in the same term.
  bool RecordRead(uint64_t request_id, MemberId from, Term term, Index index);
  // Forgets the read index and the request unless they are from `leader` and `term`, and `needed`
  // had acknowledged the directory before the request.
  void KeepReadOf(MemberId leader, Term term, const Members& needed);
  // Returns the index up to which the log has to be durable here, and committed.
  std::optional<Index> read_index() const { return index_; }

 private:
  std::map<MemberId, uint64_t> known_;  // the epoch of this member that each member knows
  std::set<MemberId> acknowledged_;
  int ticks_since_request_ = 0;
  int ticks_since_read_ = 0;
  // The request for the read index, its leader and term, and the members that had acknowledged the
  // directory before it.
  std::optional<uint64_t> request_id_;
  MemberId leader_;
  Term term_;
  std::set<MemberId> acknowledged_before_;
  std::optional<Index> index_;
};

}  // namespace quorate::consensus
