// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/quorum.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

TEST_CASE("MajorityOf is the smallest size for which any two groups overlap") {
  for (size_t voters = 1; voters <= 254; ++voters) {
    CHECK(2 * MajorityOf(voters) > voters);
    CHECK(2 * (MajorityOf(voters) - 1) <= voters);
  }
}

TEST_CASE("ReachedByMajority returns the largest value that enough voters reached") {
  TestRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<Index> values;
    for (uint64_t n = 1 + random.Below(9); n > 0; --n) values.push_back(Index{random.Below(6)});
    // Computes the value by its definition, without sorting.
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

TEST_CASE("during a change both the new and the old voters must decide") {
  const Membership joint{
      {MemberId{1}, MemberId{4}, MemberId{5}}, {}, {MemberId{1}, MemberId{2}, MemberId{3}}, {}};
  auto reached = [&](std::map<uint32_t, uint64_t> matches) {
    return Quorum(joint).Reached([&](MemberId m) { return Index{matches[m.value()]}; });
  };
  CHECK(reached({{1, 9}, {4, 9}, {5, 9}}) == Index{0});
  CHECK(reached({{1, 9}, {2, 9}, {3, 9}}) == Index{0});
  CHECK(reached({{1, 9}, {2, 7}, {4, 8}}) == Index{7});
  CHECK(reached({{2, 5}, {3, 6}, {4, 8}, {5, 8}}) == Index{5});
  CHECK(Quorum(joint).Has([](MemberId m) { return m.value() != 1 && m.value() != 5; }) == false);
  VoteTally tally(joint);
  for (uint32_t voter : {1, 4, 5}) tally.Record(MemberId{voter}, true);
  CHECK(tally.outcome() == VoteOutcome::kPending);
  VoteTally lost = tally;
  tally.Record(MemberId{3}, true);
  CHECK(tally.outcome() == VoteOutcome::kWon);
  lost.Record(MemberId{2}, false);
  lost.Record(MemberId{3}, false);
  CHECK(lost.outcome() == VoteOutcome::kLost);
}

TEST_CASE("grants of new members count only if all voters grant") {
  VoteTally tally(Membership{{MemberId{1}, MemberId{2}, MemberId{3}}, {}, {}, {}});
  tally.Record(MemberId{1}, true);
  tally.Record(MemberId{2}, true, /*reliable=*/false);
  CHECK(tally.outcome() == VoteOutcome::kPending);
  VoteTally refused = tally;
  refused.Record(MemberId{3}, false);
  CHECK(refused.outcome() == VoteOutcome::kLost);
  tally.Record(MemberId{3}, true, /*reliable=*/false);
  CHECK(tally.unanimous());
  CHECK(tally.outcome() == VoteOutcome::kWon);
}

TEST_CASE("an election is won or lost as soon as no further answer can change that") {
  const Membership membership{{MemberId{1}, MemberId{2}, MemberId{3}, MemberId{4}}, {}, {}, {}};
  VoteTally tally(membership);
  tally.Record(MemberId{1}, true);
  tally.Record(MemberId{2}, true);
  CHECK(tally.outcome() == VoteOutcome::kPending);
  // Member 9 is not a voter, and member 2 votes twice.
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
