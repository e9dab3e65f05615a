// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/contender_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/grpc/native/scope.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"
#include "tree/command.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// The number of times that the znode is created again because the queue was deleted or created in the
// meantime.
constexpr int kAttemptsMax = 16;

// The responses of both methods have the same fields.
static_assert(int{v1::AcquireResponse::kWaitingFieldNumber} ==
              int{v1::CampaignResponse::kWaitingFieldNumber});
static_assert(int{v1::AcquireResponse::kHeldFieldNumber} ==
              int{v1::CampaignResponse::kLeadingFieldNumber});
static_assert(int{v1::AcquireResponse::kLostFieldNumber} ==
              int{v1::CampaignResponse::kLostFieldNumber});
static_assert(int{v1::AcquireResponse::kZxidFieldNumber} ==
              int{v1::CampaignResponse::kZxidFieldNumber});

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

ContenderStream::ContenderStream(StreamLoop* loop, uint32_t tag, std::string client_address,
                                 Method method)
    : ContenderBase(loop, tag, std::move(client_address), /*is_call=*/false), method_(method) {}

// --- The message ---------------------------------------------------------------------------------

absl::Status ContenderStream::OnMessage(std::string_view bytes) {
  create_bytes_ = bytes.size();
  return method_ == Method::kAcquire ? TakeRequest<v1::AcquireRequest>(bytes)
                                     : TakeRequest<v1::CampaignRequest>(bytes);
}

template <class Request>
absl::Status ContenderStream::TakeRequest(std::string_view bytes) {
  Request request;
  if (absl::Status s = Decode(bytes, &request); !s.ok()) return s;
  if (absl::Status s = Begin(request.contender()); !s.ok()) return s;
  if (!tenants().MayWatch()) return OnLimit(Limit::kWatches);
  if (request.has_wait()) {
    const std::optional<int64_t> wait_ms = v1::ToMs(request.wait());
    if (!wait_ms.has_value() || *wait_ms < 0)
      return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "`wait` is not a valid duration");
    // Later than any session lives.
    constexpr int64_t kWaitMsMax = int64_t{1000} * 60 * 60 * 24 * 365 * 100;
    deadline_ = opened() + std::chrono::milliseconds(std::min(*wait_ms, kWaitMsMax));
  }
  if (request.only_token() < 0)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "`only_token` is not a token");
  only_token_ = request.only_token();
  order_ = loop_->NextContenderOrder();
  v1::Operation::Create* create = create_.Add()->mutable_create();
  create->set_path(PathOf(name_prefix()));
  create->set_mode(v1::CREATE_MODE_EPHEMERAL_SEQUENTIAL);
  create->mutable_data()->swap(*request.mutable_data());
  create->mutable_acl()->Swap(request.mutable_acl());
  return absl::OkStatus();
}

// --- The znode of the contender ------------------------------------------------------------------

absl::Status ContenderStream::Continue() {
  wants_to_continue_ = false;
  if (is_new() || is_confirming()) return absl::OkStatus();
  return Proceed();
}

