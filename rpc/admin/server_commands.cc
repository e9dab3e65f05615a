// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/admin/command_functions.h"
#include "rpc/config/config_keys.h"
#include "rpc/zookeeper/monitor.h"
#include "rpc/zookeeper/server_info.h"

namespace quorate::rpc::admin {
namespace {

Json Sizes(int64_t last, int64_t min, int64_t max) {
  return {{"last_buffer_size", last}, {"min_buffer_size", min}, {"max_buffer_size", max}};
}

// Returns when this process has written a checkpoint, in seconds since the epoch; -1 if it has not.
int64_t LastCheckpointSeconds(const CommandContext& context) {
  const int64_t ms = context.service().metrics().checkpoint_written_ms;
  return ms < 0 ? -1 : ms / 1000;
}

}  // namespace

void ReportNothing(const CommandContext& /*context*/, Json* /*fields*/) {}

void ReportConfiguration(const CommandContext& context, Json* fields) {
  const Config& config = context.config;
  Json& f = *fields;
  f["client_port"] = config.client_port == 0 ? -1 : static_cast<int>(config.client_port);
  f["data_dir"] = config.data_dir;
  f["data_log_dir"] = config.log_dir;
  f["tick_time"] = config.tick_time_ms;
  f["max_client_cnxns"] = config.max_client_connections;
  f["min_session_timeout"] = config.min_session_timeout_ms;
  f["max_session_timeout"] = config.max_session_timeout_ms;
  f["server_id"] = config.my_id;
  f["client_port_listen_backlog"] = -1;
}

void ReportDirectories(const CommandContext& context, Json* fields) {
  (*fields)["datadir_size"] = zk::ServerInfo::FileBytes(context.config.data_dir);
  (*fields)["logdir_size"] = zk::ServerInfo::FileBytes(context.config.log_dir);
}

void ReportEnvironment(const CommandContext& /*context*/, Json* fields) {
  for (auto& [name, value] : zk::ServerInfo::Environment()) (*fields)[name] = std::move(value);
}

void ReportHash(const CommandContext& context, Json* fields) {
  const auto tree = context.service().ReadTree();
  (*fields)["digests"] = Json::array(
      {{{"zxid", tree->last_zxid().value()}, {"digest", tree->digest()}, {"digest_version", 2}}});
}

void ReportInitialConfiguration(const CommandContext& context, Json* fields) {
  (*fields)["initial_configuration"] = context.initial_configuration;
}

void ReportLastSnapshot(const CommandContext& context, Json* fields) {
  const int64_t zxid = context.administration.checkpoint_zxid().value();
  (*fields)["zxid"] = absl::StrFormat("%x", zxid == 0 ? UINT64_MAX : static_cast<uint64_t>(zxid));
  (*fields)["timestamp"] = LastCheckpointSeconds(context);
}

void ReportMonitor(const CommandContext& context, Json* fields) {
  const auto descriptors = zk::ServerInfo::CountDescriptors();
  auto& members = fields->get_ref<Json::object_t&>();
  const auto add = [&members](std::string_view name, const zk::PlainValue& value) {
    std::visit([&](const auto& v) { members.emplace_back(std::string(name), v); }, value);
  };
  const auto tree = zk::TreeTotals::Read(context.service());
  context.frontend.info().ReadMetrics(context.status, descriptors, tree,
                                      [&](const zk::MetricSources& sources) {
                                        zk::ForEachValue(sources, add);
                                        zk::ForEachUnusedValue(add);
                                      });
}

void ReportReadOnly(const CommandContext& context, Json* fields) {
  (*fields)["read_only"] = context.status.read_only;
}

void ReportServerStatistics(const CommandContext& context, Json* fields) {
  const zk::Statistics& statistics = context.frontend.statistics();
  const zk::Statistics::Totals totals = statistics.Sum();
  const zk::ServerInfo& info = context.frontend.info();
  const Json responses =
      Sizes(totals.response_bytes_last, totals.response_bytes_min, totals.response_bytes_max);
  Json& f = *fields;
  f["version"] = std::string(zk::kReportedVersion);
  f["read_only"] = context.status.read_only;
  const int64_t data_bytes = zk::ServerInfo::FileBytes(context.config.data_dir);
  const int64_t log_bytes = zk::ServerInfo::FileBytes(context.config.log_dir);
  const auto tree = context.service().ReadTree();
  f["server_stats"] = {
      {"packets_sent", totals.packets_sent},
      {"packets_received", totals.packets_received},
      {"fsync_threshold_exceed_count", 0},
      {"client_response_stats", responses},
      {"provider_null", false},
      {"server_state", std::string(info.ModeName(context.status))},
      {"outstanding_requests", statistics.outstanding()},
      {"min_latency", totals.latency_ms.shown_min()},
      {"avg_latency", totals.latency_ms.average()},
      {"max_latency", totals.latency_ms.max},
      {"data_dir_size", data_bytes},
      {"log_dir_size", log_bytes},
      {"last_processed_zxid", tree->last_zxid().value()},
      {"num_alive_client_connections", statistics.connections()},
      {"auth_failed_count", totals.auth_failures + context.service().failed_authentications()},
      {"non_mtlsremote_conn_count", statistics.remote_connections_without_tls.load()},
      {"non_mtlslocal_conn_count", statistics.local_connections_without_tls.load()},
      {"uptime", info.uptime_ms()},
  };
  f["client_response"] = responses;
  if (context.status.is_leader && !context.status.standalone) {
    const ServerMetrics metrics = context.service().metrics();
    f["proposal_stats"] =
        Sizes(metrics.proposal_bytes_last, metrics.proposal_bytes_min, metrics.proposal_bytes_max);
  }
  f["node_count"] = tree->node_count();
}

void ReportSystemProperties(const CommandContext& context, Json* fields) {
  std::vector<std::pair<std::string, std::string>> properties;
  for (const ConfigKey& key : ConfigKeys()) {
    if (!key.is_property) continue;
    const std::string line = ConfigLine(key.name, context.config);
    const size_t equals = line.find('=');
    const absl::string_view value =
        absl::StripSuffix(absl::string_view(line).substr(equals + 1), "\n");
    properties.emplace_back(absl::StrCat("zookeeper.", line.substr(0, equals)), value);
  }
  std::sort(properties.begin(), properties.end());
  for (auto& [name, value] : properties) (*fields)[name] = std::move(value);
}

void ReportTraceMask(const CommandContext& context, Json* fields) {
  (*fields)["tracemask"] = context.frontend.info().trace_mask();
}

void SetTraceMask(const CommandContext& context, Json* fields) {
  const std::optional<std::string_view> text = context.target.Find("traceMask");
  int64_t mask = 0;
  if (!text.has_value()) {
    (*fields)["error"] = "setTraceMask requires long traceMask argument";
  } else if (!absl::SimpleAtoi(ToAbsl(*text), &mask)) {
    (*fields)["error"] =
        absl::StrCat("setTraceMask requires long traceMask argument, got ", ToAbsl(*text));
  } else {
    context.frontend.info().set_trace_mask(mask);
    (*fields)["tracemask"] = mask;
  }
}

void ResetConnectionStatistics(const CommandContext& context, Json* /*fields*/) {
  context.frontend.statistics().ResetConnections();
}

void ResetServerStatistics(const CommandContext& context, Json* /*fields*/) {
  context.frontend.statistics().ResetServer();
}

}  // namespace quorate::rpc::admin
