// SPDX-License-Identifier: Apache-2.0

// `quorate slow`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

// Adds the command to `command_line`, which must outlive it.
void AddSlowCommand(CommandLine* command_line);

}  // namespace quorate::tools
