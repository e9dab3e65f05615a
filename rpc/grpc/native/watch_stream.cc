// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/watch_stream.h"

#include <utility>

#include "base/assert.h"
#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// The interval at which a client without events gets the current zxid.
constexpr auto kProgressPeriod = std::chrono::seconds(5);
constexpr int64_t kProgressMsMin = 100;
constexpr int64_t kProgressMsMax = 3'600'000;
constexpr int kTypesMax = 16;

}  // namespace

WatchStream::WatchStream(StreamLoop* loop, uint32_t tag, std::string client_address)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/false),
      opened_(loop->now()),
      period_(kProgressPeriod),
      sent_(loop->now()) {}

absl::Status WatchStream::OnMessage(std::string_view bytes) {
  if (state_ != State::kNew)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "a watch has one request");
  if (absl::Status s = CheckParts(*v1::WatchRequest::descriptor(), bytes); !s.ok()) return s;
  if (!request_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the message is not a quorate.v1.WatchRequest");
  }
  request_.DiscardUnknownFields();
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (!tree::IsValidPath(request_.path(), /*sequential=*/false) || request_.after_zxid() < 0 ||
      !FromProto(request_.scope(), &scope_)) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, {});
  }
  if (absl::Status s = SetOptions(); !s.ok()) return s;
  if (absl::Status s = CheckCaughtUp(loop_->status()); !s.ok()) return s;
  state_ = State::kStarting;
  wants_to_continue_ = true;
  return CheckContact(loop_->status(), loop_->frontend().config().ContactLimitMs());
}

absl::Status WatchStream::SetOptions() {
  const size_t path_bytes_max = PathBytesMax(loop_->frontend().config());
  if (request_.path().size() > path_bytes_max || request_.prefix().size() > path_bytes_max) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    "the path or the prefix is longer than any path can be");
  }
  if (request_.types_size() > kTypesMax) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the request has more than 16 types of events");
  }
  for (const int type : request_.types()) {
    if (type <= v1::EVENT_TYPE_UNSPECIFIED || !v1::EventType_IsValid(type)) {
      return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                      "this member does not know one of the types of events");
    }
    types_ |= 1u << static_cast<uint32_t>(type);
  }
  if (!request_.prefix().empty()) {
    prefix_ = request_.path() == "/" ? "/" : request_.path() + "/";
    prefix_ += request_.prefix();
  }
  if (!request_.has_progress_interval()) return absl::OkStatus();
  const std::optional<int64_t> ms = v1::ToMs(request_.progress_interval());
  if (!ms.has_value() || *ms < kProgressMsMin || *ms > kProgressMsMax) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS,
                    "progress_interval is not between 0.1 s and 1 hour");
  }
  period_ = std::chrono::milliseconds(*ms);
  always_reports_ = true;
  return absl::OkStatus();
}

absl::Status WatchStream::OnResult(tree::ApplyResult) {
  ASSERT(false, "a watch submits no command");
}

absl::Status WatchStream::Start() {
  const tree::Zxid after(request_.after_zxid());
  const EventHistory& history = loop_->frontend().history();
  if (after > loop_->seen_zxid()) {
    if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
    return IsBehind(after, loop_->seen_zxid());
  }
  if (request_.after_zxid() != 0) {
    if (after < history.oldest()) {
      v1::ErrorDetail detail;
      detail.set_path(request_.path());
      detail.set_zxid(loop_->seen_zxid().value());
      detail.set_oldest_zxid(history.oldest().value());
      return ToStatus(v1::ERROR_CODE_EVENTS_LOST, {}, std::move(detail));
    }
    feed_.GoBackTo(history.NumberAfter(after));
  }
  if (!tenants().MayWatch()) return OnLimit(Limit::kWatches);
  tenants().SetWatches(1);
  loop_->frontend().AddWatch(tag(), request_.path(), scope_, wants_values());
  state_ = State::kUp;
  // The first message has the zxid from which the watch begins, also if the watch lags already.
  AddMessage(request_.after_zxid() != 0 ? after : loop_->seen_zxid());
  return absl::OkStatus();
}

absl::Status WatchStream::Continue() {
  wants_to_continue_ = false;
  if (state_ == State::kStarting) {
    if (absl::Status s = Start(); !s.ok()) return s;
  }
  if (state_ != State::kUp) return absl::OkStatus();
  const auto has_room = [this] { return outbox().bytes() < EventFeed::kUnsentBytesMax; };
  absl::Status status = feed_.CatchUp(
      loop_->frontend().history(), [&] { return has_room() && !loop_->has_spent_enough(); },
      [this](uint64_t number, const Event& event) {
        loop_->Spend(1);
        if (Sees(scope_, request_.path(), event.path)) Send(number, event);
      });
  wants_to_continue_ = feed_.lagging() && has_room();
  if (loop_->now() - sent_ >= period_) {
    sent_ = loop_->now();
    const bool reports = always_reports_ || loop_->seen_zxid() > sent_zxid_;
    if (outbox().empty() && reports) AddMessage();
  }
  return status;
}

