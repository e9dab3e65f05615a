// SPDX-License-Identifier: Apache-2.0

// Completion by Tab of commands, their options, and paths of znodes.
//
// Thread-safety: that of the shell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/shell/shell.h"

namespace quorate::tools::shell {

struct Candidate {
  // The text that replaces the typed word, with a backslash before each space, quote or backslash.
  std::string word;
  // The text in a list of candidates.
  std::string label;
};

struct Completion {
  // The offset of the word that is being typed.
  size_t word_begin = 0;
  // The candidates, sorted.
  std::vector<Candidate> candidates;
  // The character that is appended if there is only one candidate.
  char suffix = ' ';
};

// Returns the candidates for the last word of the line, which is typed up to its end.
Completion Complete(Shell& shell, const std::string& line);

}  // namespace quorate::tools::shell
