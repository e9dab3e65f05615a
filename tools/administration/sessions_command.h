// SPDX-License-Identifier: Apache-2.0

// `quorate sessions`: lists, shows and closes sessions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/proto/quorate/v1/cluster.pb.h"
#include "tools/cli/command_line.h"

namespace quorate::tools {

// Returns the id of a session from its text: hexadecimal, as logs show it, with or without 0x.
// InvalidArgument if it is none.
absl::StatusOr<int64_t> ParseSessionId(const std::string& text);

// Adds to `sessions`, which are in ascending order of their ids, the clients that `others` know. Any
// member knows all sessions, and only the one that serves a client knows that client.
void AddClients(const std::vector<v1::Session>& others, std::vector<v1::Session>* sessions);

void AddSessionsCommands(CommandLine* command_line);

}  // namespace quorate::tools
