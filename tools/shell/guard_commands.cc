// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/guard_commands.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/shell/guard.h"

namespace quorate::tools {
namespace {

using shell::Guard;
using shell::GuardOptions;

struct Options {
  std::string path;
  std::vector<std::string> command;
  double timeout_seconds = -1;
  double session_timeout_seconds = 15;
  double kill_after_seconds = -1;
  double restart_after_seconds = 1;
  bool is_quiet = false;
};

int64_t Milliseconds(double seconds) { return static_cast<int64_t>(seconds * 1000); }

absl::Status Run(CommandLine* command_line, const Options& options, bool repeats) {
  GuardOptions guard;
  guard.servers = command_line->global().servers;
  guard.tls = command_line->global().tls;
  if (guard.servers.empty()) {
    return absl::InvalidArgumentError(
        "--server is missing: name members by their gRPC ports, host:port[,host:port][/chroot]");
  }
  guard.path = options.path;
  guard.command = options.command;
  guard.session_timeout_ms = static_cast<int>(Milliseconds(options.session_timeout_seconds));
  guard.wait_ms = options.timeout_seconds < 0 ? -1 : Milliseconds(options.timeout_seconds);
  if (options.kill_after_seconds >= 0) {
    guard.kill_after_ms = Milliseconds(options.kill_after_seconds);
  }
  guard.restart_after_ms = Milliseconds(options.restart_after_seconds);
  guard.repeats = repeats;
  guard.is_quiet = options.is_quiet;
  auto status = Guard(std::move(guard)).Run();
  if (!status.ok()) return status.status();
  command_line->SetExitStatus(*status);
  return absl::OkStatus();
}

// Adds a command with the options that both commands have.
CLI::App* AddGuard(CommandLine* command_line, const std::string& name,
                   const std::string& description, const std::shared_ptr<Options>& options,
                   bool repeats) {
  CLI::App* command = command_line->Add(
      command_line->root(), name, description,
      [command_line, options, repeats] { return Run(command_line, *options, repeats); });
  command
      ->add_option("path", options->path,
                   "The znode of the lock or election, created if it is missing")
      ->required();
  command->add_option("command", options->command, "The command with its arguments, behind --")
      ->required()
      ->expected(-1);
  command
      ->add_option("--session-timeout", options->session_timeout_seconds,
                   "Seconds after which another machine gets its turn if this one dies")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86'400.0));
  command
      ->add_option("--kill-after", options->kill_after_seconds,
                   "Seconds from SIGTERM to SIGKILL when the turn is lost (default: a sixth of the "
                   "session's timeout)")
      ->check(CLI::Range(0.0, 86'400.0));
  command->add_flag("-q,--quiet", options->is_quiet, "Print errors only");
  return command;
}

constexpr char kWhatHappens[] =
    "Signals are passed on to the command and to the processes that it has started. The command "
    "is\n"
    "terminated (SIGTERM) if no member serves for a sixth of the session's timeout, or if the "
    "turn\n"
    "is lost, and killed if it does not end. Its environment has $QUORATE_PATH, and\n"
    "$QUORATE_FENCING_TOKEN, a number that is larger for each new holder: storage that refuses\n"
    "smaller numbers is safe from a holder that stood still.\n";

}  // namespace

void AddLockCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      AddGuard(command_line, "lock", "Runs a command while holding a lock", options, false);
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds to wait for the lock; 0: do not wait (default: no limit)")
      ->check(CLI::Range(0.0, 86'400.0 * 365));
  command->footer(
      std::string("    quorate lock --server 10.0.0.1:2281 /locks/report -- make report\n"
                  "    quorate lock --server ... /locks/backup --timeout 0 -- ./backup\n\n") +
      kWhatHappens +
      "The exit status is that of the command (127: there is no such command; 126: it cannot be\n"
      "run), or 1 if the lock was not acquired, or was lost. The lock has the znodes of\n"
      "client/recipes/mutex.h and of Curator's InterProcessMutex.");
}

void AddElectCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = AddGuard(command_line, "elect",
                               "Keeps a command running on one of many machines", options, true);
  command
      ->add_option("--restart-after", options->restart_after_seconds,
                   "Least number of seconds between two starts of the command")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86'400.0));
  command->footer(
      std::string(
          "    quorate elect --server 10.0.0.1:2281 /elections/scheduler -- ./scheduler\n\n"
          "Run `quorate elect` on all machines: the command runs on one of them, the leader.\n"
          "If the leader fails, the command is started on another machine. If the command\n"
          "ends by itself, another machine is elected, or the same one if it is the only one.\n") +
      kWhatHappens +
      "SIGINT, SIGTERM and SIGQUIT end `quorate elect`. Its exit status is that of the command, "
      "or\n"
      "128 plus the number of the signal if the command does not run.");
}

}  // namespace quorate::tools
