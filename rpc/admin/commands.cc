// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/admin/command_functions.h"
#include "rpc/config/config_keys.h"
#include "rpc/config/property_lines.h"

namespace quorate::rpc::admin {
namespace {

constexpr char kNotServing[] = "This ZooKeeper instance is not currently serving requests";

// Sorted by name.
constexpr CommandInfo kCommands[] = {
    {"configuration", {"conf", "config"}, Operation::kHttpConfiguration, true, ReportConfiguration},
    {"connection_stat_reset",
     {"crst"},
     Operation::kHttpConnectionStatReset,
     true,
     ResetConnectionStatistics},
    {"connections", {"cons"}, Operation::kHttpConnections, true, ReportConnections},
    {"dirs", {}, Operation::kHttpDirs, true, ReportDirectories},
    {"dump", {}, Operation::kHttpDump, true, ReportDump},
    {"environment", {"env", "envi"}, Operation::kHttpEnvironment, false, ReportEnvironment},
    {"get_trace_mask", {"gtmk"}, Operation::kHttpGetTraceMask, false, ReportTraceMask},
    {"hash", {}, Operation::kHttpHash, true, ReportHash},
    {"initial_configuration",
     {"icfg"},
     Operation::kHttpInitialConfiguration,
     true,
     ReportInitialConfiguration},
    {"is_read_only", {"isro"}, Operation::kHttpIsReadOnly, true, ReportReadOnly},
    {"last_snapshot", {"lsnp"}, Operation::kHttpLastSnapshot, true, ReportLastSnapshot},
    {"latencies", {}, Operation::kHttpLatencies, false, ReportLatencies},
    {"leader", {"lead"}, Operation::kHttpLeader, true, ReportLeader},
    {"monitor", {"mntr"}, Operation::kHttpMonitor, false, ReportMonitor},
    {"observer_connection_stat_reset",
     {"orst"},
     Operation::kHttpObserverConnectionStatReset,
     true,
     ReportNothing},
    {"observers", {"obsr"}, Operation::kHttpObservers, true, ReportObservers},
    {"restore", {"rest"}, Operation::kHttpRestore, false, nullptr},
    {"ruok", {}, Operation::kHttpRuok, true, ReportNothing},
    {"server_stats", {"srvr"}, Operation::kHttpServerStats, true, ReportServerStatistics},
    {"set_trace_mask", {"stmk"}, Operation::kHttpSetTraceMask, false, SetTraceMask},
    {"slow_requests", {}, Operation::kHttpSlowRequests, false, ReportSlowRequests},
    {"snapshot", {"snap"}, Operation::kHttpSnapshot, true, nullptr},
    {"stat_reset", {"srst"}, Operation::kHttpStatReset, true, ResetServerStatistics},
    {"stats", {"stat"}, Operation::kHttpStats, true, ReportStatistics},
    {"system_properties",
     {"sysp"},
     Operation::kHttpSystemProperties,
     false,
     ReportSystemProperties},
    {"top_requests", {}, Operation::kHttpTopRequests, false, ReportTopRequests},
    {"voting_view", {}, Operation::kHttpVotingView, true, ReportVotingView},
    {"watch_summary", {"wchs"}, Operation::kHttpWatchSummary, true, ReportWatchSummary},
    {"watches", {"wchc"}, Operation::kHttpWatches, true, ReportWatches},
    {"watches_by_path", {"wchp"}, Operation::kHttpWatchesByPath, true, ReportWatchesByPath},
    {"zabstate", {}, Operation::kHttpZabState, false, ReportZabState},
};

// Adds the name of the command and, unless there is one, the absence of an error.
HttpResponse Response(unsigned status, std::string_view name, Json fields) {
  fields["command"] = std::string(name);
  if (!fields.contains("error")) fields["error"] = nullptr;
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  response.body = JsonText(fields);
  return response;
}

}  // namespace

Commands::Commands(const Config& config, zk::ZkFrontend* frontend, Administration* administration,
                   const Clock* clock, std::string_view initial_configuration)
    : config_(config),
      frontend_(frontend),
      administration_(administration),
      clock_(clock),
      initial_configuration_(WithoutSecrets(initial_configuration)) {}

std::span<const CommandInfo> Commands::All() { return kCommands; }

const CommandInfo* Commands::Find(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* found =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const CommandInfo& command) {
        return command.name == name || command.aliases[0] == name || command.aliases[1] == name;
      });
  return found == std::end(kCommands) ? nullptr : found;
}

HttpResponse Commands::Index(std::string_view command_url) {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  for (const CommandInfo& command : kCommands) {
    absl::StrAppend(&response.body, "<a href=\"", ToAbsl(command_url), "/", ToAbsl(command.name),
                    "\">", ToAbsl(command.name), "</a>\n<br/>\n");
  }
  return response;
}

HttpResponse Commands::Run(const CommandInfo& command, const RequestTarget& target) const {
  const CommandContext context{.config = config_,
                               .frontend = *frontend_,
                               .administration = *administration_,
                               .clock = *clock_,
                               .initial_configuration = initial_configuration_,
                               .target = target,
                               .status = frontend_->service().status()};
  const bool serving = context.status.serving() || context.status.read_only;
  if (command.needs_serving && !serving) return RefuseIdle(command.name);
  Json fields = Json::object();
  command.run(context, &fields);
  return Response(200, command.name, std::move(fields));
}

HttpResponse Commands::Refuse(unsigned status, std::string_view name, std::string_view error) {
  Json fields = Json::object();
  fields["command"] = std::string(name);
  fields["error"] = std::string(error);
  return Response(status, name, std::move(fields));
}

HttpResponse Commands::Succeed(std::string_view name, Json fields) {
  return Response(200, name, std::move(fields));
}

HttpResponse Commands::RefuseIdle(std::string_view name) { return Refuse(200, name, kNotServing); }

std::string WithoutSecrets(std::string_view configuration) {
  absl::string_view rest = ToAbsl(configuration);
  std::string text;
  for (int lines = 0; !rest.empty();) {
    const std::string line = NextPropertyLine(&rest, &lines);
    if (line.empty()) continue;
    const size_t end = PropertyKeyEnd(line);
    std::string key;
    if (end != absl::string_view::npos &&
        !UnescapeProperty(absl::string_view(line).substr(0, end), &key)) {
      continue;  // the parser refuses such a line
    }
    absl::StrAppend(&text, IsSecretKey(key) ? key + "=(hidden)" : line, "\n");
  }
  return text;
}

}  // namespace quorate::rpc::admin
