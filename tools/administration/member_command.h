// SPDX-License-Identifier: Apache-2.0

// `quorate member`: adds, removes, replaces, promotes, demotes and moves members while the cluster
// serves.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/config/server_line.h"
#include "rpc/proto/quorate/v1/cluster.pb.h"
#include "tools/cli/command_line.h"

namespace quorate::tools {

// What shall be done with one member.
struct MemberChange {
  enum class Kind : uint8_t { kAdd, kRemove, kPromote, kDemote, kMove, kReplace };
  Kind kind = Kind::kAdd;
  uint32_t id = 0;
  std::string server_line;  // of kAdd and kMove, and of the new member of kReplace
  uint32_t new_id = 0;      // of the member that takes the place, of kReplace
};

// Returns the members of `members` by their numbers. FailedPrecondition, which names the member, if
// the leader does not know the addresses of one.
absl::StatusOr<rpc::ServerLines> LinesOf(const v1::MembersResponse& members);

// Returns the members after the next step of a change, or the same members if none is left. A member
// gets its vote in a second step, once it has caught up as an observer; one that it replaces leaves in
// the same step. Errors: InvalidArgument if
// the line is malformed; NotFound if there is no such member; AlreadyExists if another member, or a
// member with other addresses, has this number.
absl::StatusOr<rpc::ServerLines> NextStep(const MemberChange& change, const rpc::ServerLines& now);

// Returns what `quorate member status` prints of this answer of the leader.
std::string ChangeReport(const v1::MemberChange& change);

void AddMemberCommands(CommandLine* command_line);

}  // namespace quorate::tools