absl::Status ContenderStream::Proceed() {
  switch (state_) {
    case State::kStarting:
      return Start();
    case State::kLooking:
      return Look();
    case State::kRanking:
      return Rank();
    case State::kQueued:
      return CheckPlace();
    case State::kCreating:
    case State::kPruning:
    case State::kWithdrawing:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ContenderStream::Start() {
  const absl::StatusOr<bool> found = FindSession();
  if (!found.ok()) return found.status();
  if (!*found) return absl::OkStatus();
  if (absl::Status s = loop_->TakeContender(key(), tag(), order_); !s.ok()) return s;
  BeginScan();
  state_ = State::kLooking;
  return Look();
}

absl::Status ContenderStream::Look() {
  bool exists = false;
  const absl::StatusOr<bool> done = Scan(&exists);
  if (!done.ok()) return done.status();
  if (!*done) return absl::OkStatus();
  if (!exists || scan().own().empty())
    return was_queued_ || is_released_ || only_token_ != 0 ? Lose() : Create();
  if (is_confirmed()) return Adopt(scan().own().front().name);
  // This member may not have applied yet that the contender has gone.
  Confirm();
  state_ = State::kStarting;
  return absl::OkStatus();
}

absl::Status ContenderStream::Create() {
  if (++attempts_ > kAttemptsMax) {
    return Fail(v1::ERROR_CODE_UNAVAILABLE,
                "the queue is created and deleted all the time; call again");
  }
  loop_->frontend().service().tenants().CorrectKept(
      contender_session(), loop_->tree().EphemeralCount(contender_session()));
  if (!tenants().MayCreateEphemerals(1)) {
    tenants().OnReached(Limit::kEphemerals, loop_->now());
    return Fail(v1::ERROR_CODE_QUOTA_EXCEEDED);
  }
  Operations operations;
  if (!AddMissing(&operations)) {
    return Fail(v1::ERROR_CODE_NO_NODE,
                absl::StrCat("more than ", kMissingAncestorsMax,
                             " ancestors of the queue do not exist; create them first"));
  }
  operations.MergeFrom(create_);
  const absl::StatusOr<bool> found = FindSession();
  if (!found.ok()) return found.status();
  if (!*found) {
    state_ = State::kStarting;
    return absl::OkStatus();
  }
  if (absl::Status s = Submit(std::move(operations)); !s.ok()) return s;
  tenants().SetEphemerals(1);
  state_ = State::kCreating;
  return absl::OkStatus();
}

bool ContenderStream::AddMissing(Operations* operations) const {
  std::vector<std::string_view> missing;
  tree::Stat stat;
  loop_->Spend(1);
  for (std::string_view each = path(); each != "/" && !loop_->tree().FindStat(each, &stat);
       each = tree::ParentPath(each)) {
    if (missing.size() > kMissingAncestorsMax) return false;
    missing.push_back(each);
    loop_->Spend(1);
  }
  for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
    v1::Operation::Create* create = operations->Add()->mutable_create();
    create->set_path(std::string(*each));
    create->set_mode(v1::CREATE_MODE_CONTAINER);
  }
  return true;
}

absl::Status ContenderStream::OnResult(tree::ApplyResult result) {
  wants_to_continue_ = true;
  const v1::ErrorCode error = ErrorOf(result);
  switch (state_) {
    case State::kCreating:
      return OnCreated(result);
    case State::kPruning:
      if (error != v1::ERROR_CODE_UNSPECIFIED && error != v1::ERROR_CODE_NO_NODE &&
          !IsOfEarlierAttachment(result)) {
        return Fail(error);
      }
      BeginScan(own_name_);
      state_ = State::kRanking;
      return absl::OkStatus();
    case State::kWithdrawing:
      if (error == v1::ERROR_CODE_UNSPECIFIED) return Lose(v1::LOSS_REASON_WAIT_OVER);
      if (error != v1::ERROR_CODE_NO_NODE && error != v1::ERROR_CODE_BAD_VERSION &&
          !IsOfEarlierAttachment(result)) {
        return Fail(error);
      }
      // The one before has gone, or this one has, or the session was attached again.
      SetWatch(false, before_name_, &is_before_watched_);
      BeginScan(own_name_);
      state_ = State::kRanking;
      return absl::OkStatus();
    default:
      break;
  }
  ASSERT(false, "no other state has a command in flight");
}

absl::Status ContenderStream::OnCreated(const tree::ApplyResult& result) {
  tenants().SetEphemerals(0);
  switch (const v1::ErrorCode error = ErrorOf(result)) {
    case v1::ERROR_CODE_UNSPECIFIED:
      break;
    case v1::ERROR_CODE_NO_NODE:      // the queue was deleted, as containers are
    case v1::ERROR_CODE_NODE_EXISTS:  // the queue was created
      BeginScan();
      state_ = State::kLooking;
      return absl::OkStatus();
    default:
      return Fail(error);
  }
  CountEphemerals(result);
  return Adopt(NameOf(result.ops.back().path));
}

void ContenderStream::CountEphemerals(const tree::ApplyResult& created) {
  // The stream of the session counts all its ephemerals.
  if (loop_->frontend().NotifyEphemerals(contender_session(), created.session_ephemerals)) return;
  tenants().SetEphemerals(1);
  // Of a session that has no client, the tenants keep the count, also after this stream.
  if (loop_->frontend().service().attached_sessions().Find(contender_session()) != nullptr) return;
  tenants().KeepEphemerals(contender_session(), loop_->tree().EphemeralCount(contender_session()));
}

absl::Status ContenderStream::Adopt(const std::string& name) {
  SetWatch(false, own_name_, &is_own_watched_);
  own_name_ = name;
  create_.Clear();
  create_bytes_ = 0;
  was_queued_ = true;
  tree::Stat stat;
  if (!FindNode(own_name_, &stat) || stat.ephemeral_owner != contender_session())
    return LookAgain();
  token_ = stat.czxid.value();
  if (only_token_ != 0 && token_ != only_token_) return Lose();
  SetWatch(true, own_name_, &is_own_watched_);
  BeginScan(own_name_);
  state_ = State::kRanking;
  wants_to_continue_ = true;
  return absl::OkStatus();
}

// --- The place in the queue ----------------------------------------------------------------------

absl::Status ContenderStream::Rank() {
  bool exists = false;
  const absl::StatusOr<bool> done = Scan(&exists);
  if (!done.ok()) return done.status();
  if (!*done) return absl::OkStatus();
  if (!exists || !IsQueued()) return LookAgain();
  const std::vector<QueuedContender>& own = scan().own();
  // An earlier call for this contender has created a znode, too: the first one counts.
  if (!own.empty() && own.front().name != own_name_) return Adopt(own.front().name);
  if (own.size() > 1) return Prune(own.back().name);
  current_ = {Shown::Kind::kHolds, 0, token_};
  if (scan().before().has_value()) {
    before_name_ = scan().before()->name;
    tree::Stat stat;
    if (!FindNode(before_name_, &stat)) {
      BeginScan(own_name_);  // it was deleted while the queue was read
      wants_to_continue_ = true;
      return absl::OkStatus();
    }
    before_token_ = stat.czxid.value();
    if (IsWaitOver()) return Withdraw();
    SetWatch(true, before_name_, &is_before_watched_);
    current_ = {Shown::Kind::kWaits, scan().ahead(), token_};
  }
  state_ = State::kQueued;
  Show();
  return absl::OkStatus();
}

absl::Status ContenderStream::Prune(const std::string& name) {
  const absl::StatusOr<bool> found = FindSession();
  if (!found.ok()) return found.status();
  if (!*found) return LookAgain();
  if (absl::Status s = SubmitDelete(name); !s.ok()) return s;
  state_ = State::kPruning;
  return absl::OkStatus();
}

absl::Status ContenderStream::CheckPlace() {
  if (!IsQueued()) return LookAgain();
  if (current_.kind == Shown::Kind::kWaits) {
    tree::Stat stat;
    if (!FindNode(before_name_, &stat)) {
      SetWatch(false, before_name_, &is_before_watched_);
      BeginScan(own_name_);
      state_ = State::kRanking;
      return Rank();
    }
    if (IsWaitOver()) return Withdraw();
  }
  Show();
  return absl::OkStatus();
}

absl::Status ContenderStream::Withdraw() {
  const absl::StatusOr<bool> found = FindSession();
  if (!found.ok()) return found.status();
  if (!*found) return LookAgain();
  // A contender that gets the lock in this moment keeps it.
  Operations operations;
  if (loop_->frontend().service().cluster_version() >= tree::kVersionCheckCreated) {
    v1::Operation::CheckCreated* check = operations.Add()->mutable_check_created();
    check->set_path(PathOf(before_name_));
    check->set_created_zxid(before_token_);
  } else {
    operations.Add()->mutable_check()->set_path(PathOf(before_name_));
  }
  operations.Add()->mutable_delete_()->set_path(PathOf(own_name_));
  if (absl::Status s = Submit(std::move(operations)); !s.ok()) return s;
  state_ = State::kWithdrawing;
  return absl::OkStatus();
}

absl::Status ContenderStream::LookAgain() {
  SetWatch(false, own_name_, &is_own_watched_);
  SetWatch(false, before_name_, &is_before_watched_);
  tree::SessionInfo info;
  loop_->Spend(1);
  if (!loop_->tree().FindSession(contender_session(), &info)) return Lose();
  current_ = {};
  BeginScan();
  state_ = State::kLooking;
  wants_to_continue_ = true;
  return absl::OkStatus();
}

bool ContenderStream::IsWaitOver() const {
  return deadline_.has_value() && loop_->now() >= *deadline_;
}

bool ContenderStream::IsQueued() {
  tree::Stat stat;
  return FindNode(own_name_, &stat) && stat.ephemeral_owner == contender_session() &&
         stat.czxid.value() == token_;
}

void ContenderStream::OnEvent(uint64_t, const Event& event) {
  wants_to_continue_ |= event.type == tree::EventType::kNodeDeleted;
}

void ContenderStream::SetWatch(bool is_watched, const std::string& name, bool* now) {
  if (is_watched == *now) return;
  *now = is_watched;
  if (is_watched) {
    loop_->frontend().AddWatch(tag(), PathOf(name), Scope::kNode);
  } else {
    loop_->frontend().RemoveWatch(tag(), PathOf(name), Scope::kNode);
  }
  tenants().SetWatches(static_cast<size_t>(is_own_watched_) +
                       static_cast<size_t>(is_before_watched_));
}

void ContenderStream::DropWatches(size_t max) {
  if (max == 0) return;
  SetWatch(false, own_name_, &is_own_watched_);
  SetWatch(false, before_name_, &is_before_watched_);
}

// --- The client ----------------------------------------------------------------------------------

void ContenderStream::Show() {
  if (shown_ == current_ || !outbox().empty()) return;
  v1::AcquireResponse response;
  if (current_.kind == Shown::Kind::kWaits) {
    response.mutable_waiting()->set_ahead(current_.ahead);
    response.mutable_waiting()->set_node(PathOf(own_name_));
  } else {
    response.mutable_held()->set_token(token_);
    response.mutable_held()->set_node(PathOf(own_name_));
  }
  response.set_zxid(loop_->seen_zxid().value());
  response.AppendToString(outbox().Open());
  outbox().Close();
  shown_ = current_;
}

absl::Status ContenderStream::Lose() {
  tree::SessionInfo info;
  loop_->Spend(1);
  const bool is_alive = loop_->tree().FindSession(contender_session(), &info);
  return Lose(is_alive ? v1::LOSS_REASON_DELETED : v1::LOSS_REASON_SESSION_ENDED);
}

absl::Status ContenderStream::Lose(v1::LossReason reason) {
  // If a message waits, this becomes a part of it. Of the fields of a oneof, the last one counts.
  v1::AcquireResponse response;
  response.mutable_lost()->set_reason(reason);
  response.set_zxid(loop_->seen_zxid().value());
  response.AppendToString(outbox().Open());
  outbox().Close();
  Finish(absl::OkStatus());
  return absl::OkStatus();
}

std::optional<ContenderKey> ContenderStream::contender() const {
  if (is_new()) return std::nullopt;
  return key();
}

size_t ContenderStream::outstanding() const {
  return finished() || state_ == State::kQueued ? 0 : 1;
}

absl::Status ContenderStream::OnTreeReplaced() {
  return Fail(v1::ERROR_CODE_UNAVAILABLE,
              "this member was far behind and has skipped events; call again with the same id");
}

absl::Status ContenderStream::CheckTime(std::chrono::steady_clock::time_point now,
                                        int64_t leader_contact_age_ms) {
  wants_to_continue_ |=
      state_ == State::kQueued && current_.kind == Shown::Kind::kWaits && IsWaitOver();
  return ContenderBase::CheckTime(now, leader_contact_age_ms);
}

}  // namespace quorate::rpc::native
