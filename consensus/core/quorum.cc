#include "consensus/core/quorum.h"

namespace quorate::consensus {

VoteTally::VoteTally(std::span<const MemberId> voters)
    : voters_(voters.size()), unanswered_(voters.begin(), voters.end()) {
  ASSERT(voters_ > 0);
}

void VoteTally::Record(MemberId voter, bool granted) {
  const auto position = std::find(unanswered_.begin(), unanswered_.end(), voter);
  if (position == unanswered_.end()) return;
  unanswered_.erase(position);
  ++(granted ? granted_ : rejected_);
  ASSERT(granted_ + rejected_ + unanswered_.size() == voters_);
}

VoteOutcome VoteTally::outcome() const {
  const size_t majority = MajorityOf(voters_);
  ASSERT(granted_ + rejected_ <= voters_);
  if (granted_ >= majority) return VoteOutcome::kWon;
  // Even with all that is open, no majority is left.
  if (voters_ - rejected_ < majority) return VoteOutcome::kLost;
  return VoteOutcome::kPending;
}

}  // namespace quorate::consensus
