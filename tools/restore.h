// `quorate restore`.
#pragma once

#include "tools/command_line.h"

namespace quorate::tools {

// `command_line` outlives what it runs.
void AddRestoreCommand(CommandLine* command_line);

}  // namespace quorate::tools
