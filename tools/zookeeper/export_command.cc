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
#include "consensus/log/env.h"
#include "tools/cli/escape.h"
#include "tools/offline/progress.h"
#include "tools/zookeeper/commands.h"
#include "tools/zookeeper/export.h"
#include "tools/zookeeper/facts.h"
#include "tools/zookeeper/source_tree.h"

namespace quorate::tools::zookeeper {
namespace {

constexpr char kFooter[] =
    "SOURCE is the data directory of a stopped member, or a backup file. Writes a snapshot from\n"
    "which ZooKeeper 3.5 to 3.9 starts, alone or as several servers: copy DIR/version-2 to the\n"
    "empty dataDir of each. Nodes keep data, access control lists and Stat; new changes have\n"
    "greater zxids than all old ones. Sessions are there, and so are their ephemerals, until "
    "their\n"
    "timeouts have passed: ZooKeeper takes back only clients whose password it would have given\n"
    "itself, which are those that came from ZooKeeper.\n"
    "\n"
    "Of a member all that it has is exported, also what it does not know by itself to be "
    "committed;\n"
    "that is then said. Stop all members and take the one that has the last entry of the greatest\n"
    "term (`quorate verify` shows it), and of those the greatest number; or take a backup.\n"
    "\n"
    "Nodes with a TTL need servers that run with -Dzookeeper.extendedTypesEnabled=true: others\n"
    "delete them when they start.\n"
    "\n"
    "  quorate export --zookeeper-snapshot /tmp/back /var/lib/quorate";

struct Options {
  std::string directory;
  std::string source;
  std::string log_dir;
};

absl::Status Run(const Options& options, const GlobalOptions& global) {
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
  CLI::App* command = command_line->Add(
      command_line->root(), "export", "Make ZooKeeper's data from a member's or a backup",
      [options, command_line] { return Run(*options, command_line->global()); });
  command
      ->add_option("--zookeeper-snapshot", options->directory,
                   "where version-2 with the snapshot is to be made")
      ->required()
      ->type_name("DIR");
  command->add_option("source", options->source, "data directory of a stopped member, or a backup")
      ->required()
      ->type_name("SOURCE");
  command->add_option("--log-dir", options->log_dir, "of that member, if its log is elsewhere")
      ->type_name("DIR");
  command->footer(kFooter);
}

}  // namespace quorate::tools::zookeeper
