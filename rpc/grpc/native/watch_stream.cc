// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/watch_stream.h"

#include <utility>

#include "base/assert.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// The interval at which a client without events gets the current zxid.
constexpr auto kProgressPeriod = std::chrono::seconds(5);

}  // namespace

WatchStream::WatchStream(StreamLoop* loop, uint32_t tag, std::string client_address)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/false),
      opened_(loop->now()),
      sent_(loop->now()) {}

absl::Status WatchStream::OnMessage(std::string_view bytes) {
  if (state_ != State::kNew)
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "a watch has one request");
  if (absl::Status s = CheckParts(*v1::WatchRequest::descriptor(), bytes); !s.ok()) return s;
  if (!request_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "the message is not a quorate.v1.WatchRequest");
  }
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (!tree::IsValidPath(request_.path(), /*sequential=*/false) || request_.after_zxid() < 0 ||
      !FromProto(request_.scope(), &scope_)) {
    return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, {});
  }
  if (absl::Status s = CheckCaughtUp(loop_->status()); !s.ok()) return s;
  state_ = State::kStarting;
  wants_to_continue_ = true;
  return CheckContact(loop_->status(), loop_->frontend().config().ContactLimitMs());
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
  loop_->frontend().AddWatch(tag(), request_.path(), scope_);
  state_ = State::kUp;
  AddMessage();  // the first message has the zxid from which the watch begins
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
      [this](const Event& event) {
        loop_->Spend(1);
        if (Sees(scope_, request_.path(), event.path)) Send(event);
      });
  wants_to_continue_ = feed_.lagging() && has_room();
  if (loop_->now() - sent_ >= kProgressPeriod) {
    sent_ = loop_->now();
    if (outbox().empty() && loop_->seen_zxid() > sent_zxid_) AddMessage();
  }
  return status;
}

void WatchStream::AddMessage() {
  outbox().Open();
  outbox().Close();
}

void WatchStream::OnEvent(uint64_t number, const Event& event) {
  if (state_ == State::kUp && feed_.Takes(number, outbox().bytes())) Send(event);
}

void WatchStream::Send(const Event& event) {
  const bool may_list = event.changes_children() && identities().MayRead(event.parent_readers);
  if (!IsTold(scope_, request_.path(), event, identities().MayRead(event.readers), may_list))
    return;
  v1::Event told;
  ToProto(event, &told);
  AppendField(v1::WatchResponse::kEventsFieldNumber, told, outbox().Open());
  outbox().Close();
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
  if (state_ == State::kUp && now - sent_ >= kProgressPeriod) wants_to_continue_ = true;
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
  loop_->frontend().RemoveWatch(tag(), request_.path(), scope_);
  tenants().SetWatches(0);
  state_ = State::kStarting;
}

}  // namespace quorate::rpc::native
