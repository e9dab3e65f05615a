// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/observe_stream.h"

#include <utility>

#include "base/assert.h"
#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "tree/path.h"

namespace quorate::rpc::native {

ObserveStream::ObserveStream(StreamLoop* loop, uint32_t tag, std::string client_address)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/false), opened_(loop->now()) {}

absl::Status ObserveStream::OnMessage(std::string_view bytes) {
  if (state_ != State::kNew)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the call has one request");
  if (absl::Status s = CheckParts(*v1::ObserveRequest::descriptor(), bytes); !s.ok()) return s;
  if (!request_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the message is not a quorate.v1.ObserveRequest");
  }
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (!tenants().MayWatch()) return OnLimit(Limit::kWatches);
  const std::optional<std::string_view> prefix = PrefixOf(request_.layout());
  if (!tree::IsValidPath(request_.path(), /*sequential=*/false) || request_.path() == "/" ||
      request_.min_zxid() < 0 || !prefix.has_value()) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, {});
  }
  prefix_ = *prefix;
  if (absl::Status s = CheckCaughtUp(loop_->status()); !s.ok()) return s;
  state_ = State::kStarting;
  wants_to_continue_ = true;
  return CheckContact(loop_->status(), loop_->frontend().config().ContactLimitMs());
}

absl::Status ObserveStream::OnResult(tree::ApplyResult) {
  ASSERT(false, "an observer submits no command");
}

void ObserveStream::OnEvent(uint64_t, const Event& event) {
  // Of the other children of the queue there may be many.
  if (watched_scope_ == Scope::kChildren && event.path != request_.path() &&
      !ContenderNumber(tree::LastSegment(event.path), prefix_).has_value()) {
    return;
  }
  is_changed_ = true;
  wants_to_continue_ = true;
}

void ObserveStream::BeginSearch() {
  is_changed_ = false;
  state_ = State::kSearching;
  scan_.emplace(request_.path(), prefix_, std::string(), tree::kNoSession);
  wants_to_continue_ = true;
}

absl::Status ObserveStream::Continue() {
  wants_to_continue_ = false;
  if (state_ == State::kStarting) {
    if (absl::Status s = Start(); !s.ok()) return s;
  }
  if (is_changed_ && (state_ == State::kShowing || state_ == State::kShown)) BeginSearch();
  if (state_ == State::kSearching) {
    if (absl::Status s = Search(); !s.ok()) return s;
  }
  return state_ == State::kShowing ? Show() : absl::OkStatus();
}

absl::Status ObserveStream::Start() {
  const tree::Zxid wanted(request_.min_zxid());
  if (wanted > loop_->seen_zxid()) {
    if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
    return IsBehind(wanted, loop_->seen_zxid());
  }
  BeginSearch();
  return absl::OkStatus();
}

absl::Status ObserveStream::Search() {
  // A leader stays one for as long as its znode exists.
  tree::Stat stat;
  loop_->Spend(1);
  if (!leader_.empty() && loop_->tree().FindStat(leader_, &stat) && stat.czxid == leader_zxid_) {
    state_ = State::kShowing;
    return absl::OkStatus();
  }
  if (!loop_->MayScan()) {
    wants_to_continue_ = true;
    return absl::OkStatus();
  }
  size_t spent = 1 + identities().all().size() / kIdentitiesPerNode;
  const tree::ErrorCode error = scan_->ReadNext(loop_->tree(), identities().all(), &spent);
  loop_->SpendOnScan(tag(), spent);
  if (error != tree::ErrorCode::kOk && error != tree::ErrorCode::kNoNode) {
    v1::ErrorDetail detail;
    detail.set_path(request_.path());
    detail.set_zxid(loop_->seen_zxid().value());
    return ToStatus(ToProto(error), {}, std::move(detail));
  }
  if (error == tree::ErrorCode::kOk && !scan_->done()) {
    wants_to_continue_ = true;
    return absl::OkStatus();
  }
  const bool is_found = error == tree::ErrorCode::kOk && scan_->first().has_value();
  leader_ = is_found ? request_.path() + "/" + scan_->first()->name : std::string();
  if (is_found && !loop_->tree().FindStat(leader_, &stat)) {
    leader_.clear();  // it was deleted while the queue was read
    BeginSearch();
    return absl::OkStatus();
  }
  if (!is_found && (watched_ != request_.path() || is_changed_)) {
    // A contender may have come behind the place at which the queue was read.
    Watch(request_.path(), Scope::kChildren);
    BeginSearch();
    return absl::OkStatus();
  }
  if (is_found) {
    leader_zxid_ = stat.czxid;
    Watch(leader_, Scope::kNode);
  }
  state_ = State::kShowing;
  return absl::OkStatus();
}

absl::Status ObserveStream::Show() {
  if (!outbox().empty()) return absl::OkStatus();  // OnRoom continues
  v1::ObserveResponse response;
  tree::Stat stat;
  if (!leader_.empty()) {
    std::string_view data;
    bool has_data = false;
    const tree::ErrorCode error =
        loop_->tree().GetData(leader_, identities().all(), &data, &has_data, &stat);
    if (error == tree::ErrorCode::kNoNode) {
      BeginSearch();
      return absl::OkStatus();
    }
    if (error != tree::ErrorCode::kOk) {
      v1::ErrorDetail detail;
      detail.set_path(leader_);
      detail.set_zxid(loop_->seen_zxid().value());
      return ToStatus(ToProto(error), {}, std::move(detail));
    }
    const std::string_view name = tree::LastSegment(leader_);
    v1::Leader* leader = response.mutable_leader();
    leader->set_id(std::string(ContenderId(name, prefix_)));
    leader->set_node(leader_);
    leader->set_data(data.data(), data.size());
    leader->set_token(stat.czxid.value());
    leader->set_session_id(stat.ephemeral_owner.value());
    loop_->Spend(1 + data.size() / kBytesPerNode);
  }
  state_ = State::kShown;
  if (is_shown_ && shown_leader_ == leader_ && shown_zxid_ == stat.mzxid) return absl::OkStatus();
  is_shown_ = true;
  shown_leader_ = leader_;
  shown_zxid_ = stat.mzxid;
  response.set_zxid(loop_->seen_zxid().value());
  response.AppendToString(outbox().Open());
  outbox().Close();
  return absl::OkStatus();
}

void ObserveStream::Watch(const std::string& path, Scope scope) {
  if (watched_ == path) return;
  if (!watched_.empty()) loop_->frontend().RemoveWatch(tag(), watched_, watched_scope_);
  watched_ = path;
  watched_scope_ = scope;
  if (!watched_.empty()) loop_->frontend().AddWatch(tag(), watched_, watched_scope_);
  tenants().SetWatches(watched_.empty() ? 0 : 1);
}

void ObserveStream::DropWatches(size_t max) {
  if (max > 0) Watch({}, Scope::kNode);
}

absl::Status ObserveStream::OnTreeReplaced() {
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "this member was far behind and has skipped events; observe again");
}

absl::Status ObserveStream::CheckTime(std::chrono::steady_clock::time_point now,
                                      int64_t /*leader_contact_age_ms*/) {
  if (state_ == State::kNew) {
    if (now - opened_ <= kOpenTimeout) return absl::OkStatus();
    return ToStatus(v1::ERROR_CODE_NO_REQUEST, "no request was received");
  }
  wants_to_continue_ |= state_ == State::kStarting;
  // Without contact with a leader, this member may miss changes.
  return CheckContact(loop_->status(), loop_->frontend().config().ContactLimitMs());
}

}  // namespace quorate::rpc::native
