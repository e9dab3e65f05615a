// The subcommands of `quorate` that work on the directories of stopped members.
#pragma once

#include "tools/command_line.h"

namespace quorate::tools {

// verify, log dump, snapshot dump, snapshot diff, rebuild. `command_line` must outlive what they
// do, which is in its Run.
void AddOfflineCommands(CommandLine* command_line);

}  // namespace quorate::tools
