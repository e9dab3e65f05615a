// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/top_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/escape.h"
#include "base/strings.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;
using Number = std::optional<double>;

constexpr double kPercentOfOne = 100;
constexpr std::string_view kP50 = "quantile=\"0.5\"";
constexpr std::string_view kP99 = "quantile=\"0.99\"";

enum class Unit { kCount, kMs, kPercent, kBytes };

struct Column {
  const char* heading;
  const char* key;  // in JSON
  Unit unit;
  Number (*value)(const Observation& before, const Observation& now);
};

Number AverageSyncMs(const Observation& before, const Observation& now) {
  const Number count = Increase(before, now, "fsynctime_count");
  const Number sum_ms = Increase(before, now, "fsynctime_sum");
  if (!count.has_value() || !sum_ms.has_value() || *count < 1) return std::nullopt;
  return *sum_ms / *count;
}

Number CpuPercent(const Observation& before, const Observation& now) {
  const Number rate = Rate(before, now, "process_cpu_seconds_total");
  return rate.has_value() ? Number(*rate * kPercentOfOne) : std::nullopt;
}

constexpr Column kColumns[] = {
    {"CONNS", "connections", Unit::kCount,
     [](const auto&, const auto& now) { return now.Value("num_alive_connections"); }},
    {"REQ/S", "requests_per_second", Unit::kCount,
     [](const auto& before, const auto& now) { return Rate(before, now, "packets_received"); }},
    {"READS/S", "reads_per_second", Unit::kCount,
     [](const auto& before, const auto& now) { return Rate(before, now, "readlatency_count"); }},
    {"P50", "read_p50_ms", Unit::kMs,
     [](const auto&, const auto& now) { return now.Value("readlatency", kP50); }},
    {"P99", "read_p99_ms", Unit::kMs,
     [](const auto&, const auto& now) { return now.Value("readlatency", kP99); }},
    {"WRITES/S", "writes_per_second", Unit::kCount,
     [](const auto& before, const auto& now) { return Rate(before, now, "updatelatency_count"); }},
    {"P50", "write_p50_ms", Unit::kMs,
     [](const auto&, const auto& now) { return now.Value("updatelatency", kP50); }},
    {"P99", "write_p99_ms", Unit::kMs,
     [](const auto&, const auto& now) { return now.Value("updatelatency", kP99); }},
    {"WAITING", "outstanding_requests", Unit::kCount,
     [](const auto&, const auto& now) { return now.Value("outstanding_requests"); }},
    {"SYNCS/S", "syncs_per_second", Unit::kCount,
     [](const auto& before, const auto& now) { return Rate(before, now, "fsynctime_count"); }},
    {"SYNC", "sync_ms", Unit::kMs, AverageSyncMs},
    {"CPU", "cpu_percent", Unit::kPercent, CpuPercent},
    {"MEMORY", "memory_bytes", Unit::kBytes,
     [](const auto&, const auto& now) { return now.Value("process_resident_memory_bytes"); }},
    {"WATCHES", "watches", Unit::kCount,
     [](const auto&, const auto& now) { return now.Value("quorate_all_watch_count"); }},
};

std::string TextOf(const Number& value, Unit unit) {
  if (!value.has_value()) return "-";
  switch (unit) {
    case Unit::kCount:
      return absl::StrCat(std::llround(*value));
    case Unit::kMs:
      // Servers count whole milliseconds.
      return *value < 1 ? "<1 ms" : absl::StrCat(std::llround(*value), " ms");
    case Unit::kPercent:
      return absl::StrCat(std::llround(*value), " %");
    case Unit::kBytes:
      break;
  }
  return Bytes(static_cast<uint64_t>(*value));
}

std::string RoleOf(const Observation& server) {
  if (!server.status->serving()) {
    return server.status->leader() == 0 ? "looking" : "not serving";
  }
  return RoleName(server.status->role());
}

// Returns the line about the cluster, from the server that has applied most.
std::string Heading(const std::vector<Observation>& now) {
  const Observation* newest = nullptr;
  for (const Observation& server : now) {
    if (!server.status.ok()) continue;
    if (newest == nullptr || newest->status->zxid() < server.status->zxid()) newest = &server;
  }
  std::string text = absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone());
  if (newest == nullptr) return text + "  no server answers\n";
  const v1::StatusResponse& status = *newest->status;
  absl::StrAppend(
      &text, "  ",
      status.leader() == 0 ? std::string("no leader") : absl::StrCat("leader ", status.leader()),
      "  term ", status.term(), "  zxid ", Hex(static_cast<uint64_t>(status.zxid())), "  sessions ",
      status.sessions(), "  znodes ", status.nodes());
  if (!status.reduced()) absl::StrAppend(&text, "  data ", Bytes(status.data_bytes()));
  return text + "\n";
}

int64_t NewestZxid(const std::vector<Observation>& now) {
  int64_t newest = 0;
  for (const Observation& server : now) {
    if (server.status.ok()) newest = std::max<int64_t>(newest, server.status->zxid());
  }
  return newest;
}

}  // namespace

std::string TopText(const std::vector<Observation>& before, const std::vector<Observation>& now) {
  std::vector<std::vector<std::string>> rows = {{"MEMBER", "ROLE", "BEHIND"}};
  for (const Column& column : kColumns) rows[0].emplace_back(column.heading);
  const int64_t newest = NewestZxid(now);
  std::string problems;
  for (size_t i = 0; i < now.size(); ++i) {
    const Observation& server = now[i];
    if (!server.status.ok()) {
      rows.push_back({server.address, "no answer"});
      absl::StrAppend(&problems, server.address, ": ",
                      EscapeLine(ToStd(server.status.status().message())), "\n");
      continue;
    }
    rows.push_back({absl::StrCat(server.status->member()), RoleOf(server),
                    absl::StrCat(newest - server.status->zxid())});
    for (const Column& column : kColumns) {
      rows.back().push_back(TextOf(column.value(before[i], server), column.unit));
    }
    if (server.metrics.ok()) continue;
    absl::StrAppend(&problems, "member ", server.status->member(),
                    ": no metrics: ", EscapeLine(ToStd(server.metrics.status().message())), "\n");
  }
  return Heading(now) + "\n" + Table(rows) + problems;
}

ordered_json TopJson(const std::vector<Observation>& before, const std::vector<Observation>& now) {
  ordered_json servers = ordered_json::array();
  const int64_t newest = NewestZxid(now);
  for (size_t i = 0; i < now.size(); ++i) {
    const Observation& server = now[i];
    ordered_json json = {{"server", server.address}};
    if (!server.status.ok()) {
      json["error"] = ToStd(server.status.status().message());
    } else {
      json["member"] = server.status->member();
      json["role"] = RoleOf(server);
      json["behind"] = newest - server.status->zxid();
      if (!server.metrics.ok()) json["metrics_error"] = ToStd(server.metrics.status().message());
      for (const Column& column : kColumns) {
        const Number value = column.value(before[i], server);
        json[column.key] = value.has_value() ? ordered_json(*value) : ordered_json(nullptr);
      }
    }
    servers.push_back(std::move(json));
  }
  return {{"time", absl::FormatTime(absl::Now(), absl::UTCTimeZone())},
          {"servers", std::move(servers)}};
}

}  // namespace quorate::tools
