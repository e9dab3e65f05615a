// SPDX-License-Identifier: Apache-2.0

// `quorate sessions`: lists, shows and closes sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// Removes the sessions beyond the last one of a page that has more: its member has not told of their
// clients. Returns whether there were any. Keeps all of them if none would be left.
bool CutTo(const v1::ListSessionsResponse& page, std::vector<v1::Session>* sessions);

// Closes a session at the first of `addresses` that serves; `close` asks one, and returns whether that
// has closed it. NotFound, unless this was closed: there is no such session; the message tells of a
// server that did not answer, and may have closed it. Otherwise the error of the last server, or of
// the first one that refuses the call for another reason than that it does not serve in time.
absl::Status CloseAtAny(const std::vector<std::string>& addresses, int64_t id,
                        const std::function<absl::StatusOr<bool>(const std::string&)>& close);

void AddSessionsCommands(CommandLine* command_line);

}  // namespace quorate::tools
