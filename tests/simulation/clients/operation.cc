// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quorate::simulation {
namespace {

constexpr size_t kShownBytesMax = 40;

std::string VersionText(int32_t version) {
  return version == tree::kAnyVersion ? "" : absl::StrCat(" v", version);
}

std::string StepText(const Step& step) {
  std::string text = absl::StrCat(ToString(step.kind), " ", step.path);
  if (IsCreate(step.kind)) {
    absl::StrAppend(&text, " mode ", static_cast<int32_t>(step.mode));
  }
  absl::StrAppend(&text, VersionText(step.version));
  if (step.kind == OperationKind::kRemoveRecursive) absl::StrAppend(&text, " limit ", step.limit);
  if (step.kind == OperationKind::kCheckStat) {
    absl::StrAppend(&text, " ", simulation::ToString(step.expected));
  }
  if (IsCreate(step.kind) || step.kind == OperationKind::kSetData) {
    absl::StrAppend(&text,
                    step.has_data ? absl::StrCat(" \"", Shortened(step.data), "\"") : " null");
  }
  return text;
}

std::string ResultText(const StepResult& result) {
  std::string text(tree::ToString(result.error));
  if (!result.path.empty()) absl::StrAppend(&text, " ", result.path);
  if (result.stat) absl::StrAppend(&text, " ", simulation::ToString(*result.stat));
  return text;
}

}  // namespace

bool IsLogged(OperationKind kind) { return kind <= OperationKind::kCloseSession; }

bool IsRead(OperationKind kind) {
  return kind >= OperationKind::kExists && kind <= OperationKind::kListRecursive;
}

bool IsList(OperationKind kind) {
  return kind == OperationKind::kGetChildren || kind == OperationKind::kFilteredList ||
         kind == OperationKind::kFilteredListDetailed;
}

bool IsCreate(OperationKind kind) {
  return kind == OperationKind::kCreate || kind == OperationKind::kCreateIfNotExists;
}

Request MakeCreate(std::string path, std::string data, tree::CreateMode mode, bool wants_stat) {
  Step step = MakeStep(OperationKind::kCreate, std::move(path), std::move(data));
  step.mode = mode;
  step.wants_stat = wants_stat;
  return MakeWrite(std::move(step));
}

Request MakeDelete(std::string path, int32_t version) {
  return MakeWrite(MakeStep(OperationKind::kDelete, std::move(path), "", version));
}

Request MakeSetData(std::string path, std::string data, int32_t version) {
  return MakeWrite(MakeStep(OperationKind::kSetData, std::move(path), std::move(data), version));
}

Request MakeSetAcl(std::string path, int32_t version) {
  return MakeWrite(MakeStep(OperationKind::kSetAcl, std::move(path), "", version));
}

Request MakeWrite(Step step) {
  Request request;
  request.kind = step.kind;
  request.steps.push_back(std::move(step));
  return request;
}

Request MakeMulti(std::vector<Step> steps) {
  Request request;
  request.kind = OperationKind::kMulti;
  request.steps = std::move(steps);
  return request;
}

Request MakeRead(OperationKind kind, std::string path, bool watch) {
  Request request;
  request.kind = kind;
  request.path = std::move(path);
  request.watch = watch;
  request.wants_stat = true;
  return request;
}

Request MakeListRecursive(std::string path, uint32_t max) {
  Request request;
  request.kind = OperationKind::kListRecursive;
  request.path = std::move(path);
  request.max = max;
  return request;
}

Request MakeSync(std::string path) {
  Request request;
  request.kind = OperationKind::kSync;
  request.path = std::move(path);
  return request;
}

Request MakeCloseSession() {
  Request request;
  request.kind = OperationKind::kCloseSession;
  return request;
}

Step MakeStep(OperationKind kind, std::string path, std::string data, int32_t version) {
  Step step;
  step.kind = kind;
  step.path = std::move(path);
  step.data = std::move(data);
  step.version = version;
  return step;
}

tree::Stat AnyStat() {
  constexpr tree::Zxid kAny(-1);
  return {kAny, kAny, -1, -1, -1, -1, -1, tree::SessionId(-1), -1, -1, kAny};
}

std::string Shortened(std::string_view data) {
  if (data.size() <= kShownBytesMax) return std::string(data);
  return absl::StrCat(std::string(data.substr(0, kShownBytesMax)), "... (", data.size(), " bytes)");
}

