// SPDX-License-Identifier: Apache-2.0

// `quorate import` and `quorate export`: conversion from ZooKeeper and back.
//
// Thread-safety: the functions are called on main's thread.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools::zookeeper {

// Adds the subcommands; `command_line` must outlive them.
void AddImportCommand(CommandLine* command_line);
void AddExportCommand(CommandLine* command_line);

}  // namespace quorate::tools::zookeeper
