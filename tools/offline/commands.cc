// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/commands.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "tools/offline/log_dump.h"
#include "tools/offline/member_examination.h"
#include "tools/offline/printing.h"
#include "tools/offline/rebuild.h"
#include "tools/offline/snapshot_diff.h"
#include "tools/offline/snapshot_dump.h"
#include "tools/offline/verify.h"

namespace quorate::tools {
namespace {

// The options of a subcommand, filled in by the parser before it runs.
struct MemberOptions {
  std::string data_dir;
  std::string log_dir;

  void AddTo(CLI::App* command) {
    command->add_option("DIR", data_dir, "The dataDir of a member whose server is stopped")
        ->required();
    command->add_option("--log-dir", log_dir, "The member's dataLogDir, if it has one");
  }
  MemberPaths paths() const { return MemberPaths::Of(data_dir, log_dir); }
};

absl::Status Flushed(absl::Status status) {
  std::cout.flush();
  if (!std::cout && status.ok()) return absl::InternalError("standard output cannot be written");
  return status;
}

void AddVerify(CommandLine* command_line) {
  auto options = std::make_shared<MemberOptions>();
  CLI::App* command = command_line->Add(
      command_line->root(), "verify",
      "Check whether the data of a stopped member, or a backup, is whole; changes nothing",
      [command_line, options] {
        const bool json = command_line->global().json;
        std::error_code error;
        if (std::filesystem::is_regular_file(options->data_dir, error)) {
          if (!options->log_dir.empty()) {
            return absl::InvalidArgumentError(
                absl::StrCat("--log-dir needs the directory of a member, but ", options->data_dir,
                             " is a file"));
          }
          return Flushed(VerifyBackup(options->data_dir, json, std::cout));
        }
        return Flushed(Verify(options->paths(), json, std::cout));
      });
  command
      ->add_option("SOURCE", options->data_dir,
                   "The dataDir of a member whose server is stopped, or a backup file")
      ->required();
  command->add_option("--log-dir", options->log_dir, "The member's dataLogDir, if it has one");
  command->footer(
      "Exit status: 0 if the data is whole, 1 if it is not, 2 for bad usage. A backup is read to\n"
      "its end and loaded as by `quorate restore`, which takes the memory of its tree.");
}

void AddLogDump(CommandLine* command_line, CLI::App* log) {
  struct Options {
    MemberOptions member;
    LogDumpOptions dump;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      log, "dump", "Show the entries of a stopped member's log", [command_line, options] {
        options->dump.json = command_line->global().json;
        return Flushed(DumpLog(options->member.paths(), options->dump, std::cout));
      });
  options->member.AddTo(command);
  command->add_option("--from", options->dump.from, "Only entries from this index on");
  command->add_option("--to", options->dump.to, "Only entries up to this index");
  command->add_flag("--data", options->dump.data, "Show the data that was written to znodes");
}

void AddSnapshotDump(CommandLine* command_line, CLI::App* snapshot) {
  struct Options {
    std::string source;
    SnapshotDumpOptions dump;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      snapshot, "dump", "Show the tree in a stopped member's checkpoint, or in a backup",
      [command_line, options] {
        options->dump.json = command_line->global().json;
        return Flushed(DumpSnapshot(options->source, options->dump, std::cout));
      });
  command->add_option("SOURCE", options->source, "The member's dataDir, or a backup file")
      ->required();
  command->add_option("--path", options->dump.path, "Only this znode and those below it");
}

void AddSnapshotDiff(CommandLine* command_line, CLI::App* snapshot) {
  struct Options {
    std::string a;
    std::string b;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      snapshot, "diff", "Show the differences of two trees; exit status 1 if there are any",
      [command_line, options]() -> absl::Status {
        auto differences =
            DiffSnapshots(options->a, options->b, command_line->global().json, std::cout);
        if (!differences.ok()) return differences.status();
        if (*differences == 0) return Flushed(absl::OkStatus());
        return Flushed(absl::AbortedError(absl::StrCat("the trees differ in ", *differences,
                                                       *differences == 1 ? " thing" : " things")));
      });
  command->add_option("A", options->a, "A member's dataDir, or a backup file")->required();
  command->add_option("B", options->b, "Another member's dataDir, or a backup file")->required();
}

// Asks for confirmation on the terminal. Returns whether the answer is yes.
bool Ask() {
  if (isatty(STDIN_FILENO) == 0) {
    std::cerr << "standard input is not a terminal, so nobody can confirm: give --yes\n";
    return false;
  }
  std::cout << "Type yes to continue: " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && answer == "yes";
}

void AddRebuild(CommandLine* command_line) {
  struct Options {
    MemberOptions member;
    RebuildOptions rebuild;
    bool yes = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "rebuild",
      "Move a stopped member's data aside, so that the others send it again when it starts",
      [command_line, options] {
        RebuildOptions& rebuild = options->rebuild;
        rebuild.json = command_line->global().json;
        rebuild.now_ms = Clock::System()->WallMs();
        rebuild.confirm = [options] { return options->yes || Ask(); };
        return Flushed(Rebuild(options->member.paths(), rebuild, std::cout));
      });
  options->member.AddTo(command);
  command->add_flag("--yes", options->yes, "Do not ask for confirmation");
  command->add_flag("--delete", options->rebuild.remove, "Delete the data instead of keeping it");
}

}  // namespace

void AddOfflineCommands(CommandLine* command_line) {
  AddVerify(command_line);
  CLI::App* log = command_line->AddGroup("log", "Show the log of a stopped member");
  AddLogDump(command_line, log);
  CLI::App* snapshot = command_line->AddGroup(
      "snapshot", "Show or compare the trees of stopped members and backups");
  AddSnapshotDump(command_line, snapshot);
  AddSnapshotDiff(command_line, snapshot);
  AddRebuild(command_line);
}

}  // namespace quorate::tools
