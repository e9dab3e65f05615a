// SPDX-License-Identifier: Apache-2.0

// `quorate bench`.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools::bench {

// Adds the command to `command_line`, which must outlive it.
void AddBenchCommand(CommandLine* command_line);

}  // namespace quorate::tools::bench
