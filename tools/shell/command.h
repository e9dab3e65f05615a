// SPDX-License-Identifier: Apache-2.0

// The commands of the shell: their arguments, their help, and the functions that run them.
//
// Thread-safety: none; the shell's thread runs one command at a time.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate::tools::shell {

class Shell;
class Invocation;

struct Option {
  char letter;
  // The name of the option's value; empty if the option takes no value.
  std::string value;
  std::string help;
  // A second name, behind two dashes; may be empty.
  std::string long_name = {};
};

struct Command {
  std::string name;
  std::vector<Option> options;
  // The arguments in a usage line, such as "path [data] [acl]".
  std::string arguments;
  size_t arguments_min = 0;
  size_t arguments_max = 0;
  // One line, without a full stop.
  std::string summary;
  // Further text, for `help NAME`; may be empty.
  std::string details;
  // Example lines that a user can type.
  std::string example;
  // Whether the first argument is the path of a znode, which Tab completes.
  bool takes_path = true;
  // Whether words that look like options are arguments.
  bool takes_any_words = false;
  // Whether the command can be run without a connection.
  bool is_local = false;
  absl::Status (*run)(Invocation& invocation) = nullptr;
};

// Returns the usage line of a command, such as "ls [-s] [-w] path".
std::string UsageOf(const Command& command);
// Returns the text that `help NAME` prints, with a newline at the end.
std::string HelpOf(const Command& command);

// A command with the words that were typed after it.
class Invocation {
 public:
  // Parses the words after the command's name. The message of INVALID_ARGUMENT says what is wrong
  // with `words`, and how the command is used.
  static absl::StatusOr<Invocation> Parse(const Command& command, Shell& shell,
                                          const std::vector<std::string>& words);

  Shell& shell() const { return *shell_; }
  // Returns the shell's client. REQUIRES: the command is not local.
  Client& client() const;
  const Command& command() const { return *command_; }

  const std::vector<std::string>& arguments() const { return arguments_; }
  // Returns the first argument, without a slash at its end.
  const std::string& path() const { return path_; }
  // Returns the argument at that index; nothing if it was not given.
  std::optional<std::string> argument(size_t index) const;

  bool Has(char letter) const { return options_.count(letter) != 0; }
  // Returns the value of an option. REQUIRES: Has(letter).
  const std::string& Value(char letter) const { return options_.at(letter); }
  // Returns the value of an option that takes a number; nothing if the option was not given. The
  // message of INVALID_ARGUMENT names the option.
  absl::StatusOr<std::optional<int64_t>> Number(char letter) const;
  // Returns the version that -v gives; nothing if -v was not given, or is -1.
  absl::StatusOr<std::optional<int32_t>> Version() const;

  // Prints a line at once, unless the shell prints JSON.
  void Line(const std::string& line) const;
  // Returns the JSON document that is printed when the command is done, if the shell prints JSON.
  nlohmann::ordered_json& json() { return json_; }

 private:
  Invocation() = default;

  const Command* command_ = nullptr;
  Shell* shell_ = nullptr;
  std::map<char, std::string> options_;
  std::vector<std::string> arguments_;
  std::string path_;
  nlohmann::ordered_json json_;
};

// Returns all commands, in the order in which help lists them.
const std::vector<Command>& Commands();
// Returns the command of that name, or nullptr.
const Command* FindCommand(const std::string& name);
// Returns the names of commands that the user may have meant by `name`.
std::vector<std::string> SimilarCommands(const std::string& name);

// Return the commands of one source file each.
std::vector<Command> NodeCommands();
std::vector<Command> SubtreeCommands();
std::vector<Command> AclCommands();
std::vector<Command> WatchCommands();
std::vector<Command> QuotaCommands();
std::vector<Command> SessionCommands();

}  // namespace quorate::tools::shell
