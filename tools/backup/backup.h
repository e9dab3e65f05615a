// `quorate backup`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

// `command_line` must outlive the command.
void AddBackupCommand(CommandLine* command_line);

}  // namespace quorate::tools