void WatchStream::AddMessage(tree::Zxid zxid) {
  std::string* message = outbox().Open();
  if (zxid != tree::Zxid()) {
    AppendField(v1::WatchResponse::kZxidFieldNumber, zxid.value(), message);
  }
  outbox().Close();
}

void WatchStream::OnEvent(uint64_t number, const Event& event) {
  if (state_ != State::kUp) return;
  if (wants_values() && !feed_.lagging() && loop_->has_spent_enough()) {
    // Very many watches of one znode copy its data: the tree is unlocked in between.
    feed_.GoBackTo(number);
    wants_to_continue_ = true;
  }
  if (feed_.Takes(number, outbox().bytes())) Send(number, event);
}

void WatchStream::Send(uint64_t number, const Event& event) {
  if (!event.path.starts_with(prefix_)) return;
  const bool may_list = event.changes_children() && identities().MayRead(event.parent_readers);
  const bool may_read = identities().MayRead(event.readers);
  if (!IsTold(scope_, request_.path(), event, may_read, may_list)) return;
  v1::Event told;
  ToProto(event, &told);
  if (types_ != 0 && (types_ & (1u << static_cast<uint32_t>(told.type()))) == 0) return;
  if (wants_values()) AddValues(number, may_read, &told);
  const size_t bytes = told.ByteSizeLong();
  loop_->Spend(bytes / kBytesPerNode);
  AppendField(v1::WatchResponse::kEventsFieldNumber, told, outbox().Open(bytes));
  outbox().Close();
}

bool WatchStream::MayReadNow(const std::string& path) const {
  loop_->Spend(1 + path.size() / kBytesPerNode);
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  return loop_->tree().GetData(path, identities().all(), &data, &has_data, &stat) !=
         tree::ErrorCode::kNoAuth;
}

void WatchStream::AddValues(uint64_t number, bool may_read, v1::Event* event) const {
  const bool has_value = request_.with_value() && event->type() != v1::EVENT_TYPE_NODE_DELETED;
  const bool has_previous =
      request_.with_previous_value() && event->type() != v1::EVENT_TYPE_NODE_CREATED;
  if (!has_value && !has_previous) return;
  const ValueHistory::Values* values = nullptr;
  // The data are also kept from a caller for whom the znode became private after the event.
  if (may_read && MayReadNow(event->path())) values = loop_->frontend().values().Find(number);
  if (values == nullptr) {
    event->set_values_lost(true);
    return;
  }
  if (request_.with_value() && values->value.has_value()) event->set_value(*values->value);
  if (request_.with_previous_value() && values->previous.has_value()) {
    if (values->changes_acls) {
      event->set_values_lost(true);
    } else {
      event->set_previous_value(*values->previous);
    }
  }
}

absl::Status WatchStream::OnTreeReplaced() {
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "this member was far behind and has skipped events; watch again from the zxid "
                  "that was received");
}

absl::Status WatchStream::CheckTime(std::chrono::steady_clock::time_point now,
                                    int64_t /*leader_contact_age_ms*/) {
  if (state_ == State::kNew && now - opened_ > kOpenTimeout) {
    return ToStatus(v1::ERROR_CODE_NO_REQUEST, "no request was received");
  }
  if (state_ == State::kStarting) wants_to_continue_ = true;
  if (state_ == State::kUp && now - sent_ >= period_) wants_to_continue_ = true;
  if (state_ == State::kNew) return absl::OkStatus();
  // Without contact with a leader, this member may miss changes. Therefore the client should watch
  // at another member.
  return CheckContact(loop_->status(), loop_->frontend().config().ContactLimitMs());
}

void WatchStream::Complete(std::string* message) {
  sent_ = loop_->now();
  if (feed_.lagging()) return;
  sent_zxid_ = loop_->seen_zxid();
  AppendField(v1::WatchResponse::kZxidFieldNumber, sent_zxid_.value(), message);
}

void WatchStream::DropWatches(size_t max) {
  if (!has_watches() || max == 0) return;
  loop_->frontend().RemoveWatch(tag(), request_.path(), scope_, wants_values());
  tenants().SetWatches(0);
  state_ = State::kStarting;
}

}  // namespace quorate::rpc::native
