// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/slow_table.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/proto/times.h"
#include "tools/cli/text.h"

namespace quorate::tools {
namespace {

using nlohmann::ordered_json;

struct Request {
  uint32_t member = 0;
  const v1::SlowRequest* request = nullptr;
};

int64_t UsOf(const google::protobuf::Duration& duration) { return v1::ToUs(duration).value_or(0); }

int64_t AnswerMsOf(const v1::SlowRequest& request) {
  return v1::ToMs(request.answer_time()).value_or(0);
}

// Returns the last requests of all members, the newest last.
std::vector<Request> LastOf(const std::vector<SlowAnswer>& answers, size_t count_max) {
  std::vector<Request> all;
  for (const SlowAnswer& answer : answers) {
    if (!answer.slow.ok()) continue;
    for (const v1::SlowRequest& request : answer.slow->requests()) {
      all.push_back({answer.slow->member(), &request});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Request& a, const Request& b) {
    return AnswerMsOf(*a.request) < AnswerMsOf(*b.request);
  });
  if (all.size() > count_max) {
    all.erase(all.begin(), all.end() - static_cast<ptrdiff_t>(count_max));
  }
  return all;
}

std::string MsText(int64_t us) { return absl::StrFormat("%.1f", static_cast<double>(us) / 1000); }

std::string StagesText(const v1::SlowRequest& request) {
  std::string text;
  for (const v1::StageTime& stage : request.stages()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", stage.stage(), "=",
                    MsText(UsOf(stage.duration())));
  }
  return text;
}

std::string Summary(const v1::SlowRequestsResponse& slow) {
  const std::string member = absl::StrCat("member ", slow.member(), ": ");
  const int64_t threshold_ms = v1::ToMs(slow.threshold()).value_or(0);
  if (threshold_ms == 0) {
    return member + "slow requests are not recorded (slowRequestThresholdMs=0)\n";
  }
  std::string text =
      absl::StrCat(member, slow.count(), slow.count() == 1 ? " request" : " requests", " took ",
                   threshold_ms, " ms or longer since its start");
  if (slow.not_kept() > 0)
    absl::StrAppend(&text, "; ", slow.not_kept(), " of them were only counted");
  return text + "\n";
}

}  // namespace

std::string SlowText(const std::vector<SlowAnswer>& answers, size_t count_max) {
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "MEMBER", "OPERATION", "MS", "LONGEST", "STAGES (MS)", "CLIENT", "SESSION", "PATH"}};
  for (const auto& [member, request] : LastOf(answers, count_max)) {
    rows.push_back(
        {absl::FormatTime("%Y-%m-%d %H:%M:%E3S", absl::FromUnixMillis(AnswerMsOf(*request)),
                          absl::LocalTimeZone()),
         absl::StrCat(member), request->operation(), MsText(UsOf(request->duration())),
         request->longest_stage(), StagesText(*request), request->client(),
         Hex(static_cast<uint64_t>(request->session())), request->path()});
  }
  std::string text = rows.size() > 1 ? Table(rows) + "\n" : "";
  for (const SlowAnswer& answer : answers) {
    if (answer.slow.ok()) {
      text += Summary(*answer.slow);
    } else {
      absl::StrAppend(&text, answer.address, ": ",
                      EscapeLine(ToStd(answer.slow.status().message())), "\n");
    }
  }
  return text;
}

ordered_json SlowJson(const std::vector<SlowAnswer>& answers, size_t count_max) {
  ordered_json requests = ordered_json::array();
  for (const auto& [member, request] : LastOf(answers, count_max)) {
    ordered_json stages = ordered_json::object();
    for (const v1::StageTime& stage : request->stages()) {
      stages[stage.stage()] = UsOf(stage.duration());
    }
    requests.push_back({{"member", member},
                        {"answered_ms", AnswerMsOf(*request)},
                        {"operation", request->operation()},
                        {"path", request->path()},
                        {"session", Hex(static_cast<uint64_t>(request->session()))},
                        {"client", request->client()},
                        {"zxid", request->zxid()},
                        {"us", UsOf(request->duration())},
                        {"longest_stage", request->longest_stage()},
                        {"stages_us", std::move(stages)}});
  }
  ordered_json servers = ordered_json::array();
  for (const SlowAnswer& answer : answers) {
    ordered_json server = {{"server", answer.address}};
    if (answer.slow.ok()) {
      server["member"] = answer.slow->member();
      server["threshold_ms"] = v1::ToMs(answer.slow->threshold()).value_or(0);
      server["count"] = answer.slow->count();
      server["not_kept"] = answer.slow->not_kept();
    } else {
      server["error"] = ToStd(answer.slow.status().message());
    }
    servers.push_back(std::move(server));
  }
  return {{"requests", std::move(requests)}, {"servers", std::move(servers)}};
}

}  // namespace quorate::tools
