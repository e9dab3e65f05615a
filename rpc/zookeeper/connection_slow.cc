// SPDX-License-Identifier: Apache-2.0

// Where the time of a connection's requests went, and the record of the slow ones.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "rpc/frontend/slow_requests.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"
#include "tree/command.h"

namespace quorate::rpc::zk {

std::string_view Connection::PathOfRead(OpCode op, std::string_view body) {
  const bool begins_with_path =
      (InfoOf(op).kind == OpCodeKind::kRead && op != OpCode::kMultiRead && op != OpCode::kWhoAmI) ||
      op == OpCode::kAddWatch;
  if (!begins_with_path) return {};
  BigEndianReader reader(body);
  const auto length = reader.Int<int32_t>();
  if (!reader.ok() || length <= 0 || static_cast<size_t>(length) > reader.rest().size()) return {};
  const auto shown = std::min(static_cast<size_t>(length), SlowRequests::kPathBytesMax);
  return reader.rest().substr(0, shown);
}

void Connection::KeepCommand(size_t offset, Pending* pending) const {
  if (offset > std::numeric_limits<uint32_t>::max()) return;
  pending->command = loop_->batch_bytes();
  pending->offset = static_cast<uint32_t>(offset);
}

StageTimes Connection::FindStages(const Pending& pending, int64_t us) {
  if (pending.sequence != 0) {
    return loop_->stage_finder().Find(pending.received, loop_->now(), pending.sequence,
                                      static_cast<uint64_t>(pending.zxid.value()));
  }
  StageTimes stages;
  if (pending.stage == Stage::kReading) {
    stages.Set(RequestStage::kRead, us);
  } else if (pending.barrier != 0) {
    stages.Set(RequestStage::kBarrier, us);
  } else if (pending.op == OpCode::kReconfig) {
    stages.Set(RequestStage::kCommit, us);
  } else {
    stages.Set(RequestStage::kQueue, us);
  }
  return stages;
}

void Connection::RecordSlow(const Pending& pending, std::string_view body, int64_t us,
                            const StageTimes& stages) {
  SlowRequests& slow = loop_->frontend().service().slow_requests();
  const std::string_view operation = InfoOf(pending.op).name;
  if (!slow.Count(operation, loop_->now())) return;
  SlowRequest request;
  request.answered_ms = loop_->frontend().clock().WallMs();
  request.operation = operation;
  request.session = session_.value();
  request.client = statistics_->peer;
  if (pending.command != nullptr) {
    request.path = tree::FirstPathOf(std::string_view(*pending.command).substr(pending.offset));
  } else if (pending.stage == Stage::kReading) {
    request.path = pending.bytes;
  } else {
    request.path = PathOfRead(pending.op, body);
  }
  request.zxid = pending.zxid.value();
  request.us = us;
  request.stages = stages;
  slow.Keep(std::move(request));
}

}  // namespace quorate::rpc::zk
