// SPDX-License-Identifier: Apache-2.0

// The part of Connection that records refused writes in the audit log. Other writes are recorded when
// they are applied (rpc/audit/request_audit.h).
#include <string_view>
#include <vector>

#include "rpc/audit/request_audit.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {

absl::StatusOr<Connection::Progress> Connection::Start(std::string_view body, bool alone,
                                                       Pending* pending) {
  absl::StatusOr<Progress> progress = TryToStart(body, alone, pending);
  if (loop_->frontend().request_audit() == nullptr) return progress;
  // A write that is taken is recorded when it is applied. The error of one that is not taken may
  // have to wait; it is recorded when it is sent, or when nobody will receive it.
  const bool is_refused = !progress.ok() || *progress == Progress::kAnswered ||
                          (*progress == Progress::kMustWait && state_ != State::kUp);
  if (is_refused && (IsWrite(pending->op) || pending->op == OpCode::kReconfig)) {
    AuditRefusal(pending->op, body);
  }
  return progress;
}

void Connection::AuditRefusal(OpCode op, std::string_view body) {
  RequestAudit& audit = *loop_->frontend().request_audit();
  if (op == OpCode::kMulti || op == OpCode::kReconfig || op == OpCode::kDeleteContainer) {
    audit.OnRefused(session_, identities_.shown(),
                    op == OpCode::kMulti      ? kAuditMultiOperation
                    : op == OpCode::kReconfig ? "reconfig"
                                              : "delete");
    return;
  }
  tree::Request request;
  std::vector<OpCode> shapes;
  // What does not decode is recorded as far as it does.
  DecodeWrite(op, body, &request, &shapes);
  for (tree::Op& one : request.ops) paths_.ToTree(&one.path);
  audit.OnRefused(session_, identities_.shown(), request);
}

}  // namespace quorate::rpc::zk
