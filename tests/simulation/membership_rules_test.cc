// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/membership_rules.h"

#include <catch2/catch.hpp>
#include <set>

namespace quorate::simulation {
namespace {

using consensus::MemberId;
using consensus::Membership;

Membership Voters(std::vector<uint32_t> voters, std::vector<uint32_t> outgoing = {}) {
  Membership membership;
  for (uint32_t voter : voters) membership.voters.emplace_back(voter);
  for (uint32_t voter : outgoing) membership.outgoing.emplace_back(voter);
  return membership;
}

bool Decide(const Membership& membership, const std::set<uint32_t>& members) {
  return Decides(membership, [&](MemberId member) { return members.contains(member.value()); });
}

TEST_CASE("a majority of the voters decides, and half of them does not") {
  CHECK(Decide(Voters({1, 2, 3}), {1, 3}));
  CHECK_FALSE(Decide(Voters({1, 2, 3}), {2, 4, 5}));
  CHECK_FALSE(Decide(Voters({1, 2, 3, 4}), {1, 2}));
}

TEST_CASE("a joint membership needs a majority of both sets") {
  const Membership joint = Voters({3, 4, 5}, {1, 2, 3});
  CHECK(Decide(joint, {2, 3, 4}));
  CHECK_FALSE(Decide(joint, {3, 4, 5}));
  CHECK_FALSE(Decide(joint, {1, 2, 3}));
}

TEST_CASE("memberships intersect if no two deciding sets are disjoint") {
  CHECK(Intersect(Voters({1, 2, 3}), Voters({1, 2, 3})));
  CHECK(Intersect(Voters({1, 2, 3}), Voters({1, 2, 3, 4})));
  CHECK_FALSE(Intersect(Voters({1, 2, 3}), Voters({1, 2, 3, 4, 5})));
  CHECK_FALSE(Intersect(Voters({1}), Voters({2})));
}

TEST_CASE("a joint membership intersects both of those that it joins") {
  const Membership joint = Voters({3, 4, 5}, {1, 2, 3});
  CHECK(Intersect(joint, Voters({1, 2, 3})));
  CHECK(Intersect(joint, Voters({3, 4, 5})));
  CHECK(Intersect(joint, joint));
  CHECK_FALSE(Intersect(Voters({1, 2, 3}), Voters({3, 4, 5})));
}

}  // namespace
}  // namespace quorate::simulation
