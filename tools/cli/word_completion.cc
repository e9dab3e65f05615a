// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/word_completion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quorate::tools {
namespace {

const CLI::Option* FindOption(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      if (option->nonpositional() && option->check_name(name)) return option;
    }
  }
  return nullptr;
}

const CLI::App* FindCommand(const CLI::App& parent, const std::string& name) {
  for (const CLI::App* command : parent.get_subcommands(nullptr)) {
    if (!name.empty() && command->get_name() == name) return command;
  }
  return nullptr;
}

void AddOptions(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names->push_back("--" + name);
  }
}

}  // namespace

TypedWords SplitTyped(const std::string& line) {
  TypedWords typed;
  std::string word;
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word += line[++i];
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ' ' || c == '\t') {
      if (!word.empty()) typed.words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  if (!typed.words.empty()) {
    typed.words.erase(typed.words.begin());  // the name of the program
    typed.last = word;
  }
  return typed;
}

TypedPlace PlaceOf(const CLI::App& root, const std::vector<std::string>& words) {
  TypedPlace place;
  place.command = &root;
  for (const std::string& word : words) {
    if (place.value_of != nullptr) {
      place.value_of = nullptr;
    } else if (word == "--" && !place.is_behind_dashes) {
      place.is_behind_dashes = true;
    } else if (absl::StartsWith(word, "-") && !place.is_behind_dashes) {
      const CLI::Option* option = FindOption(*place.command, word);
      const bool takes_next = option != nullptr && option->get_expected_min() > 0 &&
                              option->get_items_expected_min() > 0 && !absl::StrContains(word, "=");
      if (takes_next) place.value_of = option;
    } else if (const CLI::App* command = FindCommand(*place.command, word);
               command != nullptr && place.arguments.empty() && !place.is_behind_dashes) {
      place.command = command;
    } else if (place.command != &root || word != "help") {
      place.arguments.push_back(word);
    }
  }
  return place;
}

std::vector<std::string> NamesAt(const CLI::App& root, const TypedPlace& place,
                                 const std::string& last) {
  std::vector<std::string> names;
  if (place.value_of != nullptr || place.is_behind_dashes) return names;
  if (absl::StartsWith(last, "-")) {
    AddOptions(*place.command, &names);
    if (place.command != &root) AddOptions(root, &names);
  } else if (place.arguments.empty()) {
    for (const CLI::App* command : place.command->get_subcommands(nullptr)) {
      // Commands without a name or a group are hidden.
      if (!command->get_name().empty() && !command->get_group().empty()) {
        names.push_back(command->get_name());
      }
    }
    if (place.command == &root) names.push_back("help");
  }
  std::erase_if(names, [&](const std::string& name) { return !absl::StartsWith(name, last); });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string BashCompletionScript() {
  return R"(# Completion of quorate in bash. To use it in this shell:
#   source <(quorate completion bash)
# and in all shells of this machine:
#   quorate completion bash >/usr/share/bash-completion/completions/quorate
_quorate() {
  local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} one
  COMPREPLY=()
  while IFS= read -r one; do
    COMPREPLY+=("$one")
  done < <("${COMP_WORDS[0]}" completion words "$line" 2>/dev/null)
  # More of a path may follow.
  if [[ $word == /* ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o bashdefault -o default -F _quorate quorate
)";
}

std::string ZshCompletionScript() {
  return R"(#compdef quorate
# Completion of quorate in zsh. To use it in this shell:
#   source <(quorate completion zsh)
# and in all shells of this machine:
#   quorate completion zsh >/usr/share/zsh/vendor-completions/_quorate
_quorate() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" completion words "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
  candidates=(${candidates:#})
  if (( ! $#candidates )); then
    _files
  elif [[ $PREFIX == /* ]]; then
    compadd -S '' -a candidates  # more of a path may follow
  else
    compadd -a candidates
  fi
}
# The file of a completion function calls it; a script that is sourced registers it.
if [[ $funcstack[1] == _quorate ]]; then _quorate "$@"; else compdef _quorate quorate; fi
)";
}

std::string FishCompletionScript() {
  return R"(# Completion of quorate in fish. To use it in this shell:
#   quorate completion fish | source
# and in all shells of this machine:
#   quorate completion fish >/usr/share/fish/vendor_completions.d/quorate.fish
function __quorate_candidates
  set -l typed (commandline --cut-at-cursor --current-process)
  quorate completion words "$typed" 2>/dev/null
end
complete --command quorate --arguments '(__quorate_candidates)'
)";
}

}  // namespace quorate::tools
