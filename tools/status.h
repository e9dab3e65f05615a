// `quorate status` and `quorate members`.
#pragma once

#include "tools/command_line.h"

namespace quorate::tools {

// `command_line` outlives what it runs.
void AddStatusCommands(CommandLine* command_line);

}  // namespace quorate::tools
