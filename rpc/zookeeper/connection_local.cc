// SPDX-License-Identifier: Apache-2.0

// The part of Connection that serves sessions which only this server knows: local sessions
// (local_sessions.h) and those of read-only clients.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/assert.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {

using tree::ErrorCode;

absl::Status Connection::CheckMemory() {
  MemoryBudget& memory = loop_->frontend().service().memory();
  if (!memory.clients_exceed()) return absl::OkStatus();
  memory.CountRefused();
  return absl::ResourceExhaustedError(
      "the server's memory is almost used up (memoryLimitMb): no new sessions are admitted");
}

absl::Status Connection::BeginLocalSession() {
  ZkFrontend& frontend = loop_->frontend();
  const Config& config = frontend.config();
  loop_->statistics().sessions_requested.Add(1);
  if (absl::Status s = CheckMemory(); !s.ok()) return s;
  timeout_ms_ =
      std::clamp(connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms);
  connect_.password = frontend.random().Make(tree::kPasswordBytes);
  const tree::Tree& tree = loop_->LockTree();
  if (state_ == State::kFinished) return absl::OkStatus();  // by an item that LockTree delivered
  tree::SessionInfo info;
  do {
    session_ = frontend.NewSessionId();
  } while (tree.FindSession(session_, &info) ||
           !frontend.local_sessions().Add(session_, connect_.password, timeout_ms_, tag_));
  is_local_ = true;
  BeUp(/*read_only=*/false);
  return absl::OkStatus();
}

bool Connection::TakeLocalSession(bool read_only) {
  if (connect_.session_id == 0) return false;
  const Config& config = loop_->frontend().config();
  const tree::SessionId session(connect_.session_id);
  const int32_t timeout_ms =
      std::clamp(connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms);
  switch (loop_->frontend().TakeLocalSession(session, connect_.password, timeout_ms, tag_)) {
    case LocalSessions::Taking::kUnknown:
      return false;
    case LocalSessions::Taking::kBusy:
      state_ = State::kCatchingUp;
      return true;
    case LocalSessions::Taking::kTaken:
      break;
  }
  loop_->statistics().sessions_revalidated.Add(1);
  session_ = session;
  timeout_ms_ = timeout_ms;
  is_local_ = true;
  BeUp(read_only);
  return true;
}

absl::Status Connection::BeginReadOnlySession() {
  const Config& config = loop_->frontend().config();
  timeout_ms_ =
      std::clamp(connect_.timeout_ms, config.min_session_timeout_ms, config.max_session_timeout_ms);
  if (!connect_.read_only) return absl::UnavailableError("this server serves reads only now");
  if (TakeLocalSession(/*read_only=*/true)) return absl::OkStatus();
  if (connect_.session_id == 0) {
    session_ = loop_->frontend().NewSessionId();
    connect_.password = loop_->frontend().random().Make(tree::kPasswordBytes);
    is_of_connection_ = true;
    loop_->frontend().AddReadOnlySessions(1);
  } else {
    session_ = tree::SessionId(connect_.session_id);
    tree::SessionInfo info;
    const tree::Tree& tree = loop_->LockTree();
    // Only a majority can tell whether a session that is unknown here has ended.
    if (!tree.FindSession(session_, &info)) {
      return absl::NotFoundError("this server has no quorum, and does not know the session");
    }
    if (!tree.CheckPassword(session_, connect_.password)) {
      RefuseSession(/*read_only=*/true);
      return absl::OkStatus();
    }
  }
  BeUp(/*read_only=*/true);
  return absl::OkStatus();
}

void Connection::EndLocalSession() { loop_->frontend().local_sessions().End(session_); }

bool Connection::NeedsUpgrade(const tree::Request& request) {
  // The tree refuses the ephemerals of a session that may not become global.
  if (!loop_->frontend().config().local_sessions_upgrading || EphemeralsIn(request) == 0) {
    return false;
  }
  if (state_ == State::kUp) {
    BeginUpgrade();
  } else {
    drops_writes_ = true;  // nobody is here to send the write when the session is global
  }
  return true;
}

void Connection::BeginUpgrade() {
  ASSERT(is_local_ && !awaits_upgrade_, "requests are held while the session is made global");
  awaits_upgrade_ = true;
  loop_->frontend().local_sessions().BeginUpgrade(session_);
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), timeout_ms_,
                            connect_.password, &to);
  loop_->AddedCommand(offset);
}

absl::Status Connection::FinishUpgrade(const tree::ApplyResult& result) {
  awaits_upgrade_ = false;
  if (result.error != ErrorCode::kOk) {
    EndLocalSession();
    return absl::AbortedError("another session of the cluster has the id of this local session");
  }
  is_local_ = false;
  attach_zxid_ = result.zxid;
  ShowSession();
  return absl::OkStatus();
}

void Connection::CountLocalResult() {
  if (local_in_flight_ > 0) --local_in_flight_;
}

void Connection::OnTreeReplaced() {
  if (is_local_ && local_in_flight_ > 0) EndLocalSession();
}

void Connection::DetachLocalSession() {
  if (is_local_) {
    loop_->frontend().local_sessions().Detach(session_, tag_, local_in_flight_);
  }
}

void Connection::TouchLocalSession() {
  const int64_t session = session_.value();
  loop_->frontend().local_sessions().Touch({&session, 1});
}

bool Connection::ExpireLocalSession() {
  const bool was_heard = touched_ || loop_->now() - heard_ < std::chrono::milliseconds(timeout_ms_);
  if (was_heard || !is_local_ || awaits_upgrade_) return false;
  loop_->frontend().local_sessions().CountExpired();
  EndLocalSession();
  drops_writes_ = true;
  return true;
}

}  // namespace quorate::rpc::zk
