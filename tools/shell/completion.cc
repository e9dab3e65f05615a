// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/completion.h"

#include <algorithm>
#include <utility>

#include "tools/shell/walk.h"

namespace quorate::tools::shell {
namespace {

// The time limit of a completion.
constexpr int kDeadlineMs = 2000;

// Returns the offset of the last word, which follows the last space that has no backslash before
// it.
size_t LastWordBegin(const std::string& line) {
  size_t begin = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == ' ' || line[i] == '\t') {
      begin = i + 1;
    }
  }
  return begin;
}

std::string Quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == ' ' || c == '\\' || c == '"' || c == '\'') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

void AddIfItFits(const std::string& word, const std::string& typed, Completion* completion) {
  if (word.starts_with(typed)) completion->candidates.push_back({word, word});
}

void AddPaths(Shell& shell, const std::string& typed, Completion* completion) {
  if (!shell.is_connected() || !typed.starts_with("/")) return;
  const std::string parent = ParentPath(typed);
  const std::string name = typed.substr(typed.rfind('/') + 1);
  auto list = shell.client().List(parent, {.deadline_ms = kDeadlineMs});
  if (!list.ok()) return;
  for (const std::string& child : list->children) {
    if (!child.starts_with(name)) continue;
    completion->candidates.push_back({Quoted(ChildPath(parent, child)), child});
  }
  if (completion->candidates.size() != 1) return;
  auto stat = shell.client().Exists(ChildPath(parent, completion->candidates[0].label),
                                    {.deadline_ms = kDeadlineMs});
  if (stat.ok() && stat->has_value() && (*stat)->children != 0) completion->suffix = '/';
}

// Returns the index of the argument that is typed after `words`, from 0, not counting options.
size_t ArgumentIndex(const Command& command, const std::vector<std::string>& words) {
  size_t index = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with("-")) {
      ++index;
      continue;
    }
    const bool takes_value =
        std::any_of(command.options.begin(), command.options.end(), [&](const Option& option) {
          const bool is_long = !option.long_name.empty() && words[i] == "--" + option.long_name;
          const bool is_option = is_long || words[i] == std::string{'-', option.letter};
          return is_option && !option.value.empty();
        });
    if (takes_value) ++i;
  }
  return index;
}

}  // namespace

Completion Complete(Shell& shell, const std::string& line) {
  Completion completion;
  completion.word_begin = LastWordBegin(line);
  const auto before = SplitWords(line.substr(0, completion.word_begin));
  const auto last = SplitWords(line.substr(completion.word_begin));
  if (!before.ok() || !last.ok()) return completion;
  const std::string typed = last->empty() ? "" : last->front();
  if (before->empty() || (before->size() == 1 && before->front() == "help")) {
    for (const Command& command : Commands()) AddIfItFits(command.name, typed, &completion);
    std::sort(completion.candidates.begin(), completion.candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.word < b.word; });
    return completion;
  }
  const Command* command = FindCommand(before->front());
  if (command == nullptr) return completion;
  if (command->name == "addWatch" && before->back() == "-m") {
    for (const char* mode : {"PERSISTENT", "PERSISTENT_RECURSIVE"}) {
      AddIfItFits(mode, typed, &completion);
    }
  } else if (command->name == "printwatches") {
    for (const char* word : {"off", "on"}) AddIfItFits(word, typed, &completion);
  } else if (typed.starts_with("-")) {
    for (const Option& option : command->options) {
      AddIfItFits({'-', option.letter}, typed, &completion);
      if (!option.long_name.empty()) AddIfItFits("--" + option.long_name, typed, &completion);
    }
  } else if (command->takes_path && ArgumentIndex(*command, *before) == 0) {
    AddPaths(shell, typed, &completion);
  }
  return completion;
}

}  // namespace quorate::tools::shell
