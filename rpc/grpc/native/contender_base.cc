// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/contender_base.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "tree/path.h"

namespace quorate::rpc::native {

ContenderBase::ContenderBase(StreamLoop* loop, uint32_t tag, std::string client_address,
                             bool is_call)
    : Stream(loop, tag, std::move(client_address), is_call), opened_(loop->now()) {}

// --- The message ---------------------------------------------------------------------------------

absl::Status ContenderBase::TakeMessage(const google::protobuf::Descriptor& type,
                                        std::string_view bytes) {
  if (!std::exchange(is_new_, false))
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the call has one request");
  return CheckParts(type, bytes);
}

absl::Status ContenderBase::NotARequest() {
  return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the message is not a request of this method");
}

absl::Status ContenderBase::Begin(const v1::Contender& contender) {
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (tenants().IsAtBytes()) return OnLimit(Limit::kOutstandingBytes);
  if (tenants().IsAtOutstanding(0)) return OnLimit(Limit::kOutstandingRequests);
  received_ = loop_->now();
  const std::optional<std::string_view> prefix = PrefixOf(contender.layout());
  if (!tree::IsValidPath(contender.path(), /*sequential=*/false) || contender.path() == "/") {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "`path` is not the path of a queue");
  }
  if (!prefix.has_value())
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "`layout` is not a known layout");
  if (!IsContenderId(contender.id())) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    "the `id` of a contender has 1 to 64 of the characters A-Z a-z 0-9 . _ -");
  }
  path_ = contender.path();
  prefix_ = *prefix;
  name_prefix_ = ContenderPrefix(contender.id(), prefix_);
  password_ = contender.session_password();
  session_ = tree::SessionId(contender.session_id());
  wants_to_continue_ = true;
  return CheckServing(loop_->frontend().service());
}

// --- The session ---------------------------------------------------------------------------------

absl::StatusOr<bool> ContenderBase::FindSession() {
  tree::SessionInfo info;
  const bool is_known = loop_->tree().FindSession(session_, &info);
  if (!is_known && !is_confirmed_) {
    Confirm();
    return false;
  }
  if (!is_known || !loop_->tree().CheckPassword(session_, password_)) {
    return Fail(v1::ERROR_CODE_SESSION_EXPIRED);
  }
  if (info.member != loop_->frontend().service().proposer().member) {
    return Fail(v1::ERROR_CODE_SESSION_MOVED,
                absl::StrCat("the session is attached to member ", info.member,
                             "; call that member, or attach the session to this one"));
  }
  attach_zxid_ = info.attach_zxid;
  timeout_ms_ = info.timeout_ms;
  return true;
}

void ContenderBase::Confirm() {
  if (barrier_ == 0) barrier_ = loop_->JoinBarrier(tag());
}

void ContenderBase::OnBarrierDone(uint64_t barrier) {
  is_confirmed_ |= barrier_ != 0 && barrier_ <= barrier;
  wants_to_continue_ = true;
}

// --- The queue -----------------------------------------------------------------------------------

void ContenderBase::BeginScan(std::string own_name) {
  scan_.emplace(path_, prefix_, name_prefix_, session_, std::move(own_name));
}

absl::StatusOr<bool> ContenderBase::Scan(bool* exists) {
  *exists = true;
  if (!loop_->MayScan()) {
    wants_to_continue_ = true;
    return false;
  }
  size_t spent = 1 + identities().all().size() / kIdentitiesPerNode;
  const tree::ErrorCode error = scan_->ReadNext(loop_->tree(), identities().all(), &spent);
  loop_->SpendOnScan(tag(), spent);
  if (error == tree::ErrorCode::kNoNode) {
    *exists = false;
    return true;
  }
  if (error != tree::ErrorCode::kOk) return Fail(ToProto(error));
  wants_to_continue_ |= !scan_->done();
  return scan_->done();
}

bool ContenderBase::FindNode(const std::string& name, tree::Stat* stat) {
  loop_->Spend(1);
  return loop_->tree().FindStat(PathOf(name), stat);
}

// --- Writes --------------------------------------------------------------------------------------

absl::Status ContenderBase::Submit(Operations operations) {
  v1::Request::Write write;
  write.mutable_operations()->Swap(&operations);
  const absl::Status status = TryToSubmit(write);
  if (!status.ok()) {
    RecordRefused(loop_->frontend().request_audit(), session_, identities().shown(), write);
  }
  return status;
}

absl::Status ContenderBase::TryToSubmit(const v1::Request::Write& write) {
  Service& service = loop_->frontend().service();
  if (absl::Status s = CheckServing(service); !s.ok()) return s;
  if (service.congested()) {
    return Fail(v1::ERROR_CODE_UNAVAILABLE,
                "this member has too much to do; the write was not made: try again");
  }
  tree::Request request;
  request.identities = identities().all();
  request.enforces_quota = loop_->frontend().config().enforce_quota;
  const v1::ErrorCode refused = MakeRequest(write, loop_->frontend().config(), service, &request);
  if (refused != v1::ERROR_CODE_UNSPECIFIED) return Fail(refused);
  tree::CommandHeader header;
  header.kind = tree::CommandKind::kRequest;
  header.proposer = service.proposer();
  header.proposer_tag = tag();
  header.session = session_;
  header.attach_zxid = attach_zxid_;
  std::string& to = loop_->command_bytes();
  const size_t offset = to.size();
  tree::AppendRequest(header, request, &to);
  // The data were copied while the tree is locked.
  loop_->Spend(1 + (to.size() - offset) / kBytesPerNode);
  return loop_->AddedCommand(offset) ? absl::OkStatus() : Fail(v1::ERROR_CODE_TOO_LARGE);
}

absl::Status ContenderBase::SubmitDelete(std::string_view name) {
  Operations operations;
  operations.Add()->mutable_delete_()->set_path(PathOf(name));
  return Submit(std::move(operations));
}

v1::ErrorCode ContenderBase::ErrorOf(const tree::ApplyResult& result) {
  if (result.error != tree::ErrorCode::kOk) return ToProto(result.error);
  for (const tree::OpResult& each : result.ops) {
    if (each.error != tree::ErrorCode::kOk &&
        each.error != tree::ErrorCode::kRuntimeInconsistency) {
      return ToProto(each.error);
    }
  }
  return v1::ERROR_CODE_UNSPECIFIED;
}

absl::Status ContenderBase::Fail(v1::ErrorCode code, std::string_view message) const {
  v1::ErrorDetail detail;
  detail.set_path(path_);
  detail.set_zxid(loop_->seen_zxid().value());
  if (code == v1::ERROR_CODE_TOO_LARGE) {
    detail.set_data_bytes_max(loop_->frontend().config().jute_max_buffer_bytes);
  }
  return ToStatus(code, message, std::move(detail));
}

absl::Status ContenderBase::CheckTime(std::chrono::steady_clock::time_point now,
                                      int64_t leader_contact_age_ms) {
  if (is_new_ && now - opened_ > kOpenTimeout) {
    return ToStatus(v1::ERROR_CODE_NO_REQUEST, "no request was received");
  }
  if (is_new_) return absl::OkStatus();
  // The client has to learn in time that its session may end elsewhere.
  const int64_t limit_ms =
      std::max<int64_t>(timeout_ms_ / 2, 3 * loop_->frontend().config().election_timeout_ms);
  return leader_contact_age_ms > limit_ms ? OutOfTouch() : absl::OkStatus();
}

}  // namespace quorate::rpc::native
