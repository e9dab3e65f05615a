// SPDX-License-Identifier: Apache-2.0

// `quorate certs create`, `client` and `show`: makes the certificates of a cluster for TLS, and
// shows what is in a store.
#pragma once

#include "tools/cli/command_line.h"

namespace quorate::tools {

void AddCertsCommands(CommandLine* command_line);

}  // namespace quorate::tools
