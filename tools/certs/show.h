// SPDX-License-Identifier: Apache-2.0

// `quorate certs show`: the certificates in a store of any kind that servers can use.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

void AddShowCommand(CommandLine* command_line, CLI::App* group);

}  // namespace quorate::tools
