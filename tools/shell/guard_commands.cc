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

// Adds what both commands have in common.
CLI::App* AddGuard(CommandLine* command_line, const std::string& name,
                   const std::string& description, const std::shared_ptr<Options>& options,
                   bool repeats) {
  CLI::App* command = command_line->Add(
      command_line->root(), name, description,
      [command_line, options, repeats] { return Run(command_line, *options, repeats); });
  command->add_option("path", options->path, "A znode for it, created if it is missing")
      ->required();
  command->add_option("command", options->command, "The command with its arguments, behind --")
      ->required()
      ->expected(-1);
  command
      ->add_option("--session-timeout", options->session_timeout_seconds,
                   "Seconds after which others can have it when this machine dies")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86'400.0));
  command
      ->add_option("--kill-after", options->kill_after_seconds,
                   "Seconds that the command has to end when it is lost (default: a sixth of the "
                   "session's timeout)")
      ->check(CLI::Range(0.0, 86'400.0));
  command->add_flag("-q,--quiet", options->is_quiet, "Print errors only");
  return command;
}

constexpr char kWhatHappens[] =
    "Signals are passed on to the command and to what it has started. If no member serves for a\n"
    "sixth of the session's timeout, or it is lost, the command is terminated (SIGTERM), and "
    "killed\n"
    "if it goes on. It has $QUORATE_PATH, and $QUORATE_FENCING_TOKEN, a number that is larger for\n"
    "each new holder: storage that refuses smaller ones is safe from a holder that was asleep.\n";

}  // namespace

void AddLockCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      AddGuard(command_line, "lock", "Runs a command while it has a lock", options, false);
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds to wait for the lock; 0: only if it is free (default: for ever)")
      ->check(CLI::Range(0.0, 86'400.0 * 365));
  command->footer(
      std::string("    quorate lock --server 10.0.0.1:2281 /locks/report -- make report\n"
                  "    quorate lock --server ... /locks/backup --timeout 0 -- ./backup\n\n") +
      kWhatHappens +
      "The exit status is that of the command (127: there is no such command), or 1 if it did not "
      "get\nthe lock or has lost it. The lock is that of the recipes (client/recipes/mutex.h) and "
      "of\n"
      "Curator's InterProcessMutex.");
}

void AddElectCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = AddGuard(command_line, "elect",
                               "Keeps a command running on one of many machines", options, true);
  command
      ->add_option("--restart-after", options->restart_after_seconds,
                   "Seconds between two starts of the command")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86'400.0));
  command->footer(
      std::string("    quorate elect --server 10.0.0.1:2281 /elections/scheduler -- ./scheduler\n\n"
                  "Run it on all machines: the command runs on one of them, the leader. When that\n"
                  "one fails, it is started on another. When the command ends by itself, another\n"
                  "machine is elected, or the same one if it is alone.\n") +
      kWhatHappens +
      "SIGINT, SIGTERM and SIGQUIT end it: with the status of the command, or with 128 and the "
      "number\nof the signal if it does not run.");
}

}  // namespace quorate::tools
