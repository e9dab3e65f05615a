// The commands of the shell: their arguments, their help, and the functions that run them.
//
// Thread-safety: none inside; the shell's thread runs one command at a time.
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
  // The name of the option's value; empty if it takes none.
  std::string value;
  std::string help;
  // A second name, behind two dashes; may be empty.
  std::string long_name = {};
};

struct Command {
  std::string name;
  std::vector<Option> options;
  // "path [data] [acl]".
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

// "ls [-s] [-w] path".
std::string UsageOf(const Command& command);
// All that `help NAME` prints, with a newline at the end.
std::string HelpOf(const Command& command);

// A command with the words that were typed behind it.
class Invocation {
 public:
  // INVALID_ARGUMENT says what is wrong with `words` and how the command is used.
  static absl::StatusOr<Invocation> Parse(const Command& command, Shell& shell,
                                          const std::vector<std::string>& words);

  Shell& shell() const { return *shell_; }
  // REQUIRES: the command is not local.
  Client& client() const;
  const Command& command() const { return *command_; }

  const std::vector<std::string>& arguments() const { return arguments_; }
  // The first argument, without a slash at its end.
  const std::string& path() const { return path_; }
  // The argument at that index; nothing if it was not given.
  std::optional<std::string> argument(size_t index) const;

  bool Has(char letter) const { return options_.count(letter) != 0; }
  // REQUIRES: Has(letter).
  const std::string& Value(char letter) const { return options_.at(letter); }
  // The value of an option that takes a number; nothing if it was not given. INVALID_ARGUMENT names
  // the option.
  absl::StatusOr<std::optional<int64_t>> Number(char letter) const;
  // The value of -v.
  absl::StatusOr<std::optional<int32_t>> Version() const;

  // Prints a line for people, at once; does nothing if the shell prints JSON.
  void Line(const std::string& line) const;
  // The document that is printed for programs when the command is done.
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

// All commands, in the order in which help lists them.
const std::vector<Command>& Commands();
// Nullptr if there is no command of that name.
const Command* FindCommand(const std::string& name);
// The names of commands that the user may have meant by `name`.
std::vector<std::string> SimilarCommands(const std::string& name);

// The commands of each file.
std::vector<Command> NodeCommands();
std::vector<Command> SubtreeCommands();
std::vector<Command> AclCommands();
std::vector<Command> WatchCommands();
std::vector<Command> QuotaCommands();
std::vector<Command> SessionCommands();

}  // namespace quorate::tools::shell
