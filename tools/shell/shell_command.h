// SPDX-License-Identifier: Apache-2.0

// `quorate shell`: commands on znodes, typed, from a script, or one on the command line.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

void AddShellCommand(CommandLine* command_line);

}  // namespace quorate::tools
