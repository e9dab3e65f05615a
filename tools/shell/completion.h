// What Tab completes: commands, their options, and paths of znodes.
//
// Thread-safety: as the shell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/shell/shell.h"

namespace quorate::tools::shell {

struct Candidate {
  // In place of the word, as it is typed: a backslash before each space, quote or backslash.
  std::string word;
  // In a list of candidates.
  std::string label;
};

struct Completion {
  // Where the word begins that is being typed.
  size_t word_begin = 0;
  // In order.
  std::vector<Candidate> candidates;
  // What follows if there is one candidate.
  char suffix = ' ';
};

// What may be meant by a line that is typed up to its end.
Completion Complete(Shell& shell, const std::string& line);

}  // namespace quorate::tools::shell
