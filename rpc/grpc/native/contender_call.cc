// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/contender_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

constexpr char kUnknownOutcome[] =
    "the write may or may not have been made: this member lost touch with the others before it "
    "knew; call again";

}  // namespace

ContenderCall::ContenderCall(StreamLoop* loop, uint32_t tag, std::string client_address,
                             Method method)
    : ContenderBase(loop, tag, std::move(client_address), /*is_call=*/true), method_(method) {}

absl::Status ContenderCall::OnMessage(std::string_view bytes) {
  if (method_ == Method::kRelease) {
    v1::ReleaseRequest request;
    if (absl::Status s = Decode(bytes, &request); !s.ok()) return s;
    return Begin(request.contender());
  }
  if (method_ == Method::kResign) {
    v1::ResignRequest request;
    if (absl::Status s = Decode(bytes, &request); !s.ok()) return s;
    return Begin(request.contender());
  }
  v1::ProclaimRequest request;
  if (absl::Status s = Decode(bytes, &request); !s.ok()) return s;
  data_ = std::move(*request.mutable_data());
  return Begin(request.contender());
}

absl::Status ContenderCall::Continue() {
  wants_to_continue_ = false;
  if (is_new() || is_confirming()) return absl::OkStatus();
  return Proceed();
}

absl::Status ContenderCall::Proceed() {
  if (state_ == State::kLooking) return Look();
  if (state_ != State::kStarting) return absl::OkStatus();
  const absl::StatusOr<bool> found = FindSession();
  if (!found.ok()) return found.status();
  if (!*found) return absl::OkStatus();
  if (method_ != Method::kProclaim) loop_->EndCreation(key());
  BeginScan();
  state_ = State::kLooking;
  return Look();
}

absl::Status ContenderCall::Look() {
  bool exists = false;
  const absl::StatusOr<bool> done = Scan(&exists);
  if (!done.ok()) return done.status();
  if (!*done) return absl::OkStatus();
  const absl::StatusOr<bool> found = FindSession();  // of now, for the write
  if (!found.ok()) return found.status();
  if (!*found) {
    state_ = State::kStarting;
    return absl::OkStatus();
  }
  if (exists) {
    // The newest one goes first, so that the contender does not get a turn by the deletion of the other.
    std::vector<QueuedContender> own = scan().own();
    if (method_ != Method::kProclaim) std::ranges::reverse(own);
    for (const QueuedContender& each : own) {
      tree::Stat stat;
      if (!FindNode(each.name, &stat) || stat.ephemeral_owner != contender_session()) continue;
      if (stat.czxid <= flushed_.value_or(stat.czxid)) return Write(each.name);
    }
  }
  if (!flushed_.has_value()) return Flush();
  if (method_ == Method::kProclaim) return Fail(v1::ERROR_CODE_NO_NODE);
  SendGone();
  return absl::OkStatus();
}

absl::Status ContenderCall::Flush() {
  Operations operations;
  v1::Operation::Check* check = operations.Add()->mutable_check();
  check->set_path("/");
  check->set_absent(true);
  state_ = State::kFlushing;
  return Submit(std::move(operations));
}

absl::Status ContenderCall::Write(const std::string& name) {
  state_ = State::kWriting;
  if (method_ != Method::kProclaim) return SubmitDelete(name);
  Operations operations;
  v1::Operation::Set* set = operations.Add()->mutable_set();
  set->set_path(PathOf(name));
  set->set_data(data_);
  return Submit(std::move(operations));
}

absl::Status ContenderCall::OnResult(tree::ApplyResult result) {
  wants_to_continue_ = true;
  if (!flushed_.has_value()) flushed_ = result.zxid;
  if (IsOfEarlierAttachment(result)) {
    state_ = State::kStarting;  // perhaps this member has the session still
    return absl::OkStatus();
  }
  if (state_ == State::kWriting) return OnWritten(result);
  ASSERT(state_ == State::kFlushing, "no other state has a command in flight");
  state_ = State::kLooking;
  BeginScan();
  return absl::OkStatus();
}

absl::Status ContenderCall::OnWritten(const tree::ApplyResult& result) {
  const v1::ErrorCode error = ErrorOf(result);
  if (error != v1::ERROR_CODE_UNSPECIFIED && error != v1::ERROR_CODE_NO_NODE) return Fail(error);
  if (method_ == Method::kProclaim && error == v1::ERROR_CODE_UNSPECIFIED) {
    v1::ProclaimResponse response;
    response.set_zxid(result.zxid.value());
    Send(response);
    return absl::OkStatus();
  }
  was_queued_ |= error == v1::ERROR_CODE_UNSPECIFIED;
  state_ = State::kLooking;
  BeginScan();
  return absl::OkStatus();
}

absl::Status ContenderCall::OnTreeReplaced() {
  if (state_ == State::kWriting || state_ == State::kFlushing)
    return Fail(v1::ERROR_CODE_UNAVAILABLE, kUnknownOutcome);
  return Fail(v1::ERROR_CODE_UNAVAILABLE, "this member was far behind; call again");
}

absl::Status ContenderCall::CheckTime(std::chrono::steady_clock::time_point now,
                                      int64_t leader_contact_age_ms) {
  if (leader_contact_age_ms > kLeaderlessCallMs && state_ == State::kWriting)
    return Fail(v1::ERROR_CODE_UNAVAILABLE, kUnknownOutcome);
  return ContenderBase::CheckTime(now, leader_contact_age_ms);
}

void ContenderCall::SendGone() {
  if (method_ == Method::kRelease) {
    v1::ReleaseResponse response;
    response.set_zxid(loop_->seen_zxid().value());
    response.set_released(was_queued_);
    return Send(response);
  }
  v1::ResignResponse response;
  response.set_zxid(loop_->seen_zxid().value());
  response.set_resigned(was_queued_);
  Send(response);
}

RequestRecord ContenderCall::Record() const {
  RequestRecord record;
  record.kind = method_ == Method::kRelease    ? RequestKind::kRelease
                : method_ == Method::kProclaim ? RequestKind::kProclaim
                                               : RequestKind::kResign;
  record.received = *received();
  record.path = path();
  return record;
}

void ContenderCall::OnFinish() {
  if (received().has_value()) loop_->CountAnswered(*this, Record());
}

void ContenderCall::CountUnanswered() const {
  if (received().has_value() && !finished()) loop_->CountUnanswered(Record());
}

void ContenderCall::Send(const google::protobuf::MessageLite& response) {
  response.AppendToString(outbox().Open());
  outbox().Close();
  Finish(absl::OkStatus());
}

}  // namespace quorate::rpc::native
