// SPDX-License-Identifier: Apache-2.0

// The statistics of a connection's replies: where the time of requests went, and the record of the slow
// ones.
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "rpc/frontend/slow_requests.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"
#include "tree/command.h"

namespace quorate::rpc::zk {

void Connection::CountReply(const Pending& pending, size_t bytes, std::string_view body) {
  LoopStatistics& all = loop_->statistics();
  const int64_t resets = loop_->frontend().statistics().connection_resets();
  if (statistics_->resets_seen.value() != resets) {
    statistics_->Clear();
    statistics_->resets_seen.Set(resets);
  }
  // Both times are of the loop, so that a reply costs no reading of the clock.
  const int64_t us =
      std::chrono::duration_cast<std::chrono::microseconds>(loop_->now() - pending.received)
          .count();
  const int64_t ms = us / 1000;
  all.op_latencies.Add(pending.op, us);
  all.latency_ms.Add(ms);
  LoopRequests& requests = loop_->requests();
  if (IsWrite(pending.op)) {
    all.update_latency_ms.Add(ms);
    requests.recent_writes.Add(us, loop_->now());
  } else if (pending.op != OpCode::kPing) {
    all.read_latency_ms.Add(ms);
    requests.recent_reads.Add(us, loop_->now());
  }
  if (pending.op != OpCode::kPing && requests.top.ShouldSample(loop_->now())) Sample(pending, body);
  all.response_bytes.Add(static_cast<int64_t>(bytes));
  // Other requests were answered in the iteration in which they came, and did not wait for the tree.
  if (us > 0 || pending.sequence != 0) {
    const StageTimes stages = FindStages(pending, us);
    all.stages.Add(stages);
    if (loop_->frontend().service().slow_requests().IsSlow(us))
      RecordSlow(pending, body, us, stages);
  }
  statistics_->AddLatency(ms);
  statistics_->last_operation.Set(static_cast<int64_t>(pending.op));
  if (pending.xid >= 0) statistics_->last_xid.Set(pending.xid);
  RecordLastReply();
}

void Connection::RecordLastReply() {
  statistics_->last_zxid.Set(SeenZxid().value());
  statistics_->last_response_ms.Set(
      std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now().time_since_epoch())
          .count());
}

std::string_view Connection::PathOfRead(OpCode op, std::string_view body) const {
  const bool begins_with_path =
      (InfoOf(op).kind == OpCodeKind::kRead && op != OpCode::kMultiRead && op != OpCode::kWhoAmI) ||
      op == OpCode::kAddWatch;
  if (!begins_with_path) return {};
  BigEndianReader reader(body);
  const auto length = reader.Int<int32_t>();
  if (!reader.ok() || length <= 0 || static_cast<size_t>(length) > reader.rest().size()) return {};
  std::string_view path = reader.rest().substr(0, static_cast<size_t>(length));
  paths_.ToTree(&path);  // a path that is not below the chroot was refused, and is shown as it came
  return path;
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
  } else if (!pending.was_alone) {
    stages.Set(RequestStage::kQueue, us);  // a wait of its own is not told from that
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
  request.path = PathOf(pending, body);
  request.zxid = pending.zxid.value();
  request.us = us;
  request.stages = stages;
  slow.Keep(std::move(request));
}

std::string_view Connection::PathOf(const Pending& pending, std::string_view body) const {
  if (pending.command != nullptr) {
    return tree::FirstPathOf(std::string_view(*pending.command).substr(pending.offset));
  }
  return pending.stage == Stage::kReading ? std::string_view(pending.bytes)
                                          : PathOfRead(pending.op, body);
}

void Connection::Sample(const Pending& pending, std::string_view body) {
  RequestSample sample;
  sample.client = statistics_->peer;
  sample.session = session_.value();
  if (const tree::Identity* identity = identities_.first_proved()) {
    sample.scheme = identity->scheme;
    sample.id = identity->id;
  }
  sample.path = PathOf(pending, body);
  sample.operation = InfoOf(pending.op).name;
  loop_->requests().top.Add(sample, loop_->now());
}

void Connection::CountUnanswered() {
  SlowRequests& slow = loop_->frontend().service().slow_requests();
  for (const Pending& pending : pipeline_) {
    const int64_t us =
        std::chrono::duration_cast<std::chrono::microseconds>(loop_->now() - pending.received)
            .count();
    if (slow.IsSlow(us)) slow.CountUnanswered(InfoOf(pending.op).name);
  }
}

}  // namespace quorate::rpc::zk
