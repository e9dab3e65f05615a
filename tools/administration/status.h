// `quorate status` and `quorate members`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

// `command_line` must outlive the commands.
void AddStatusCommands(CommandLine* command_line);

}  // namespace quorate::tools
