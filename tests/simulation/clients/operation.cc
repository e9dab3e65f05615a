// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quorate::simulation {
namespace {

constexpr size_t kShownBytesMax = 40;

Request OneStep(Step step) {
  Request request;
  request.kind = step.kind;
  request.steps.push_back(std::move(step));
  return request;
}

std::string VersionText(int32_t version) {
  return version == tree::kAnyVersion ? "" : absl::StrCat(" v", version);
}

std::string StepText(const Step& step) {
  std::string text = absl::StrCat(ToString(step.kind), " ", step.path);
  if (step.kind == OperationKind::kCreate) {
    absl::StrAppend(&text, " mode ", static_cast<int32_t>(step.mode));
  }
  absl::StrAppend(&text, VersionText(step.version));
  if (step.kind == OperationKind::kCreate || step.kind == OperationKind::kSetData) {
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
  return kind == OperationKind::kExists || kind == OperationKind::kGetData ||
         kind == OperationKind::kGetChildren;
}

Request MakeCreate(std::string path, std::string data, tree::CreateMode mode, bool wants_stat) {
  Step step = MakeStep(OperationKind::kCreate, std::move(path), std::move(data));
  step.mode = mode;
  step.wants_stat = wants_stat;
  return OneStep(std::move(step));
}

Request MakeDelete(std::string path, int32_t version) {
  return OneStep(MakeStep(OperationKind::kDelete, std::move(path), "", version));
}

Request MakeSetData(std::string path, std::string data, int32_t version) {
  return OneStep(MakeStep(OperationKind::kSetData, std::move(path), std::move(data), version));
}

Request MakeSetAcl(std::string path, int32_t version) {
  return OneStep(MakeStep(OperationKind::kSetAcl, std::move(path), "", version));
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
  return absl::StrCat(ToString(request.kind), " ", request.path, request.watch ? " watch" : "");
}

std::string ToString(const Request& request, const Reply& reply) {
  std::string text =
      absl::StrCat("zxid ", reply.zxid, " ", std::string(tree::ToString(reply.error)));
  for (const StepResult& step : reply.steps) absl::StrAppend(&text, " {", ResultText(step), "}");
  if (request.kind == OperationKind::kGetData && reply.error == tree::ErrorCode::kOk) {
    absl::StrAppend(&text,
                    reply.has_data ? absl::StrCat(" \"", Shortened(reply.data), "\"") : " null");
  }
  if (request.kind == OperationKind::kGetChildren && reply.error == tree::ErrorCode::kOk) {
    absl::StrAppend(&text, " [", Shortened(absl::StrJoin(reply.children, " ")), "]");
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
