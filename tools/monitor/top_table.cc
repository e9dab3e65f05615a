// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/top_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
constexpr double kUsOfMs = 1000;
constexpr double kMsOfSecond = 1000;
// The rows of each list of the busiest.
constexpr size_t kTopRows = 5;
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

// Returns a latency of the last minute, or of an older server that of the last ten minutes.
Number RecentMs(const Observation& now, std::string_view recent, std::string_view summary,
                std::string_view quantile) {
  const Number us = now.Value(recent);
  return us.has_value() ? Number(*us / kUsOfMs) : now.Value(summary, quantile);
}

// Returns a rate of the last minute, of the same requests as the latencies beside it, or of an older server
// that of its ZooKeeper clients between the observations.
Number RecentRate(const Observation& before, const Observation& now, std::string_view recent,
                  std::string_view counter) {
  const Number rate = now.Value(recent);
  return rate.has_value() ? rate : Rate(before, now, counter);
}

constexpr Column kColumns[] = {
    {"CONNS", "connections", Unit::kCount,
     [](const auto&, const auto& now) { return now.Value("num_alive_connections"); }},
    {"REQ/S", "requests_per_second", Unit::kCount,
     [](const auto& before, const auto& now) {
       return RecentRate(before, now, "quorate_requests_1m_per_second", "packets_received");
     }},
    {"READS/S", "reads_per_second", Unit::kCount,
     [](const auto& before, const auto& now) {
       return RecentRate(before, now, "quorate_reads_1m_per_second", "readlatency_count");
     }},
    {"P50", "read_p50_ms", Unit::kMs,
     [](const auto&, const auto& now) {
       return RecentMs(now, "quorate_read_latency_1m_p50_us", "readlatency", kP50);
     }},
    {"P99", "read_p99_ms", Unit::kMs,
     [](const auto&, const auto& now) {
       return RecentMs(now, "quorate_read_latency_1m_p99_us", "readlatency", kP99);
     }},
    {"WRITES/S", "writes_per_second", Unit::kCount,
     [](const auto& before, const auto& now) {
       return RecentRate(before, now, "quorate_writes_1m_per_second", "updatelatency_count");
     }},
    {"P50", "write_p50_ms", Unit::kMs,
     [](const auto&, const auto& now) {
       return RecentMs(now, "quorate_write_latency_1m_p50_us", "updatelatency", kP50);
     }},
    {"P99", "write_p99_ms", Unit::kMs,
     [](const auto&, const auto& now) {
       return RecentMs(now, "quorate_write_latency_1m_p99_us", "updatelatency", kP99);
     }},
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

constexpr std::string_view kStages[] = {"queue",  "log_write", "commit", "apply",
                                        "answer", "barrier",   "read"};

Number StageMs(const Observation& server, std::string_view stage) {
  const Number seconds =
      server.Value("quorate_request_stage_p99_1m_seconds", "stage=\"" + std::string(stage) + "\"");
  return seconds.has_value() ? Number(*seconds * kMsOfSecond) : std::nullopt;
}

// Returns the table of the 99th percentiles of the stages; empty if no server has any.
std::string StagesText(const std::vector<Observation>& now) {
  std::vector<std::vector<std::string>> rows = {{"STAGE P99"}};
  for (const std::string_view stage : kStages) {
    rows[0].push_back(absl::AsciiStrToUpper(ToAbsl(stage)));
  }
  for (const Observation& server : now) {
    if (!server.metrics.ok() || !server.status.ok()) continue;
    std::vector<std::string> row = {absl::StrCat("member ", server.status->member())};
    bool has_any = false;
    for (const std::string_view stage : kStages) {
      const Number ms = StageMs(server, stage);
      has_any |= ms.has_value();
      row.push_back(ms.has_value() ? absl::StrFormat("%.1f ms", *ms) : "-");
    }
    if (has_any) rows.push_back(std::move(row));
  }
  return rows.size() == 1 ? "" : "\n" + Table(rows);
}

// A client, path or identity of one or all servers.
struct Busy {
  std::string name;
  int64_t session = 0;
  uint32_t member = 0;
  double per_second = 0;
};
using Rates = google::protobuf::RepeatedPtrField<v1::RequestRate>;

// Returns the busiest of all servers, the first one first. Equal names of several servers are added up,
// unless `by_member`.
std::vector<Busy> BusiestOf(const std::vector<Observation>& now,
                            const Rates& (v1::TopRequestsResponse::*rates)() const,
                            bool by_member) {
  std::vector<Busy> all;
  for (const Observation& server : now) {
    if (!server.top.ok()) continue;
    for (const v1::RequestRate& rate : ((*server.top).*rates)()) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const Busy& busy) {
        return !by_member && busy.name == rate.name();
      });
      if (known != all.end()) {
        known->per_second += rate.per_second();
      } else {
        all.push_back({rate.name(), rate.session(), server.top->member(), rate.per_second()});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Busy& a, const Busy& b) { return a.per_second > b.per_second; });
  if (all.size() > kTopRows) all.resize(kTopRows);
  return all;
}

