// SPDX-License-Identifier: Apache-2.0

// `quorate lock` and `quorate elect`: run a command under a lock, or on the leader only.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

void AddLockCommand(CommandLine* command_line);
void AddElectCommand(CommandLine* command_line);

}  // namespace quorate::tools
