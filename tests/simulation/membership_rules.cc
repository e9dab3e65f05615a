// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/membership_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace quorate::simulation {
namespace {

using consensus::MemberId;
using consensus::Membership;

constexpr size_t kVotersMax = 20;

bool IsMajority(const std::vector<MemberId>& voters, const std::function<bool(MemberId)>& agrees) {
  const auto count = std::count_if(voters.begin(), voters.end(), agrees);
  return static_cast<size_t>(count) * 2 > voters.size();
}

}  // namespace

bool Decides(const Membership& membership, const std::function<bool(MemberId)>& agrees) {
  if (!IsMajority(membership.voters, agrees)) return false;
  return membership.outgoing.empty() || IsMajority(membership.outgoing, agrees);
}

bool Intersect(const Membership& a, const Membership& b) {
  std::vector<MemberId> voters;
  for (const Membership* membership : {&a, &b}) {
    for (const std::vector<MemberId>* set : {&membership->voters, &membership->outgoing}) {
      voters.insert(voters.end(), set->begin(), set->end());
    }
  }
  std::sort(voters.begin(), voters.end());
  voters.erase(std::unique(voters.begin(), voters.end()), voters.end());
  ASSERT(voters.size() <= kVotersMax);
  // Two deciding sets without a common member exist if and only if some set and its complement do.
  for (uint64_t set = 0; set < uint64_t{1} << voters.size(); ++set) {
    const auto is_in = [&](MemberId member) {
      const auto place = std::lower_bound(voters.begin(), voters.end(), member) - voters.begin();
      return (set >> place & 1) != 0;
    };
    if (Decides(a, is_in) && Decides(b, [&](MemberId member) { return !is_in(member); })) {
      return false;
    }
  }
  return true;
}

}  // namespace quorate::simulation
