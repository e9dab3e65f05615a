// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"
#include "consensus/log/env.h"
#include "tools/offline/progress.h"
#include "tools/zookeeper/commands.h"
#include "tools/zookeeper/export.h"
#include "tools/zookeeper/facts.h"
#include "tools/zookeeper/source_tree.h"

namespace quorate::tools::zookeeper {
namespace {

constexpr char kFooter[] =
    "SOURCE is the data directory of a stopped member, or a backup file. Writes a snapshot from\n"
    "which ZooKeeper 3.5 to 3.9 starts, as one server or as an ensemble: copy DIR/version-2 to\n"
    "the empty dataDir of each server. Znodes keep data, access control lists and Stat; new\n"
    "changes have greater zxids than all old ones. Sessions and their ephemerals stay until their\n"
    "timeouts have passed. Only clients whose sessions began in ZooKeeper can reconnect to them,\n"
    "because ZooKeeper accepts only the passwords that it derives itself.\n"
    "\n"
    "All entries of a member's log are exported, even those that the member does not know to be\n"
    "committed; a warning then says so. Stop all members, and use the one whose last entry has "
    "the\n"
    "greatest term (`quorate verify` shows it), and among those the greatest number; or use a\n"
    "backup.\n"
    "\n"
    "Znodes with a TTL need servers that run with -Dzookeeper.extendedTypesEnabled=true: other\n"
    "servers delete them at their start.\n"
    "\n"
    "  quorate export --zookeeper-snapshot /tmp/back /var/lib/quorate";

struct Options {
  std::string directory;
  std::string source;
  std::string log_dir;
};

absl::Status Run(const Options& options, const GlobalOptions& global) {
  // The files are their owner's alone, also those that libraries make.
  umask(S_IRWXG | S_IRWXO);
  Progress progress;
  absl::StatusOr<SourceTree> source = LoadSourceTree(options.source, options.log_dir, &progress);
  if (!source.ok()) return source.status();
  const auto exported = ExportSnapshot(*source->tree, options.directory, consensus::Env::Posix());
  if (!exported.ok()) return exported.status();
  std::vector<std::string> warnings = std::move(source->warnings);
  if (exported->ttl_nodes > 0) {
    warnings.push_back(absl::StrCat(exported->ttl_nodes,
                                    " nodes have a TTL; start ZooKeeper with "
                                    "-Dzookeeper.extendedTypesEnabled=true, or it deletes them"));
  }
  for (const std::string& warning : warnings)
    std::cerr << "warning: " << EscapeControls(warning) << '\n';
  nlohmann::ordered_json json;
  json["snapshot"] = exported->file;
  json["zxid"] = absl::StrFormat("0x%x", exported->zxid.value());
  json["epoch"] = exported->epoch;
  json["last_term"] = source->term;
  json["open_entries"] = source->commit.open;
  json["nodes"] = exported->nodes;
  json["ephemerals"] = exported->ephemerals;
  json["ttl_nodes"] = exported->ttl_nodes;
  json["sessions"] = exported->sessions;
  json["bytes"] = exported->bytes;
  json["warnings"] = warnings;
  PrintFacts(json, global.json);
  return absl::OkStatus();
}

}  // namespace

void AddExportCommand(CommandLine* command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      command_line->Add(command_line->root(), "export",
                        "Create a ZooKeeper snapshot from the data of a member, or from a backup",
                        [options, command_line] { return Run(*options, command_line->global()); });
  command
      ->add_option("--zookeeper-snapshot", options->directory,
                   "Directory in which to create version-2 with the snapshot")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("source", options->source,
                   "The data directory of a stopped member, or a backup file")
      ->required()
      ->type_name("SOURCE");
  command
      ->add_option("--log-dir", options->log_dir,
                   "The log directory of that member, if it is another one")
      ->type_name("DIR");
  command->footer(kFooter);
}

}  // namespace quorate::tools::zookeeper
