// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"
#include "rpc/config/config.h"
#include "tools/offline/member_directory.h"
#include "tools/offline/progress.h"
#include "tools/zookeeper/commands.h"
#include "tools/zookeeper/facts.h"
#include "tools/zookeeper/import.h"

namespace quorate::tools::zookeeper {
namespace {

// The first term of the new cluster. The imported tree counts as committed in it, and the first
// leader is elected in a greater term. ZooKeeper's epochs have no meaning here, because its servers
// are not members of the new cluster.
constexpr uint64_t kTerm = 1;

constexpr char kFooter[] =
    "Reads the newest whole snapshot and the logs after it, as the ZooKeeper server would, and\n"
    "creates the data of a new Quorate member from them: all znodes with their data, access\n"
    "control lists and Stat, sessions with their ephemerals and passwords, and quotas. New "
    "changes\n"
    "have greater zxids than all old ones. Clients keep their sessions if they reconnect within\n"
    "their timeouts.\n"
    "\n"
    "Stop all ZooKeeper servers first, and use the data of the one with the greatest last zxid\n"
    "(--check shows it; a stopped leader has it). Run the import once for each new member, always\n"
    "from the same data, and then start all members. If you create two clusters from the same\n"
    "data, for example for a rehearsal, give each another --cluster-name: otherwise they get the\n"
    "same id, and their members do not reject each other.\n"
    "\n"
    "  quorate import --zookeeper-data /var/lib/zookeeper --check\n"
    "  quorate import --zookeeper-data /var/lib/zookeeper --config /etc/quorate/zoo.cfg\n"
    "  quorate import --zookeeper-data /copy --data-dir /var/lib/quorate --member 2 \\\n"
    "      --members 1,2,3\n"
    "\n"
    "The ZooKeeper directories are not changed. The new directories must be empty, except for\n"
    "myid and the configuration.";

struct Options {
  DataDirectory source;
  std::string config;
  std::string cluster_name;
  NewMember member;
  bool check = false;
};

// Returns the member to create, as the configuration or the options describe it.
absl::StatusOr<NewMember> MemberOf(const Options& options) {
  NewMember member = options.member;
  if (options.config.empty()) {
    if (member.data_dir.empty() || member.member == 0 || member.voters.empty()) {
      return absl::InvalidArgumentError(
          "name the member to create: --config with its zoo.cfg, or --data-dir, --member and "
          "--members; or give --check to only read the data");
    }
    return member;
  }
  if (!member.data_dir.empty() || member.member != 0 || !member.voters.empty()) {
    return absl::InvalidArgumentError(
        "--config describes the member; leave out --data-dir, --log-dir, --member, --members and "
        "--observers");
  }
  const absl::StatusOr<rpc::Config> config = rpc::LoadConfig(options.config);
  if (!config.ok()) return config.status();
  member.data_dir = config->data_dir;
  member.log_dir = config->log_dir;
  member.member = config->my_id;
  for (const auto& [number, line] : config->servers) {
    (line.observer ? member.observers : member.voters).push_back(number);
  }
  if (config->standalone()) member.voters = {config->my_id};
  return member;
}

nlohmann::ordered_json ToJson(const LoadedDirectory& loaded, const ImportedTree& tree,
                              const std::vector<std::string>& warnings) {
  nlohmann::ordered_json json;
  json["snapshot"] = loaded.snapshot;
  json["transactions"] = loaded.transactions;
  json["digests_checked"] = loaded.digests_checked;
  json["ephemerals_without_session"] = loaded.orphans;
  json["last_zxid"] = absl::StrFormat("0x%x", tree.zxid.value());
  json["nodes"] = tree.nodes;
  json["ephemerals"] = tree.ephemerals;
  json["containers"] = tree.containers;
  json["ttl_nodes"] = tree.ttl_nodes;
  json["sessions"] = tree.sessions;
  json["data_bytes"] = tree.data_bytes;
  json["digest"] = absl::StrFormat("%016x", tree.digest);
  json["warnings"] = warnings;
  return json;
}

// Writes the member's directories. Adds the member's own facts to `*json`.
absl::Status Write(const Importer& importer, const std::string& cluster_name, NewMember member,
                   Progress* progress, nlohmann::ordered_json* json) {
  const ImportedTree& tree = importer.summary();
  member.cluster_id = importer.ClusterId(cluster_name, member.voters, member.observers);
  (*json)["cluster"] = absl::BytesToHexString(member.cluster_id);
  (*json)["member"] = member.member;
  (*json)["data_dir"] = member.data_dir;
  auto writer = MemberDirectoryWriter::Create(member, tree.zxid, kTerm, tree.digest);
  if (!writer.ok()) return writer.status();
  absl::Status status = importer.ForEachRecord(
      [&writer](std::string_view key, std::string_view value) {
        return (*writer)->Add(key, value);
      },
      [progress](const std::string& line) { progress->Update([&line] { return line; }); });
  return status.ok() ? (*writer)->Finish() : status;
}

absl::Status Run(const Options& options, const GlobalOptions& global) {
  // The files are their owner's alone, also those that libraries make.
  umask(S_IRWXG | S_IRWXO);
  NewMember member;
  if (!options.check) {
    absl::StatusOr<NewMember> wanted = MemberOf(options);
    if (!wanted.ok()) return wanted.status();
    member = *std::move(wanted);
  }
  Progress progress;
  absl::StatusOr<LoadedDirectory> loaded = LoadDirectory(
      options.source,
      [&progress](const std::string& line) { progress.Update([&line] { return line; }); });
  if (!loaded.ok()) return loaded.status();
  const absl::StatusOr<Importer> importer = Importer::Create(&*loaded);
  if (!importer.ok()) return importer.status();
  const ImportedTree& tree = importer->summary();
  std::vector<std::string> warnings = loaded->warnings;
  warnings.insert(warnings.end(), tree.warnings.begin(), tree.warnings.end());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  if (tree.time_ms > std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) {
    warnings.push_back(
        "the data has times in the future: until then TTLs do not expire, and new znodes get the "
        "newest of these times");
  }
  nlohmann::ordered_json json = ToJson(*loaded, tree, warnings);
  if (!options.check) {
    if (absl::Status s =
            Write(*importer, options.cluster_name, std::move(member), &progress, &json);
        !s.ok())
      return s;
  }
  for (const std::string& warning : warnings)
    std::cerr << "warning: " << EscapeControls(warning) << '\n';
  PrintFacts(json, global.json);
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      command_line->Add(command_line->root(), "import",
                        "Create the data of a new member from that of a ZooKeeper server",
                        [options, command_line] { return Run(*options, command_line->global()); });
  command
      ->add_option("--zookeeper-data", options->source.data_dir,
                   "The dataDir of a stopped ZooKeeper server (3.4 to 3.9)")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--zookeeper-log", options->source.log_dir,
                   "The dataLogDir of that server, if it has one")
      ->type_name("DIR");
  command->add_flag("--check", options->check, "Only read the data, and print a summary");
  command->add_flag("--ignore-digest", options->source.ignore_digest,
                    "Continue if ZooKeeper's own digest differs from that of the tree");
  command->add_flag("--ignore-gaps", options->source.ignore_gaps,
                    "Continue if transactions are missing between others");
  command->add_option("--config", options->config, "The zoo.cfg of the new member")
      ->type_name("FILE");
  command
      ->add_option("--data-dir", options->member.data_dir, "The data directory of the new member")
      ->type_name("DIR");
  command
      ->add_option("--log-dir", options->member.log_dir,
                   "The log directory of the new member, if it is another one")
      ->type_name("DIR");
  command->add_option("--member", options->member.member, "The number of the new member")
      ->type_name("N");
  command->add_option("--members", options->member.voters, "The numbers of all voters")
      ->delimiter(',')
      ->type_name("N,N,N");
  command->add_option("--observers", options->member.observers, "The numbers of all observers")
      ->delimiter(',')
      ->type_name("N,N");
  command
      ->add_option("--cluster-name", options->cluster_name,
                   "Any text, the same for all members; clusters that are imported from the same "
                   "data under different names get different ids")
      ->type_name("NAME");
  command->footer(kFooter);
}

}  // namespace quorate::tools::zookeeper
