// SPDX-License-Identifier: Apache-2.0

// `quorate member`: adds, removes, replaces, promotes, demotes and moves members while the cluster
// serves.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "rpc/config/server_line.h"
#include "rpc/proto/quorate/v1/cluster.pb.h"
#include "tools/cli/command_line.h"

namespace quorate::tools {

// Returns the members of `members` by their numbers. FailedPrecondition, which names the member, if
// the leader does not know the addresses of one.
absl::StatusOr<rpc::ServerLines> LinesOf(const v1::MembersResponse& members);

// Returns what `quorate member status` prints of this answer of the leader.
std::string ChangeReport(const v1::MemberChange& change);

void AddMemberCommands(CommandLine* command_line);

}  // namespace quorate::tools
