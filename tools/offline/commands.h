// SPDX-License-Identifier: Apache-2.0

// The subcommands of `quorate` that work on the directories of stopped members.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

// Adds verify, log dump, snapshot dump, snapshot diff and rebuild. `command_line` must outlive the
// commands.
void AddOfflineCommands(CommandLine* command_line);

}  // namespace quorate::tools