std::vector<Busy> BusiestClients(const std::vector<Observation>& now) {
  return BusiestOf(now, &v1::TopRequestsResponse::clients, /*by_member=*/true);
}
std::vector<Busy> HottestPaths(const std::vector<Observation>& now) {
  return BusiestOf(now, &v1::TopRequestsResponse::paths, /*by_member=*/false);
}
std::vector<Busy> BusiestIdentities(const std::vector<Observation>& now) {
  return BusiestOf(now, &v1::TopRequestsResponse::identities, /*by_member=*/false);
}

std::string RateText(double per_second) { return absl::StrFormat("%.1f", per_second); }

// Returns the tables of the busiest clients, paths and identities of the last minute.
std::string BusiestText(const std::vector<Observation>& now) {
  std::string text;
  std::vector<std::vector<std::string>> clients = {{"CLIENT", "REQ/S", "MEMBER", "SESSION"}};
  for (const Busy& busy : BusiestClients(now)) {
    clients.push_back({EscapeLine(busy.name), RateText(busy.per_second), absl::StrCat(busy.member),
                       busy.session == 0 ? "-" : Hex(static_cast<uint64_t>(busy.session))});
  }
  if (clients.size() > 1) absl::StrAppend(&text, "\n", Table(clients));
  const auto add = [&text](const char* heading, const std::vector<Busy>& busiest) {
    std::vector<std::vector<std::string>> rows = {{heading, "REQ/S"}};
    for (const Busy& busy : busiest) {
      rows.push_back({EscapeLine(busy.name), RateText(busy.per_second)});
    }
    if (rows.size() > 1) absl::StrAppend(&text, "\n", Table(rows));
  };
  add("PATH", HottestPaths(now));
  add("IDENTITY", BusiestIdentities(now));
  return text;
}

ordered_json BusiestJson(const std::vector<Busy>& busiest, bool are_clients) {
  ordered_json list = ordered_json::array();
  for (const Busy& busy : busiest) {
    ordered_json json = {{"name", busy.name}, {"per_second", busy.per_second}};
    if (are_clients) {
      json["member"] = busy.member;
      json["session"] = Hex(static_cast<uint64_t>(busy.session));
    }
    list.push_back(std::move(json));
  }
  return list;
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
  return Heading(now) + "\n" + Table(rows) + StagesText(now) + BusiestText(now) + problems;
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
      ordered_json stages = ordered_json::object();
      for (const std::string_view stage : kStages) {
        const Number ms = StageMs(server, stage);
        if (ms.has_value()) stages[std::string(stage)] = *ms;
      }
      json["stage_p99_ms"] = std::move(stages);
    }
    servers.push_back(std::move(json));
  }
  return {{"time", absl::FormatTime(absl::Now(), absl::UTCTimeZone())},
          {"servers", std::move(servers)},
          {"busiest_clients", BusiestJson(BusiestClients(now), /*are_clients=*/true)},
          {"hottest_paths", BusiestJson(HottestPaths(now), /*are_clients=*/false)},
          {"busiest_identities", BusiestJson(BusiestIdentities(now), /*are_clients=*/false)}};
}

}  // namespace quorate::tools
