// Completes a word of a shell command within a command line of `quorate`.
#pragma once

#include <string>
#include <vector>

namespace quorate::tools {

// Returns the candidates for the word behind `words` that begins with `last`, with a backslash
// before each space, quote or backslash. To complete a path, opens a session with `servers` for a
// moment; without servers, or if none answers at once, there are no candidates.
std::vector<std::string> ShellWordCandidates(const std::string& servers,
                                             const std::vector<std::string>& words,
                                             const std::string& last);

}  // namespace quorate::tools
