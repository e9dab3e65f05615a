// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/assert.h"
#include "base/similar_names.h"
#include "tools/shell/shell.h"

namespace quorate::tools::shell {
namespace {

std::string Named(const Option& option) {
  std::string text = absl::StrCat("-", std::string(1, option.letter));
  if (!option.long_name.empty()) absl::StrAppend(&text, "|--", option.long_name);
  if (!option.value.empty()) absl::StrAppend(&text, " ", option.value);
  return text;
}

absl::Status BadUsage(const Command& command, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(command.name, ": ", why, "\nusage: ", UsageOf(command)));
}

void AppendIndented(const std::string& text, std::string* to) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(to, line.empty() ? "" : "    ", line, "\n");
  }
}

}  // namespace

std::string UsageOf(const Command& command) {
  std::string text = command.name;
  for (const Option& option : command.options) absl::StrAppend(&text, " [", Named(option), "]");
  if (!command.arguments.empty()) absl::StrAppend(&text, " ", command.arguments);
  return text;
}

std::string HelpOf(const Command& command) {
  std::string text = absl::StrCat(command.name, " - ", command.summary, "\n\nusage:\n");
  AppendIndented(UsageOf(command), &text);
  if (!command.details.empty()) {
    text += "\n";
    AppendIndented(command.details, &text);
  }
  if (!command.options.empty()) {
    text += "\noptions:\n";
    size_t width = 0;
    for (const Option& option : command.options) width = std::max(width, Named(option).size());
    for (const Option& option : command.options) {
      std::string name = Named(option);
      name.resize(width + 2, ' ');
      absl::StrAppend(&text, "    ", name, option.help, "\n");
    }
  }
  text += "\nexample:\n";
  AppendIndented(command.example, &text);
  return text;
}

absl::StatusOr<Invocation> Invocation::Parse(const Command& command, Shell& shell,
                                             const std::vector<std::string>& words) {
  Invocation invocation;
  invocation.command_ = &command;
  invocation.shell_ = &shell;
  if (command.takes_any_words) {
    invocation.arguments_ = words;
    return invocation;
  }
  CLI::App app;
  app.set_help_flag();
  for (const Option& option : command.options) {
    std::string name = {'-', option.letter};
    if (!option.long_name.empty()) absl::StrAppend(&name, ",--", option.long_name);
    if (option.value.empty()) {
      app.add_flag_callback(name,
                            [&invocation, letter = option.letter] { invocation.options_[letter]; });
    } else {
      app.add_option_function<std::string>(
             name, [&invocation, letter = option.letter](
                       const std::string& value) { invocation.options_[letter] = value; })
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  app.add_option("arguments", invocation.arguments_)->expected(-1);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return BadUsage(command, error.what());
  }
  if (invocation.arguments_.size() < command.arguments_min) {
    return BadUsage(command, "too few arguments");
  }
  if (invocation.arguments_.size() > command.arguments_max) {
    return BadUsage(command, "too many arguments; text with spaces must be in quotes");
  }
  if (command.takes_path && !invocation.arguments_.empty()) {
    invocation.path_ = invocation.arguments_[0];
    while (invocation.path_.size() > 1 && invocation.path_.back() == '/') {
      invocation.path_.pop_back();
    }
  }
  return invocation;
}

Client& Invocation::client() const { return shell_->client(); }

std::optional<std::string> Invocation::argument(size_t index) const {
  if (index >= arguments_.size()) return std::nullopt;
  return arguments_[index];
}

absl::StatusOr<std::optional<int64_t>> Invocation::Number(char letter) const {
  if (!Has(letter)) return std::optional<int64_t>();
  int64_t number = 0;
  if (!absl::SimpleAtoi(Value(letter), &number)) {
    return BadUsage(*command_, absl::StrCat("-", std::string(1, letter), ": \"", Value(letter),
                                            "\" is not a number"));
  }
  return std::optional<int64_t>(number);
}

absl::StatusOr<std::optional<int32_t>> Invocation::Version() const {
  auto number = Number('v');
  if (!number.ok()) return number.status();
  // ZooKeeper's clients use -1 for any version.
  if (!number->has_value() || **number == -1) return std::optional<int32_t>();
  if (**number < 0 || **number > std::numeric_limits<int32_t>::max()) {
    return BadUsage(*command_, absl::StrCat("-v: ", **number, " is not a version"));
  }
  return std::optional<int32_t>(static_cast<int32_t>(**number));
}

void Invocation::Line(const std::string& line) const {
  if (!shell_->options().json) shell_->console().Print(absl::StrCat(line, "\n"));
}

const std::vector<Command>& Commands() {
  static const auto* const commands = [] {
    auto* all = new std::vector<Command>;
    for (auto& some : {NodeCommands(), SubtreeCommands(), AclCommands(), WatchCommands(),
                       QuotaCommands(), SessionCommands()}) {
      all->insert(all->end(), some.begin(), some.end());
    }
    return all;
  }();
  return *commands;
}

const Command* FindCommand(const std::string& name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::vector<std::string> SimilarCommands(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  return SimilarNames(name, names);
}

}  // namespace quorate::tools::shell
