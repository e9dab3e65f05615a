// SPDX-License-Identifier: Apache-2.0

// `quorate watch`: prints changes of znodes as they happen, or runs a command for each.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

void AddWatchCommand(CommandLine* command_line);

}  // namespace quorate::tools
