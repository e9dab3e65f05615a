// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/quorum.h"

#include <utility>

namespace quorate::consensus {

VoteTally::VoteTally(Membership membership) : membership_(std::move(membership)) {
  ASSERT(!membership_.voters.empty());
}

void VoteTally::Record(MemberId voter, bool granted, bool reliable) {
  if (!membership_.IsVoter(voter)) return;
  answers_.emplace(voter, !granted   ? Answer::kRejection
                          : reliable ? Answer::kGrant
                                     : Answer::kUnreliableGrant);
}

bool VoteTally::unanimous() const {
  auto granted = [this](MemberId member) {
    const auto answer = answers_.find(member);
    return answer != answers_.end() && answer->second != Answer::kRejection;
  };
  return std::all_of(membership_.voters.begin(), membership_.voters.end(), granted) &&
         std::all_of(membership_.outgoing.begin(), membership_.outgoing.end(), granted);
}

bool VoteTally::has_quorum() const {
  return Quorum(membership_).Has([this](MemberId member) {
    const auto answer = answers_.find(member);
    return answer != answers_.end() && answer->second == Answer::kGrant;
  });
}

VoteOutcome VoteTally::outcome() const {
  if (has_quorum() || unanimous()) return VoteOutcome::kWon;
  // The vote is lost if no quorum is possible even if all voters that have not answered grant it.
  const bool possible = Quorum(membership_).Has([this](MemberId member) {
    const auto answer = answers_.find(member);
    return answer == answers_.end() || answer->second == Answer::kGrant;
  });
  const bool rejected = std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) {
    return answer.second == Answer::kRejection;
  });
  return possible || !rejected ? VoteOutcome::kPending : VoteOutcome::kLost;
}

}  // namespace quorate::consensus
