// SPDX-License-Identifier: Apache-2.0

// Finds the candidates that a shell such as bash offers for the last word of a `quorate` command line.
//
// Thread-safety: functions without state.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace quorate::tools {

// The typed words of a command line, without the name of the program.
struct TypedWords {
  // The words before the last one.
  std::vector<std::string> words;
  // The word that is being typed; may be empty.
  std::string last;
};

// Splits the line up to the cursor, which begins with the name of the program, at spaces that are
// neither behind a backslash nor within quotes.
TypedWords SplitTyped(const std::string& line);

// The position of the last word in the tree of commands.
struct TypedPlace {
  const CLI::App* command = nullptr;
  // The option whose value the word is; null if it is not a value.
  const CLI::Option* value_of = nullptr;
  // Positional words before it that are arguments of `command`.
  std::vector<std::string> arguments;
  // Whether "--" is before it.
  bool is_behind_dashes = false;
};

TypedPlace PlaceOf(const CLI::App& root, const std::vector<std::string>& words);

// Returns the names of subcommands and options that are possible at `place` and begin with `last`,
// in order; empty if the word is a value or an argument.
std::vector<std::string> NamesAt(const CLI::App& root, const TypedPlace& place,
                                 const std::string& last);

// Each returns the script by which a shell calls `quorate completion words` for each word.
std::string BashCompletionScript();
std::string ZshCompletionScript();
std::string FishCompletionScript();

}  // namespace quorate::tools
