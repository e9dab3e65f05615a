// Completion of a command of the shell within a command line of `quorate`.
#pragma once

#include <string>
#include <vector>

namespace quorate::tools {

// What the word behind `words` can be that begins with `last`, with a backslash before each space,
// quote or backslash. For a path a session is opened with `servers`, for a moment; without servers,
// or if none answers at once, there is no candidate.
std::vector<std::string> ShellWordCandidates(const std::string& servers,
                                             const std::vector<std::string>& words,
                                             const std::string& last);

}  // namespace quorate::tools
