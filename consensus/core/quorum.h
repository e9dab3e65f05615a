// SPDX-License-Identifier: Apache-2.0

// Majorities: the values on which a set of voters has agreed.
//
// Thread-safety: values; no shared state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/assert.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Returns the smallest size for which any two groups of that size among `voters` voters share a
// member.
constexpr size_t MajorityOf(size_t voters) { return voters / 2 + 1; }

// Returns the largest value that a majority has reached, given the value that each voter has
// reached: the commit index for match indexes, the confirmed round for acknowledged rounds.
// Reorders `values`. O(voters). REQUIRES: at least one voter.
template <typename T>
T ReachedByMajority(std::span<T> values) {
  ASSERT(!values.empty());
  // In descending order, all values before position majority - 1 have reached the value at that
  // position.
  const auto position = values.begin() + static_cast<std::ptrdiff_t>(MajorityOf(values.size()) - 1);
  std::nth_element(values.begin(), position, values.end(), [](T a, T b) { return b < a; });
  return *position;
}

// The decision rule of a membership: a majority of its voters, and during a change also a majority
// of the old voters (thesis 4.3). No other code knows this rule. The membership must outlive the
// object.
class Quorum {
 public:
  // REQUIRES: at least one voter.
  explicit Quorum(const Membership& membership)
      : voters_(membership.voters), outgoing_(membership.outgoing) {
    ASSERT(!voters_.empty());
  }

  // Returns the largest value that a quorum has reached. value_of(member) is the value that a
  // member has reached; for a member that does not count, it is the lowest value. O(voters).
  template <typename ValueOf>
  auto Reached(const ValueOf& value_of) const {
    const auto reached = ReachedBy(voters_, value_of);
    return outgoing_.empty() ? reached : std::min(reached, ReachedBy(outgoing_, value_of));
  }
  // Returns whether the members for which agrees(member) is true form a quorum.
  template <typename Agrees>
  bool Has(const Agrees& agrees) const {
    return Reached([&](MemberId member) { return agrees(member) ? 1 : 0; }) == 1;
  }

 private:
  template <typename ValueOf>
  static auto ReachedBy(std::span<const MemberId> voters, const ValueOf& value_of) {
    using T = decltype(value_of(MemberId{}));
    std::vector<T> values;
    values.reserve(voters.size());
    for (MemberId voter : voters) values.push_back(value_of(voter));
    return ReachedByMajority<T>(values);
  }

  std::span<const MemberId> voters_;
  std::span<const MemberId> outgoing_;
};

enum class VoteOutcome : uint8_t { kPending, kWon, kLost };

// The answers to a candidate's request. The first answer of each voter counts.
class VoteTally {
 public:
  // REQUIRES: at least one voter.
  explicit VoteTally(Membership membership);

  // Records an answer. An answer from a member that is not a voter does not count. A grant that is
  // not `reliable`, because it is from a new member, counts only if all voters grant.
  void Record(MemberId voter, bool granted, bool reliable = true);
  VoteOutcome outcome() const;
  // Returns whether every voter granted.
  bool unanimous() const;
  // Returns whether a quorum granted, counting reliable grants only.
  bool has_quorum() const;

 private:
  enum class Answer : uint8_t { kUnreliableGrant, kGrant, kRejection };

  Membership membership_;
  std::map<MemberId, Answer> answers_;
};

}  // namespace quorate::consensus