std::string ToString(OperationKind kind) {
  switch (kind) {
    case OperationKind::kCreate:
      return "create";
    case OperationKind::kDelete:
      return "delete";
    case OperationKind::kSetData:
      return "setData";
    case OperationKind::kSetAcl:
      return "setACL";
    case OperationKind::kCheck:
      return "check";
    case OperationKind::kCheckNotExists:
      return "checkNotExists";
    case OperationKind::kCreateIfNotExists:
      return "createIfNotExists";
    case OperationKind::kRemoveRecursive:
      return "removeRecursive";
    case OperationKind::kCheckStat:
      return "checkStat";
    case OperationKind::kTryRemove:
      return "tryRemove";
    case OperationKind::kMulti:
      return "multi";
    case OperationKind::kCloseSession:
      return "closeSession";
    case OperationKind::kExists:
      return "exists";
    case OperationKind::kGetData:
      return "getData";
    case OperationKind::kGetChildren:
      return "getChildren";
    case OperationKind::kFilteredList:
      return "filteredList";
    case OperationKind::kFilteredListDetailed:
      return "filteredListWithStatsAndData";
    case OperationKind::kListRecursive:
      return "listRecursive";
    case OperationKind::kSync:
      return "sync";
    case OperationKind::kSetWatches:
      return "setWatches";
    case OperationKind::kAddWatch:
      return "addWatch";
    case OperationKind::kMultiRead:
      return "multiRead";
  }
  return "unknown";
}

std::string ToString(const Request& request) {
  if (request.kind == OperationKind::kMulti) {
    return absl::StrCat(
        "multi[",
        absl::StrJoin(request.steps, "; ",
                      [](std::string* out, const Step& step) { out->append(StepText(step)); }),
        "]");
  }
  if (!request.steps.empty()) return StepText(request.steps[0]);
  if (request.kind == OperationKind::kSetWatches) {
    return absl::StrCat("setWatches since ", request.relative_zxid, " data [",
                        absl::StrJoin(request.data_watches, " "), "] exist [",
                        absl::StrJoin(request.exist_watches, " "), "] child [",
                        absl::StrJoin(request.child_watches, " "), "]");
  }
  if (request.kind == OperationKind::kMultiRead) {
    return absl::StrCat("multiRead [", absl::StrJoin(request.paths, " "), "]");
  }
  std::string text =
      absl::StrCat(ToString(request.kind), " ", request.path, request.watch ? " watch" : "");
  if (request.kind == OperationKind::kListRecursive) absl::StrAppend(&text, " max ", request.max);
  if (request.child_kind != ChildKind::kAll) {
    absl::StrAppend(&text,
                    request.child_kind == ChildKind::kEphemeral ? " ephemerals" : " no ephemerals");
  }
  if (request.wants_child_stats) absl::StrAppend(&text, " stats");
  if (request.wants_child_data) absl::StrAppend(&text, " data");
  return text;
}

std::string ToString(const Request& request, const Reply& reply) {
  std::string text =
      absl::StrCat("zxid ", reply.zxid, " ", std::string(tree::ToString(reply.error)));
  for (const StepResult& step : reply.steps) absl::StrAppend(&text, " {", ResultText(step), "}");
  if (request.kind == OperationKind::kGetData && reply.error == tree::ErrorCode::kOk) {
    absl::StrAppend(&text,
                    reply.has_data ? absl::StrCat(" \"", Shortened(reply.data), "\"") : " null");
  }
  const bool lists = IsList(request.kind) || request.kind == OperationKind::kListRecursive;
  if (lists && reply.error == tree::ErrorCode::kOk) {
    absl::StrAppend(&text, " [", Shortened(absl::StrJoin(reply.children, " ")), "]");
  }
  for (const tree::Stat& stat : reply.child_stats) absl::StrAppend(&text, " ", ToString(stat));
  for (const auto& data : reply.child_data) {
    absl::StrAppend(&text, data ? absl::StrCat(" \"", Shortened(*data), "\"") : " null");
  }
  if (reply.stat) absl::StrAppend(&text, " ", ToString(*reply.stat));
  return text;
}

std::string ToString(const WatchEvent& event) {
  static constexpr const char* kNames[] = {"?", "NodeCreated", "NodeDeleted", "NodeDataChanged",
                                           "NodeChildrenChanged"};
  const auto type = static_cast<size_t>(event.type);
  return absl::StrCat(type < std::size(kNames) ? kNames[type] : "?", " ", event.path, " zxid ",
                      event.zxid);
}

std::string ToString(const tree::Stat& stat) {
  return absl::StrCat("<c", stat.czxid.value(), " m", stat.mzxid.value(), " p", stat.pzxid.value(),
                      " ctime ", stat.ctime_ms, " mtime ", stat.mtime_ms, " v", stat.version, "/",
                      stat.cversion, "/", stat.aversion, " owner ", stat.ephemeral_owner.value(),
                      " bytes ", stat.data_length, " children ", stat.num_children, ">");
}

}  // namespace quorate::simulation
