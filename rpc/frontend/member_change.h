// SPDX-License-Identifier: Apache-2.0

// Changes of members, step by step, and whether the cluster can take one now: what `quorate member` and
// the web console share.
//
// Thread-safety: values, and functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/config/server_line.h"
#include "rpc/frontend/administration.h"

namespace quorate::rpc {

// What shall be done with one member.
struct MemberChange {
  enum class Kind : uint8_t { kAdd, kRemove, kPromote, kDemote, kMove, kReplace };
  Kind kind = Kind::kAdd;
  uint32_t id = 0;
  std::string server_line{};  // of kAdd and kMove, and of the new member of kReplace
  uint32_t new_id = 0;        // of the member that takes the place, of kReplace
};

// Returns the members after the next step of a change, or the same members if none is left. A member
// gets its vote in a second step, once it has caught up as an observer; one that it replaces leaves in
// the same step. Errors: InvalidArgument if the line is malformed, or has another role than the member that
// is replaced; NotFound if there is no such member; AlreadyExists if another member, or a member with
// other addresses, has this number, or the member that shall replace another one has a vote.
absl::StatusOr<ServerLines> NextStep(const MemberChange& change, const ServerLines& now);

// Returns the members of `view` by their numbers. FailedPrecondition, which names the member, if the
// addresses of one are not known.
absl::StatusOr<ServerLines> LinesOf(const ClusterView& view);

// Returns why the voters of `next` would not have a majority that has all entries, or why the change would
// take the leader its vote; empty if neither is so. `view` is that of the leader.
std::string ReasonNotToChange(const ClusterView& view, const ServerLines& next);

}  // namespace quorate::rpc
