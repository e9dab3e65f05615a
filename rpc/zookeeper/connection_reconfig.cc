// SPDX-License-Identifier: Apache-2.0

// The part of Connection that serves reconfig. The leader decides about it, and makes the change
// (rpc/member/replica_reconfig.cc); this server replies when the change is applied here.
#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/audit/request_audit.h"
#include "rpc/frontend/config_node.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {

using tree::ErrorCode;

Connection::Progress Connection::StartReconfig(std::string_view body, bool alone,
                                               const Pending& pending) {
  if (!alone) return Progress::kMustWait;
  Reconfiguration request;
  if (!DecodeReconfig(body, &request)) {
    ReplyError(pending.xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  request.identities = identities_.all();
  awaits_reconfig_ = true;
  const std::span<const tree::Identity> shown = identities_.shown();
  // The outcome is recorded even if the client is gone by then.
  loop_->frontend().service().Reconfigure(
      std::move(request), [loop = loop_, tag = tag_, session = session_,
                           identities = std::vector<tree::Identity>(shown.begin(), shown.end())](
                              const ReconfigurationOutcome& outcome) {
        if (RequestAudit* audit = loop->frontend().request_audit()) {
          audit->OnReconfig(session, identities,
                            outcome.is_known && outcome.error == ErrorCode::kOk);
        }
        loop->Push(ReconfiguredItem{tag, outcome});
        loop->Wake();
      });
  return Progress::kInFlight;
}

void Connection::OnReconfigured(const ReconfigurationOutcome& outcome) {
  if (awaits_reconfig_) reconfig_outcome_ = outcome;
}

absl::Status Connection::FinishReconfig() {
  const ReconfigurationOutcome outcome = *std::exchange(reconfig_outcome_, std::nullopt);
  awaits_reconfig_ = false;
  if (!outcome.is_known) {
    return absl::AbortedError(
        "the leader changed during a reconfig, so the members may or may not have changed");
  }
  const Pending pending = std::move(pipeline_.front());
  pipeline_.pop_front();
  const size_t out_before = out_.size();
  if (outcome.error != ErrorCode::kOk) {
    ReplyError(pending.xid, outcome.error);
  } else {
    // The super user, because the client need not be allowed to read what it may change.
    const tree::Identity super{"super", ""};
    const std::string_view path = "/zookeeper/config";
    std::string_view data;
    bool has_data = false;
    tree::Stat stat;
    loop_->tree().GetData(path, {&super, 1}, &data, &has_data, &stat);
    CompleteConfigNode(loop_->frontend().members_text(), path, &stat, &data, &has_data);
    ReplyWriter reply(&out_, pending.xid, std::max(outcome.zxid, SeenZxid()), ErrorCode::kOk);
    ++packets_sent_;
    WriteData(has_data, data, reply.body());
    WriteStat(stat, reply.body());
  }
  CountReply(pending, out_.size() - out_before);
  return absl::OkStatus();
}

}  // namespace quorate::rpc::zk
