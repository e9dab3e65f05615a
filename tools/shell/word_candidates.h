// SPDX-License-Identifier: Apache-2.0

// Completes a word of a shell command in a command line of `quorate`.
#pragma once

#include <string>
#include <vector>

#include "client/tls.h"

namespace quorate::tools {

// Returns the candidates for the word that follows `words` and begins with `last`, with a backslash
// before each space, quote or backslash. To complete a path, opens a short session with `servers`.
// Without servers, or if none answers at once, there are no candidates.
std::vector<std::string> ShellWordCandidates(const std::string& servers, const TlsOptions& tls,
                                             const std::vector<std::string>& words,
                                             const std::string& last);

}  // namespace quorate::tools
