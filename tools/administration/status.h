// SPDX-License-Identifier: Apache-2.0

// `quorate status` and `quorate members`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

// Adds the commands to `command_line`, which must outlive them.
void AddStatusCommands(CommandLine* command_line);

}  // namespace quorate::tools
