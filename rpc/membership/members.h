// SPDX-License-Identifier: Apache-2.0

// The members of a cluster with their addresses: how the membership in the log holds them, and how
// the tree shows them. The address of a member in a consensus::Membership is the value of its
// server.N line (rpc/config/server_line.h).
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "consensus/core/types.h"
#include "rpc/config/server_line.h"
#include "tree/tree.h"

namespace quorate::rpc {

// Returns the members of `membership` with their addresses: those in the membership, or, for a
// member without one, those of the configuration. A member with neither is left out. The roles are
// those of the membership; a voter that is leaving is a participant.
ServerLines MembersOf(const consensus::Membership& membership, const ServerLines& configured);

// Returns the membership that has these members and addresses. InvalidArgument, which names the
// members, if two of them have the same address, if one lacks a port or has a host at which others
// cannot reach it (0.0.0.0, for example), or if none has a vote.
absl::StatusOr<consensus::Membership> MembershipOf(const ServerLines& members);

// Returns what has to be done to the members `now` to make them `next`, as text; empty if nothing has.
std::string ChangeText(const ServerLines& now, const ServerLines& next);

// Applies an entry that is no command to the tree: one with a new membership changes
// /zookeeper/config, unless it is the first half of a change, or the membership has no addresses.
// Any other entry is skipped. REQUIRES: the payload is valid (consensus::ValidateControl), and zxid >
// tree->last_zxid().
void ApplyControl(consensus::EntryKind kind, std::string_view payload, tree::Zxid zxid,
                  tree::Tree* tree, tree::ApplyListener* listener);

}  // namespace quorate::rpc
