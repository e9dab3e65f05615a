// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/restore.h"

#include <sys/stat.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/config/config.h"
#include "tools/backup/new_member.h"
#include "tools/backup/restored_tree.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/text.h"
#include "tools/offline/load_backup.h"
#include "tools/offline/load_member.h"
#include "tools/offline/member_directory.h"

namespace quorate::tools {
namespace {

struct Options {
  std::string file;
  // The directories of a stopped member, instead of a backup file.
  std::string from_member;
  std::string from_log_dir;
  std::string config;
  std::string data_dir;
  std::string log_dir;
  uint64_t member = 0;
  std::vector<uint64_t> members;
  std::vector<uint64_t> observers;
  std::string cluster_name;
  RestoreOptions restore;
};

// Returns the new member, as a configuration file or the options describe it.
absl::StatusOr<NewMember> MemberOf(const Options& options) {
  NewMember member;
  if (!options.config.empty()) {
    auto config = rpc::LoadConfig(options.config);
    if (!config.ok()) return absl::FailedPreconditionError(config.status().message());
    member.data_dir = config->data_dir;
    member.log_dir = config->log_dir;
    member.member = config->my_id;
    for (const auto& [id, server] : config->servers) {
      (server.observer ? member.observers : member.voters).push_back(id);
    }
    if (config->standalone()) member.voters = {config->my_id};
    return member;
  }
  if (options.data_dir.empty() || options.member == 0 || options.members.empty()) {
    return absl::InvalidArgumentError(
        "name the member to create: --config zoo.cfg, or --data-dir, --member and --members");
  }
  member.data_dir = options.data_dir;
  member.log_dir = options.log_dir;
  member.member = options.member;
  member.voters = options.members;
  member.observers = options.observers;
  return member;
}

// The source of a restore.
struct Source {
  std::unique_ptr<tree::Tree> tree;
  uint64_t term = 0;
  tree::BackupTotals totals;           // for a member's directory: records and checksum
  std::optional<LoadedMember> member;  // without its tree; empty for a backup
};

absl::StatusOr<Source> LoadSource(const Options& options) {
  if (options.file.empty() == options.from_member.empty()) {
    return absl::InvalidArgumentError(
        "name the source: a backup file, or --from-member and the dataDir of a stopped member");
  }
  Source source;
  if (!options.from_member.empty()) {
    auto member = LoadMember(MemberPaths::Of(options.from_member, options.from_log_dir));
    if (!member.ok()) return member.status();
    source.tree = std::move(member->tree);
    source.term = member->term;
    source.totals.records = member->records;
    source.totals.checksum = member->checksum;
    source.member = *std::move(member);
    return source;
  }
  ProgressBar progress("reading");
  auto backup = LoadBackup(options.file, &progress);
  // A damaged file is not a usage error.
  if (absl::IsInvalidArgument(backup.status())) {
    return absl::FailedPreconditionError(backup.status().message());
  }
  if (!backup.ok()) return backup.status();
  source.tree = std::move(backup->tree);
  source.term = backup->header.term;
  source.totals = backup->totals;
  return source;
}

// `last_zxid` is the last zxid of the source.
void Print(const NewMember& member, const Source& source, uint64_t last_zxid, bool json) {
  const tree::Tree& tree = *source.tree;
  const auto zxid = static_cast<uint64_t>(tree.last_zxid().value());
  if (json) {
    nlohmann::ordered_json document = {
        {"member", member.member},
        {"data_dir", member.data_dir},
        {"log_dir", member.log_dir.empty() ? member.data_dir : member.log_dir},
        {"voters", member.voters},
        {"observers", member.observers},
        {"cluster_id", HexBytes(member.cluster_id)},
        {"zxid", Hex(zxid)},
        {"digest", Hex(tree.digest())},
        {"nodes", tree.node_count()},
        {"sessions", tree.session_count()},
    };
    if (source.member.has_value()) {
      document["from_member"] = {
          {"member", source.member->member.value()},
          {"cluster_id", HexBytes(source.member->cluster_id)},
          {"term", source.member->term},
          {"last_zxid", Hex(last_zxid)},
          {"committed_zxid", Hex(source.member->commit.known.value())},
          {"nothing_lost", source.member->commit.only_voter},
          {"was_recovering", source.member->was_recovering},
      };
    }
    std::cout << document.dump(2) << "\n";
    return;
  }
  std::cout << member.data_dir << ": member " << member.member << " of new cluster "
            << HexBytes(member.cluster_id) << ", zxid " << Hex(zxid) << ", " << tree.node_count()
            << " znodes, " << tree.session_count() << " sessions, digest " << Hex(tree.digest())
            << "\n";
  if (source.member.has_value()) {
    std::cout << "Made from the data of member " << source.member->member.value() << " of cluster "
              << HexBytes(source.member->cluster_id) << ", up to zxid " << Hex(last_zxid) << ".\n"
              << LossText(*source.member, last_zxid) << "\n";
  }
}

absl::Status RunRestore(const GlobalOptions& global, const Options& options) {
  // The files are their owner's alone, also those that libraries make.
  umask(S_IRWXG | S_IRWXO);
  auto member = MemberOf(options);
  if (!member.ok()) return member.status();
  auto source = LoadSource(options);
  if (!source.ok()) return source.status();
  const auto last_zxid = static_cast<uint64_t>(source->tree->last_zxid().value());
  if (absl::Status s = PrepareRestoredTree(options.restore, source->tree.get()); !s.ok()) return s;
  member->cluster_id = RestoredClusterId(source->totals, options.restore, *source->tree,
                                         member->voters, member->observers, options.cluster_name);
  if (absl::Status s = WriteMember(*member, *source->tree, source->term, source->totals.records);
      !s.ok()) {
    return s;
  }
  Print(*member, *source, last_zxid, global.json);
  return absl::OkStatus();
}

}  // namespace

void AddRestoreCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = command_line->Add(
      command_line->root(), "restore",
      "Make the data directory of a member from a backup, or from the data of a stopped member",
      [command_line, options] { return RunRestore(command_line->global(), *options); });
  CLI::Option* file = command->add_option("file", options->file, "The backup");
  CLI::Option* from_member =
      command
          ->add_option("--from-member", options->from_member,
                       "Instead of a backup: the dataDir of a stopped member, which is not changed")
          ->excludes(file);
  command
      ->add_option("--from-log-dir", options->from_log_dir,
                   "The stopped member's dataLogDir, if it has one")
      ->needs(from_member);
  CLI::Option* config = command->add_option(
      "--config", options->config,
      "The new member's zoo.cfg, for its directories, its number and its cluster");
  const auto instead = [&](CLI::Option* option) { option->excludes(config); };
  instead(command->add_option("--data-dir", options->data_dir, "The new member's data directory"));
  instead(command->add_option("--log-dir", options->log_dir,
                              "The new member's log directory, if that is another one"));
  instead(command->add_option("--member", options->member, "The new member's number"));
  instead(command->add_option("--members", options->members, "The numbers of all voters: 1,2,3")
              ->delimiter(',')
              ->allow_extra_args(false));
  instead(command->add_option("--observers", options->observers, "The numbers of all observers")
              ->delimiter(',')
              ->allow_extra_args(false));
  command->add_option("--cluster-name", options->cluster_name,
                      "Any text; clusters that are restored from one file under different names "
                      "get different ids");
  command->add_flag("--without-sessions", options->restore.without_sessions,
                    "Leave out the sessions and their ephemeral znodes");
  command
      ->add_option(
          "--zxid-bump", options->restore.zxid_bump,
          "How far above the backup's zxid the new cluster begins, so that no zxid is used "
          "twice: more than the old cluster has written since the backup")
      ->capture_default_str();
  command->footer(
      "Run this command once for each member of a new cluster, with the same file, the same "
      "members\n"
      "and the same options, and then start all members. The directories must be empty, except "
      "for\n"
      "the configuration and myid. Sessions are kept: clients reconnect to them, or they expire.\n"
      "Zxids, and fencing tokens with them, are greater than all that the old cluster has used.\n"
      "\n"
      "Use this command only for a new cluster. Start a member that lost its disk later with an\n"
      "empty directory: the others send it the data. Restoring one member alone could lose writes\n"
      "that were made since the backup.\n"
      "\n"
      "Use --from-member for a cluster that has lost a majority of its disks: it takes all data "
      "of\n"
      "one member, and says what may be missing. While a majority works, use `quorate backup`.");
}

}  // namespace quorate::tools
