// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "tools/backup/recover.h"
#include "tools/backup/restored_tree.h"

namespace quorate::tools {
namespace {

struct Options {
  std::vector<std::string> data_dirs;
  std::vector<std::string> log_dirs;
  std::vector<std::string> addresses;
  uint64_t zxid_bump = kZxidBump;
  bool force = false;
  bool yes = false;
};

// Asks for confirmation on the terminal. Standard output may be a document, so it asks elsewhere.
bool Ask() {
  if (isatty(STDIN_FILENO) == 0) {
    std::cerr << "standard input is not a terminal, so nobody can confirm: give --yes\n";
    return false;
  }
  std::cout.flush();
  std::cerr << "Type recover to continue: " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && answer == "recover";
}

absl::Status ParseAddresses(const std::vector<std::string>& texts, RecoverOptions* options) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    uint64_t member = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(text.substr(0, equals), &member)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--address ", text, ": must be N=HOST:PORT:PORT"));
    }
    options->addresses[member] = text.substr(equals + 1);
  }
  return absl::OkStatus();
}

absl::Status RunRecover(const GlobalOptions& global, const Options& options) {
  if (!options.force) {
    return absl::InvalidArgumentError(
        "this gives up the old cluster, and what only its lost members have: give "
        "--force-new-cluster");
  }
  if (!options.log_dirs.empty() && options.log_dirs.size() != options.data_dirs.size()) {
    return absl::InvalidArgumentError("give --log-dir once for each DIR, in the same order");
  }
  std::vector<MemberPaths> survivors;
  for (size_t i = 0; i < options.data_dirs.size(); ++i) {
    survivors.push_back(
        MemberPaths::Of(options.data_dirs[i], options.log_dirs.empty() ? "" : options.log_dirs[i]));
  }
  RecoverOptions recover;
  if (absl::Status s = ParseAddresses(options.addresses, &recover); !s.ok()) return s;
  recover.zxid_bump = options.zxid_bump;
  std::random_device random;
  for (int i = 0; i < 8; ++i) absl::StrAppend(&recover.new_name, random(), ";");
  recover.json = global.json;
  recover.now_ms = Clock::System()->WallMs();
  recover.confirm = [&] { return options.yes || Ask(); };
  // The files are their owner's alone, also those that libraries make.
  umask(S_IRWXG | S_IRWXO);
  absl::Status status = Recover(survivors, recover, std::cout);
  std::cout.flush();
  if (!std::cout && status.ok()) return absl::InternalError("standard output cannot be written");
  return status;
}

}  // namespace

void AddRecoverCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "recover",
      "Make a new cluster of the survivor with the newest log, when a majority is lost for good",
      [command_line, options] { return RunRecover(command_line->global(), *options); });
  command
      ->add_option("DIR", options->data_dirs,
                   "The dataDir of each survivor; their servers are stopped")
      ->required();
  command
      ->add_option("--log-dir", options->log_dirs,
                   "The survivor's dataLogDir, once for each DIR, if they have one")
      ->allow_extra_args(false);
  command
      ->add_option("--address", options->addresses,
                   "N=HOST:PORT:PORT, as the server.N line of a survivor has it; for a cluster "
                   "whose members were never changed")
      ->allow_extra_args(false);
  command
      ->add_option("--zxid-bump", options->zxid_bump,
                   "How far above the last zxid the new cluster begins, so that no zxid is used "
                   "twice: more than the lost members can have written after it")
      ->capture_default_str();
  command->add_flag("--force-new-cluster", options->force,
                    "Required: give up the old cluster, and what only its lost members have");
  command->add_flag("--yes", options->yes, "Do not ask for confirmation");
  command->footer(
      "Use this only if a majority of the voters is lost for good: with a majority, start the\n"
      "servers. The directory with the highest (term, index) is changed in place into that of the\n"
      "only voter of a new cluster; its old data is put aside. All other directories are only\n"
      "read. An interrupted recovery is completed by the same command.");
}

}  // namespace quorate::tools
