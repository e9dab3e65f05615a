// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/shell_command.h"

#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/cli/port_probe.h"
#include "tools/shell/completion.h"
#include "tools/shell/console.h"
#include "tools/shell/line_editor.h"
#include "tools/shell/printing.h"
#include "tools/shell/shell.h"

namespace quorate::tools {
namespace {

using shell::Command;
using shell::Console;
using shell::LineEditor;
using shell::Shell;
using shell::ShellOptions;

struct Options {
  int timeout_seconds = 15;
  int session_timeout_seconds = 30;
  bool stops_at_error = false;
  std::vector<std::string> words;
};

bool IsLocal(const std::string& name) {
  const Command* command = shell::FindCommand(name);
  return command == nullptr || command->is_local;
}

std::string HistoryFile() {
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.quorate_history";
}

// Sets a UTF-8 locale, because paths and data are UTF-8 even if the environment says otherwise.
void SetLocale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Returns whether to save the line to the file: not if it has a password, or begins with a space.
bool IsKept(const std::string& line) {
  return !line.starts_with(" ") && line.find("addauth") == std::string::npos;
}

int RunTyped(Shell& the_shell, Console& console) {
  SetLocale();
  if (absl::Status s = the_shell.Connect(""); !s.ok()) {
    // The shell continues, because the user may succeed with `connect`.
    console.PrintError(absl::StrCat(std::string(s.message()), "\n"));
  } else {
    console.Print("Connected. `help` lists the commands, Tab completes them, Ctrl-D ends.\n");
  }
  LineEditor editor(
      &console, [&the_shell](const std::string& line) { return Complete(the_shell, line); },
      HistoryFile());
  while (!the_shell.has_ended()) {
    const std::optional<std::string> line = editor.ReadLine(the_shell.Prompt());
    if (!line.has_value()) break;
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    editor.Remember(*line, IsKept(*line));
    static_cast<void>(the_shell.RunLine(*line));
  }
  return 0;
}

absl::StatusOr<int> RunScript(Shell& the_shell, bool stops_at_error) {
  int outcome = 0;
  bool has_connected = false;
  std::string line;
  while (!the_shell.has_ended() && std::getline(std::cin, line)) {
    const auto words = shell::SplitWords(line);
    const bool needs_session = words.ok() && !words->empty() && !words->front().starts_with("#") &&
                               !IsLocal(words->front());
    if (needs_session && !has_connected && !the_shell.is_connected()) {
      if (absl::Status s = the_shell.Connect(""); !s.ok()) return s;
      has_connected = true;
    }
    const int status = the_shell.RunLine(line);
    if (outcome == 0) outcome = status;
    if (status != 0 && stops_at_error) break;
  }
  return outcome;
}

absl::StatusOr<int> RunOne(Shell& the_shell, const std::vector<std::string>& words) {
  if (!IsLocal(words.front())) {
    if (absl::Status s = the_shell.Connect(""); !s.ok()) return s;
  }
  return the_shell.RunWords(words);
}

absl::Status Run(CommandLine* command_line, const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const bool is_typed = options.words.empty() && isatty(STDIN_FILENO) != 0;
  Console console(isatty(STDOUT_FILENO) != 0);
  ShellOptions shell_options;
  shell_options.servers = command_line->global().servers;
  shell_options.tls = command_line->global().tls;
  shell_options.json = command_line->global().json;
  shell_options.has_commands_on_stdin = options.words.empty();
  shell_options.timeout_ms = options.timeout_seconds * 1000;
  shell_options.session_timeout_ms = options.session_timeout_seconds * 1000;
  // The client would keep trying such a port until its timeout.
  if (const std::string hint = WrongPortHint(shell_options.servers); !hint.empty()) {
    return absl::InvalidArgumentError(hint);
  }
  Shell the_shell(std::move(shell_options), &console);
  absl::StatusOr<int> outcome = 0;
  if (is_typed) {
    outcome = RunTyped(the_shell, console);
  } else if (options.words.empty()) {
    outcome = RunScript(the_shell, options.stops_at_error);
  } else {
    outcome = RunOne(the_shell, options.words);
  }
  const absl::Status closed = the_shell.Close();
  if (!outcome.ok()) return outcome.status();
  if (!closed.ok()) {
    console.PrintError(absl::StrCat("the session could not be closed, and ends by its timeout: ",
                                    std::string(closed.message()), "\n"));
  }
  command_line->SetExitStatus(*outcome);
  return absl::OkStatus();
}

}  // namespace

void AddShellCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      command_line->Add(command_line->root(), "shell",
                        "Runs commands on znodes, as zkCli.sh: typed, or from a script",
                        [command_line, options] { return Run(command_line, *options); });
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds that a command waits for its answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  command
      ->add_option("--session-timeout", options->session_timeout_seconds,
                   "Seconds after which ephemeral znodes are deleted if this program dies")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  command->add_flag("--exit-on-error", options->stops_at_error,
                    "Stop a script at the first command that fails");
  command->add_option("command", options->words, "A command with its arguments, behind --")
      ->expected(-1);
  command->footer(
      "    quorate shell --server 10.0.0.1:2281             typed, with history and completion\n"
      "    quorate shell --server ... -- ls -R /app         one command\n"
      "    quorate shell --server ... < script              one command a line\n"
      "    quorate shell --server ... -- set /app/config --file config.json\n"
      "    make-config | quorate shell --server ... -- create /app/config --file -\n"
      "    quorate shell -- help                            the list of commands\n\n"
      "A chroot may follow the last server: 10.0.0.1:2281/app. With --json, each command and each\n"
      "event is an object on a separate line. The exit status is that of the first command that\n"
      "fails: 1, or 2 for bad usage.");
}

}  // namespace quorate::tools
