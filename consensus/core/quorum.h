// Majorities: what a set of voters has agreed on.
//
// Thread-safety: values; no shared state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// The smallest number of `voters` of which any two groups share a member.
constexpr size_t MajorityOf(size_t voters) { return voters / 2 + 1; }

// The largest value that a majority has reached, given the value each voter has reached: the
// commit index for match indexes, the confirmed round for acknowledged rounds. Reorders `values`.
// O(voters). REQUIRES: at least one voter.
template <typename T>
T ReachedByMajority(std::span<T> values) {
  ASSERT(!values.empty());
  // In descending order, the value at position majority-1 is reached by all before it, too.
  const auto position = values.begin() + static_cast<std::ptrdiff_t>(MajorityOf(values.size()) - 1);
  std::nth_element(values.begin(), position, values.end(), [](T a, T b) { return b < a; });
  return *position;
}

enum class VoteOutcome : uint8_t { kPending, kWon, kLost };

// The answers to one candidate's request. Each voter's first answer counts.
class VoteTally {
 public:
  // REQUIRES: at least one voter.
  explicit VoteTally(std::span<const MemberId> voters);

  // An answer of one that is not a voter is not counted.
  void Record(MemberId voter, bool granted);
  VoteOutcome outcome() const;
  size_t granted() const { return granted_; }
  size_t rejected() const { return rejected_; }

 private:
  size_t voters_;
  std::vector<MemberId> unanswered_;
  size_t granted_ = 0;
  size_t rejected_ = 0;
};

}  // namespace quorate::consensus
