// SPDX-License-Identifier: Apache-2.0

// `quorate rolling-restart`: restarts all servers of a cluster, one after the other, while it
// serves.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/cluster.pb.h"
#include "tools/cli/command_line.h"

namespace quorate::tools {

// Returns the order in which members are restarted: observers, then followers, ascending by number,
// and the leader last, so that leadership moves once. REQUIRES: the leader has answered.
std::vector<uint32_t> RestartOrder(const v1::MembersResponse& members);

// Checks that the cluster continues to serve while `member` is down: that a majority of the voters,
// without it, is reachable and in sync. REQUIRES: the leader has answered. Errors:
// FailedPrecondition, naming the missing members.
absl::Status CheckRestartIsSafe(const v1::MembersResponse& members, uint32_t member);

void AddRollingRestartCommand(CommandLine* command_line);

}  // namespace quorate::tools
