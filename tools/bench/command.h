// `quorate bench`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools::bench {

// `command_line` must outlive the command.
void AddBenchCommand(CommandLine* command_line);

}  // namespace quorate::tools::bench
