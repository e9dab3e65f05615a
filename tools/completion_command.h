// `quorate completion bash`: what makes bash complete command lines of `quorate`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/command_line.h"

namespace quorate::tools {

// Candidates for the last word of a command of the shell, paths of znodes among them: of the
// servers, the words before it, and what is typed of it.
using ShellCompleter = std::function<std::vector<std::string>(
    const std::string& servers, const std::vector<std::string>& words, const std::string& last)>;

// Added last: it knows the commands that were added before.
void AddCompletionCommand(CommandLine* command_line, ShellCompleter complete_shell);

}  // namespace quorate::tools
