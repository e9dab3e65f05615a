// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/completion_command.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "tools/cli/word_completion.h"

namespace quorate::tools {
namespace {

// Returns the servers that a command line names, or `otherwise` if it names none.
std::string ServersIn(const std::vector<std::string>& words, const std::string& otherwise) {
  constexpr char kWithValue[] = "--server=";
  for (size_t i = 0; i < words.size(); ++i) {
    if (absl::StartsWith(words[i], kWithValue)) return words[i].substr(sizeof(kWithValue) - 1);
    if (words[i] == "--server" && i + 1 < words.size()) return words[i + 1];
  }
  return otherwise;
}

// Returns the words of an equivalent shell command before its last one; empty if the last word is
// neither a path nor part of a shell command.
std::vector<std::string> ShellWords(const TypedPlace& place, const std::string& last) {
  const std::string name = place.command->get_name();
  if (name == "shell") return place.arguments;
  const bool takes_path = name == "watch" || name == "lock" || name == "elect";
  if (takes_path && place.arguments.empty() && absl::StartsWith(last, "/")) return {"stat"};
  return {};
}

std::vector<std::string> CandidatesFor(const CLI::App& root, const std::string& line,
                                       const GlobalOptions& global,
                                       const ShellCompleter& complete_shell) {
  const TypedWords typed = SplitTyped(line);
  const TypedPlace place = PlaceOf(root, typed.words);
  if (place.value_of != nullptr) return {};
  std::vector<std::string> candidates = NamesAt(root, place, typed.last);
  const std::vector<std::string> words = ShellWords(place, typed.last);
  const bool is_shell = place.command->get_name() == "shell";
  if (!words.empty() || is_shell) {
    const auto more =
        complete_shell(ServersIn(typed.words, global.servers), global.tls, words, typed.last);
    candidates.insert(candidates.end(), more.begin(), more.end());
  }
  return candidates;
}

void PrintScript(const std::string& script, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"script", script}}.dump() << "\n";
  } else {
    std::cout << script;
  }
}

// A shell for which there is a script.
struct ScriptedShell {
  const char* name;
  std::string (*script)();
  // How to use the script in one shell, and in all shells of a machine.
  const char* footer;
};

constexpr ScriptedShell kShells[] = {
    {"bash", BashCompletionScript,
     "    source <(quorate completion bash)                 in this shell\n"
     "    quorate completion bash >/usr/share/bash-completion/completions/quorate\n\n"},
    {"zsh", ZshCompletionScript,
     "    source <(quorate completion zsh)                  in this shell\n"
     "    quorate completion zsh >/usr/share/zsh/vendor-completions/_quorate\n\n"},
    {"fish", FishCompletionScript,
     "    quorate completion fish | source                  in this shell\n"
     "    quorate completion fish >/usr/share/fish/vendor_completions.d/quorate.fish\n\n"},
};

void PrintCandidates(const std::vector<std::string>& candidates, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"candidates", candidates}}.dump() << "\n";
    return;
  }
  for (const std::string& candidate : candidates) std::cout << candidate << "\n";
}

}  // namespace

void AddCompletionCommand(CommandLine* command_line, ShellCompleter complete_shell) {
  CLI::App* group = command_line->AddGroup(
      "completion", "Complete commands, options and paths of znodes in an interactive shell");
  for (const ScriptedShell& shell : kShells) {
    command_line
        ->Add(group, shell.name, std::string("Print the script for ") + shell.name,
              [command_line, &shell] {
                PrintScript(shell.script(), command_line->global().json);
                return absl::OkStatus();
              })
        ->footer(std::string(shell.footer) +
                 "Paths of znodes are completed if --server, QUORATE_SERVER or a file of defaults "
                 "names the\nservers.");
  }
  auto line = std::make_shared<std::string>();
  CLI::App* words = command_line->Add(
      group, "words", "Print the candidates for the last word of a command line",
      [command_line, line, complete_shell = std::move(complete_shell)] {
        const GlobalOptions& global = command_line->global();
        PrintCandidates(CandidatesFor(*command_line->root(), *line, global, complete_shell),
                        global.json);
        return absl::OkStatus();
      });
  words->add_option("line", *line, "The command line up to the cursor")->required();
  words->group("");  // hidden: only the scripts run this command
}

}  // namespace quorate::tools
