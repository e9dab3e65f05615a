#include "consensus/core/quorum.h"

#include <catch2/catch.hpp>
#include <vector>

#include "consensus/core/test_member.h"

namespace quorate::consensus {
namespace {

TEST_CASE("a majority is the least number of which any two groups overlap") {
  for (size_t voters = 1; voters <= 254; ++voters) {
    CHECK(2 * MajorityOf(voters) > voters);
    CHECK(2 * (MajorityOf(voters) - 1) <= voters);
  }
}

TEST_CASE("what a majority reached is the largest value that enough voters reached") {
  TestRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<Index> values;
    for (uint64_t n = 1 + random.Below(9); n > 0; --n) values.push_back(Index{random.Below(6)});
    // By definition, without sorting.
    Index expected{0};
    for (Index candidate : values) {
      size_t reached = 0;
      for (Index value : values) reached += value >= candidate ? 1 : 0;
      if (reached >= MajorityOf(values.size())) expected = std::max(expected, candidate);
    }
    std::vector<Index> scratch = values;
    CHECK(ReachedByMajority<Index>(scratch) == expected);
  }
}

TEST_CASE("an election is won or lost as soon as nothing can change that") {
  const std::vector<MemberId> voters = {MemberId{1}, MemberId{2}, MemberId{3}, MemberId{4}};
  VoteTally tally(voters);
  tally.Record(MemberId{1}, true);
  tally.Record(MemberId{2}, true);
  CHECK(tally.outcome() == VoteOutcome::kPending);
  // Not a voter; and not twice.
  tally.Record(MemberId{9}, true);
  tally.Record(MemberId{2}, true);
  tally.Record(MemberId{2}, false);
  CHECK(tally.outcome() == VoteOutcome::kPending);
  VoteTally lost = tally;
  tally.Record(MemberId{3}, true);
  CHECK(tally.outcome() == VoteOutcome::kWon);
  lost.Record(MemberId{3}, false);
  CHECK(lost.outcome() == VoteOutcome::kPending);
  lost.Record(MemberId{4}, false);
  CHECK(lost.outcome() == VoteOutcome::kLost);
}

}  // namespace
}  // namespace quorate::consensus
