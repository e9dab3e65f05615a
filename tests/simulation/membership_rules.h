// SPDX-License-Identifier: Apache-2.0

// What a membership decides, for the checker. Written without consensus/core/quorum.h, so that a
// mistake there is found.
//
// Thread-safety: functions without state.
#pragma once

#include <functional>

#include "consensus/core/types.h"

namespace quorate::simulation {

// Whether the members for which `agrees` is true are a majority of the voters and, in a joint
// membership, also a majority of the outgoing voters.
bool Decides(const consensus::Membership& membership,
             const std::function<bool(consensus::MemberId)>& agrees);

// Whether every set of members that decides in `a` shares a member with every set that decides in
// `b`. Exponential in the number of voters of both. REQUIRES: at most 20 of them.
bool Intersect(const consensus::Membership& a, const consensus::Membership& b);

}  // namespace quorate::simulation
