// `quorate import` and `quorate export`: the way from ZooKeeper and back.
//
// Thread-safety: main's.
#pragma once

#include "tools/command_line.h"

namespace quorate::tools::zookeeper {

// Adds the subcommands; `command_line` outlives what they do.
void AddImportCommand(CommandLine* command_line);
void AddExportCommand(CommandLine* command_line);

}  // namespace quorate::tools::zookeeper
