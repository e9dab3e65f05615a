// SPDX-License-Identifier: Apache-2.0

// Engine: sends requests on a stream, and handles their answers.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "client/engine.h"
#include "client/error.h"

namespace quorate::internal {
namespace {

// The most unanswered requests on a stream, and the most bytes of several requests in one message.
constexpr size_t kSentMax = 4096;
constexpr size_t kMessageBytesMax = 1u << 20;

}  // namespace

void Engine::AddOwn(std::unique_ptr<v1::Request> request) {
  auto pending = std::make_unique<Pending>();
  pending->watch_id = request->watch().watch_id();
  pending->bytes = request->ByteSizeLong();
  pending->request = std::move(request);
  pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(sent_), std::move(pending));
}

void Engine::Send() {
  if (stream_ == nullptr || !is_up_ || !stream_->ready()) return;
  const Clock::time_point now = Clock::now();
  const bool is_due = now - last_sent_ >= timeout_ / 6;
  // The ping is a request that the member answers, so that a dead stream is noticed.
  if (is_due && sent_ == 0) {
    auto ping = std::make_unique<v1::Request>();
    ping->mutable_who_am_i();
    AddOwn(std::move(ping));
  }
  v1::SessionRequest message;
  const int added = AddRequests(&message);
  if (added == 0 && !is_due) return;
  message.set_acknowledged_sequence(acknowledged_);
  stream_->Send(message);
  last_sent_ = now;
  // The requests are owned by `pending_`, not by the message.
  std::vector<v1::Request*> requests(static_cast<size_t>(added));
  message.mutable_requests()->UnsafeArenaExtractSubrange(0, added, requests.data());
}

int Engine::AddRequests(v1::SessionRequest* message) {
  size_t bytes = 0;
  int added = 0;
  while (sent_ < pending_.size() && sent_ < kSentMax) {
    Pending& pending = *pending_[sent_];
    const bool is_write = pending.request->has_write();
    if (pending.call != 0 && IsRewatching()) break;
    if (pending.request->has_close() && has_chains()) break;
    // Every request that is sent adds an answer, which would wait for callbacks.
    if (pending.call != 0 && !callbacks_->has_room_for_answers()) break;
    if (is_write && writes_sent_ >= write_window_) break;
    // The servers keep only few bytes of what was read and not acknowledged: the next such write
    // acknowledges the answer of this one.
    if (pending.has_reads && reading_writes_sent_ > 0) break;
    if (added > 0 && bytes + pending.bytes > kMessageBytesMax) break;
    if (pending.watch_id != 0 && !PrepareWatch(&pending)) {
      std::unique_ptr<Pending> ended = std::move(pending_[sent_]);
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(sent_));
      Complete(std::move(ended), absl::CancelledError("the watch was ended"));
      continue;
    }
    if (!std::exchange(pending.was_sent, true)) {
      pending.request->set_id(next_id_++);
      if (is_write) pending.request->mutable_write()->set_sequence(next_sequence_++);
    }
    message->mutable_requests()->UnsafeArenaAddAllocated(pending.request.get());
    bytes += pending.bytes;
    ++added;
    ++sent_;
    writes_sent_ += is_write ? 1 : 0;
    reading_writes_sent_ += pending.has_reads ? 1 : 0;
  }
  return added;
}

bool Engine::IsRefusedByMember(const Pending& pending, const v1::Response& response) {
  switch (response.error()) {
    case v1::ERROR_CODE_UNAVAILABLE:
      // A watch after a zxid that the cluster has not reached would be sent from member to member
      // for ever.
      return pending.watch_id == 0 || pending.request->watch().after_zxid() <= last_zxid_;
    case v1::ERROR_CODE_TOO_MANY_UNACKNOWLEDGED:
      // The answers are large: allows fewer unanswered writes at a time. Each refusal costs a stream;
      // the next one comes after twice as many writes, if the answers stay as large.
      write_window_ = std::max<size_t>(write_window_ / 2, 1);
      writes_in_window_ = 0;
      writes_to_widen_ = std::min(2 * writes_to_widen_, kWritesToWidenMax);
      return true;
    case v1::ERROR_CODE_OUT_OF_SEQUENCE:
      return true;
    default:
      return false;
  }
}

void Engine::WidenWindow() {
  if (write_window_ == kWritesSentMax || ++writes_in_window_ < writes_to_widen_) return;
  write_window_ = std::min(write_window_ + 1 + write_window_ / 8, kWritesSentMax);
  writes_in_window_ = 0;
}

void Engine::OnResponse(v1::Response* response) {
  if (sent_ == 0 || pending_.front()->request->id() != response->id()) {
    return Abandon(absl::InternalError("the member answered a request that was not sent"));
  }
  if (IsRefusedByMember(*pending_.front(), *response)) {
    return Abandon(absl::UnavailableError(
        absl::StrCat(Describe(*pending_.front()->request), ": ",
                     ToAbsl(NameOf(static_cast<ErrorCode>(response->error()))))));
  }
  if (response->error() == v1::ERROR_CODE_SESSION_EXPIRED) {
    return Fail(MakeError(v1::ERROR_CODE_SESSION_EXPIRED, "the session has ended"));
  }
  const v1::Request& request = *pending_.front()->request;
  const int results_expected = response->write().branch() == v1::BRANCH_OTHERWISE
                                   ? request.write().otherwise_size()
                                   : request.write().operations_size();
  if (response->error() == v1::ERROR_CODE_UNSPECIFIED && request.has_write() &&
      response->write().results_size() != results_expected) {
    return Abandon(absl::InternalError("the member answered a write without its results"));
  }
  const std::string server = stream_->address();
  std::unique_ptr<Pending> pending = std::move(pending_.front());
  pending_.pop_front();
  --sent_;
  last_zxid_ = std::max(last_zxid_, response->zxid());
  if (pending->request->has_write()) {
    --writes_sent_;
    reading_writes_sent_ -= pending->has_reads ? 1 : 0;
    WidenWindow();
    acknowledged_ = pending->request->write().sequence();
  }
  OnServed(pending->request->id());
  if (pending->call == 0 && pending->request->has_sync() && is_suspended_) {
    // The thread stood still again meanwhile.
    if (is_stale_) return AskWhetherAlive();
    Resume();
  }
  if (pending->watch_id != 0 && OnWatchAnswered(&pending, *response)) return;
  if (pending->request->has_close()) {
    EndStream();
    is_up_ = false;
    const absl::Status closed = absl::FailedPreconditionError("the client was closed");
    TellListenersOfEnd(closed);
    EndCalls(closed);
    is_over_ = true;
    EndWatches();
    SetState(Client::State::kClosed);
  }
  Complete(std::move(pending), std::move(*response), server);
}

}  // namespace quorate::internal
