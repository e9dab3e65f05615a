// SPDX-License-Identifier: Apache-2.0

// `quorate completion bash`, `zsh` and `fish`: let these shells complete command lines of `quorate`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"

namespace quorate::tools {

// Returns the candidates for the last word of a shell command, among them paths of znodes, from the
// servers, how to connect to them, the words before it, and the typed part of it.
using ShellCompleter = std::function<std::vector<std::string>(
    const std::string& servers, const TlsOptions& tls, const std::vector<std::string>& words,
    const std::string& last)>;

// Adds the command. REQUIRES: all other commands were added before, because it completes them.
void AddCompletionCommand(CommandLine* command_line, ShellCompleter complete_shell);

}  // namespace quorate::tools
