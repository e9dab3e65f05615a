// What a shell offers for a word of a `quorate` command line that is being typed.
//
// Thread-safety: functions without state.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace quorate::tools {

// Words of a command line behind the name of the program, as far as it is typed.
struct TypedWords {
  // Complete ones.
  std::vector<std::string> words;
  // The one that is being typed; may be empty.
  std::string last;
};

// Splits what is typed up to the cursor, the name of the program with it: by spaces, but for those
// behind a backslash or within quotes.
TypedWords SplitTyped(const std::string& line);

// Where in the tree of commands the last word is.
struct TypedPlace {
  const CLI::App* command = nullptr;
  // The option whose value it is; null: it is none.
  const CLI::Option* value_of = nullptr;
  // Positional words before it that are arguments of `command`.
  std::vector<std::string> arguments;
  // Whether "--" is before it.
  bool is_behind_dashes = false;
};

TypedPlace PlaceOf(const CLI::App& root, const std::vector<std::string>& words);

// The names of subcommands and options that may stand at `place` and begin with `last`, in order;
// none for a value or an argument.
std::vector<std::string> NamesAt(const CLI::App& root, const TypedPlace& place,
                                 const std::string& last);

// The script that makes bash ask `quorate completion words` for each word. For its standard input.
std::string BashCompletionScript();

}  // namespace quorate::tools
