// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/zookeeper_translation.h"

#include <string>
#include <utility>

#include "base/assert.h"
#include "tests/chaos/client.h"

namespace quorate::chaos {
namespace {

using simulation::OperationKind;
using simulation::Request;

Stat ToStat(const tree::Stat& stat) {
  return {.czxid = stat.czxid.value(),
          .mzxid = stat.mzxid.value(),
          .pzxid = stat.pzxid.value(),
          .version = stat.version,
          .cversion = stat.cversion,
          .owner = stat.ephemeral_owner.value(),
          .length = stat.data_length};
}

tree::CreateMode ToMode(const std::string& mode) {
  if (mode == "ephemeral") return tree::CreateMode::kEphemeral;
  if (mode == "sequential") return tree::CreateMode::kPersistentSequential;
  if (mode == "ephemeral-sequential") return tree::CreateMode::kEphemeralSequential;
  ASSERT(mode == "persistent", "there is no other mode");
  return tree::CreateMode::kPersistent;
}

simulation::Step ToStep(const Step& from) {
  simulation::Step step;
  step.path = from.path;
  step.data = from.data;
  step.version = from.version;
  if (from.function == "create") {
    step.kind = OperationKind::kCreate;
    step.mode = ToMode(from.mode);
    step.wants_stat = true;
  } else if (from.function == "set") {
    step.kind = OperationKind::kSetData;
  } else if (from.function == "delete") {
    step.kind = OperationKind::kDelete;
  } else {
    ASSERT(from.function == "check", "there is no other step");
    step.kind = OperationKind::kCheck;
  }
  return step;
}

Request ToWatchRequest(const Line& invoke) {
  const std::string& kind = invoke.kind;
  if (kind == "data") return MakeRead(OperationKind::kGetData, invoke.path, true);
  if (kind == "exist") return MakeRead(OperationKind::kExists, invoke.path, true);
  if (kind == "children") return MakeRead(OperationKind::kGetChildren, invoke.path, true);
  Request request;
  request.kind = OperationKind::kAddWatch;
  request.path = invoke.path;
  request.recursive = kind == "recursive";
  return request;
}

// Whether this code is a valid answer to the operation, and no error.
bool IsAnswer(const Line& invoke, tree::ErrorCode error) {
  if (error == tree::ErrorCode::kOk) return true;
  const bool asks_existence = invoke.function == "exists" || invoke.kind == "exist";
  return error == tree::ErrorCode::kNoNode && asks_existence;
}

// A failed multi has its error in the operation that failed.
tree::ErrorCode ErrorOf(const simulation::Reply& reply) {
  if (reply.error != tree::ErrorCode::kOk) return reply.error;
  for (const simulation::StepResult& step : reply.steps) {
    if (step.error != tree::ErrorCode::kOk &&
        step.error != tree::ErrorCode::kRuntimeInconsistency) {
      return step.error;
    }
  }
  return tree::ErrorCode::kOk;
}

}  // namespace

Request ToRequest(const Line& invoke) {
  const std::string& function = invoke.function;
  if (function == "get") return MakeRead(OperationKind::kGetData, invoke.path);
  if (function == "exists") return MakeRead(OperationKind::kExists, invoke.path);
  if (function == "list") return MakeRead(OperationKind::kGetChildren, invoke.path);
  if (function == "sync") return simulation::MakeSync(invoke.path);
  if (function == "watch") return ToWatchRequest(invoke);
  if (function == "close") return simulation::MakeCloseSession();
  Request request;
  if (function == "multi-get") {
    request.kind = OperationKind::kMultiRead;
    request.paths = invoke.paths;
    return request;
  }
  if (function == "multi") {
    for (const Step& step : invoke.steps) {
      request.steps.push_back(ToStep(step));
      // ZooKeeper answers a creation inside a multi without a stat.
      request.steps.back().wants_stat = false;
    }
    request.kind = OperationKind::kMulti;
    return request;
  }
  request.steps = {ToStep({function, invoke.path, invoke.data, invoke.version, invoke.mode})};
  request.kind = request.steps[0].kind;
  return request;
}

Line ToOutcome(const Line& invoke, const simulation::Reply& reply) {
  Line outcome;
  const tree::ErrorCode error = ErrorOf(reply);
  if (!IsAnswer(invoke, error)) {
    Refusal refusal = RefusalOf(error);
    outcome.what = refusal.is_certain ? What::kRefused : What::kUnknown;
    outcome.error = std::move(refusal.name);
    // The reply to a refused write does not tell what state the write saw.
    if (!IsWrite(invoke.function)) outcome.zxid = reply.zxid;
    return outcome;
  }
  outcome.what = What::kOk;
  outcome.zxid = reply.zxid;
  outcome.data = reply.data;
  outcome.children = reply.children;
  if (reply.stat.has_value()) outcome.stat = ToStat(*reply.stat);
  if (invoke.function == "multi") {
    for (const simulation::StepResult& step : reply.steps) {
      Result& result = outcome.results.emplace_back();
      result.path = step.path;
      if (step.stat.has_value()) result.stat = ToStat(*step.stat);
    }
  } else if (reply.steps.size() == 1) {
    outcome.path = reply.steps[0].path;
    if (reply.steps[0].stat.has_value()) outcome.stat = ToStat(*reply.steps[0].stat);
  }
  for (const simulation::ReadResult& read : reply.reads) {
    Result& result = outcome.results.emplace_back();
    if (read.error == tree::ErrorCode::kOk) {
      result.data = read.data;
      result.stat = ToStat(read.stat);
    } else {
      result.error = RefusalOf(read.error).name;
    }
  }
  return outcome;
}

const char* NameOf(tree::EventType type) {
  switch (type) {
    case tree::EventType::kNodeCreated:
      return "created";
    case tree::EventType::kNodeDeleted:
      return "deleted";
    case tree::EventType::kNodeDataChanged:
      return "changed";
    case tree::EventType::kNodeChildrenChanged:
      return "children";
  }
  return "";
}

}  // namespace quorate::chaos
