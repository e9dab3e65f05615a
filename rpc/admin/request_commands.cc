// SPDX-License-Identifier: Apache-2.0

// The commands about the requests of clients: which were slow, how long they take, and who sends the most.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/admin/command_functions.h"
#include "rpc/admin/slow_requests_json.h"
#include "rpc/frontend/request_statistics.h"

namespace quorate::rpc::admin {
namespace {

constexpr size_t kTopRequests = 10;
constexpr size_t kTopRequestsMax = 100;
constexpr double kUsOfMs = 1000;

// Sets `*count` to ?count=, if there is one. Otherwise reports the error and returns false.
bool ReadCount(const CommandContext& context, size_t* count, Json* fields) {
  const auto asked = context.target.Find("count");
  if (!asked.has_value() || absl::SimpleAtoi(ToAbsl(*asked), count)) return true;
  (*fields)["error"] = "?count= has to be a number";
  return false;
}

Json LatencyFields(const WindowLatencies& latencies) {
  return {{"count", latencies.count()},
          {"per_second", latencies.PerSecond(latencies.count())},
          {"avg_ms", latencies.average_us() / kUsOfMs},
          {"p50_ms", latencies.PercentileUs(0.5) / kUsOfMs},
          {"p99_ms", latencies.PercentileUs(0.99) / kUsOfMs},
          {"max_ms", static_cast<double>(latencies.max_us) / kUsOfMs}};
}

}  // namespace

void ReportSlowRequests(const CommandContext& context, Json* fields) {
  size_t count = SlowRequests::kKept;
  if (!ReadCount(context, &count, fields)) return;
  AddSlowRequests(context.service().slow_requests(), count, fields);
}

void ReportLatencies(const CommandContext& context, Json* fields) {
  Json windows = Json::array();
  for (const std::chrono::minutes window : {std::chrono::minutes(1), std::chrono::minutes(5)}) {
    const RequestStatistics::Recent recent =
        context.service().requests().SumRecent(window, context.clock.Now());
    windows.push_back({{"seconds", std::chrono::seconds(window).count()},
                       {"all", LatencyFields(recent.all())},
                       {"reads", LatencyFields(recent.reads)},
                       {"writes", LatencyFields(recent.writes)}});
  }
  (*fields)["windows"] = std::move(windows);
}

void ReportTopRequests(const CommandContext& context, Json* fields) {
  size_t count = kTopRequests;
  if (!ReadCount(context, &count, fields)) return;
  const RequestStatistics& requests = context.service().requests();
  const auto now = context.clock.Now();
  const WindowLatencies all = requests.SumRecent(LoopTopRequests::kWindow, now).all();
  (*fields)["window_seconds"] = std::chrono::seconds(LoopTopRequests::kWindow).count();
  (*fields)["per_second"] = all.PerSecond(all.count());
  const auto add = [&](std::string_view name, RequestKey key) {
    Json list = Json::array();
    for (const TopEntry& entry : requests.Top(key, now, std::min(count, kTopRequestsMax))) {
      Json shown = {{"name", Escape(entry.text)}, {"per_second", all.PerSecond(entry.count)}};
      if (key == RequestKey::kClient) {
        shown["session"] = absl::StrFormat("0x%x", static_cast<uint64_t>(entry.session));
      }
      list.push_back(std::move(shown));
    }
    (*fields)[std::string(name)] = std::move(list);
  };
  add("clients", RequestKey::kClient);
  add("identities", RequestKey::kIdentity);
  add("paths", RequestKey::kPath);
  add("operations", RequestKey::kOperation);
}

}  // namespace quorate::rpc::admin
