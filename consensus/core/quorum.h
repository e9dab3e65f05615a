// Majorities: what a set of voters has agreed on.
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

// A majority of the voters of a membership; during a change one of the old voters, too (thesis
// 4.3). The only place that knows how a membership decides. The membership must outlive it.
class Quorum {
 public:
  // REQUIRES: at least one voter.
  explicit Quorum(const Membership& membership)
      : voters_(membership.voters), outgoing_(membership.outgoing) {
    ASSERT(!voters_.empty());
  }

  // The largest value that it has reached: value_of(member) is the one that a member has reached,
  // the least there is for one that does not count. O(voters).
  template <typename ValueOf>
  auto Reached(const ValueOf& value_of) const {
    const auto reached = ReachedBy(voters_, value_of);
    return outgoing_.empty() ? reached : std::min(reached, ReachedBy(outgoing_, value_of));
  }
  // Whether those of whom agrees(member) is true decide.
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

// The answers to one candidate's request. Each voter's first answer counts.
class VoteTally {
 public:
  // REQUIRES: at least one voter.
  explicit VoteTally(Membership membership);

  // An answer of one that is not a voter is not counted. A grant that is not `reliable` (it comes
  // from a new member) helps only if the whole membership is of one mind.
  void Record(MemberId voter, bool granted, bool reliable = true);
  VoteOutcome outcome() const;
  // Every voter granted.
  bool unanimous() const;
  // A quorum granted, without those whose grants are not reliable.
  bool has_quorum() const;

 private:
  enum class Answer : uint8_t { kUnreliableGrant, kGrant, kRejection };

  Membership membership_;
  std::map<MemberId, Answer> answers_;
};

}  // namespace quorate::consensus
