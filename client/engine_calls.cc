// SPDX-License-Identifier: Apache-2.0

// Engine: takes calls from the threads of the user, and reports their begin and end.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/engine.h"
#include "client/error.h"
#include "client/no_waiting.h"

namespace quorate::internal {
namespace {

// The most bytes of a request. The servers accept messages of up to 8 MB; the difference is for the
// fields around the request.
constexpr size_t kRequestBytesMax = 7u << 20;
// The most operations that a server accepts in one write (quorate.v1.TreeService.Txn), for a caller with
// one identity besides its address.
constexpr int kOperationsMax = 250'000;

// Returns the name of a call.
std::string NameOfCall(const v1::Request& request) {
  const std::string description = Describe(request);
  return description.substr(0, description.find(' '));
}

// Reports the end of a call, and then delivers its outcome.
class EndedCall final : public Delivery {
 public:
  EndedCall(CallEnd end, const std::function<void(const CallEnd&)>* report,
            std::shared_ptr<Delivery> outcome)
      : end_(std::move(end)), report_(report), outcome_(std::move(outcome)) {}

  void Deliver() override {
    (*report_)(end_);
    std::exchange(outcome_, nullptr)->Deliver();
  }

 private:
  const CallEnd end_;
  const std::function<void(const CallEnd&)>* const report_;
  std::shared_ptr<Delivery> outcome_;
};

// The number of NoWaiting of this thread.
thread_local int no_waiting_depth = 0;

}  // namespace

NoWaiting::NoWaiting() { ++no_waiting_depth; }
NoWaiting::~NoWaiting() { --no_waiting_depth; }

void Engine::Submit(std::unique_ptr<Pending> pending) {
  if (pending->done != nullptr) Trace(pending.get());
  absl::Status refused;
  const v1::Request::Write& write = pending->request->write();
  const int parts = write.operations_size() + write.otherwise_size() + write.compares_size();
  if (pending->bytes > kRequestBytesMax || parts > kOperationsMax) {
    refused = MakeError(v1::ERROR_CODE_TOO_LARGE, Describe(*pending->request));
  } else {
    refused = TakeSpace(*pending);
  }
  if (refused.ok()) {
    Add({std::move(pending), nullptr});
    return;
  }
  if (pending->done == nullptr) return;
  // `done` is shared, because Add may refuse the action, and `done` is then called here.
  auto shared = std::make_shared<Done>(std::move(pending->done));
  if (Add({nullptr, [this, shared, refused] { Deliver((*shared)(refused).delivery, 0); }})) return;
  const std::shared_ptr<Delivery> delivery = (*shared)(refused).delivery;
  if (delivery != nullptr && !callbacks_->Post(delivery)) delivery->Deliver();
}

absl::Status Engine::TakeSpace(const Pending& pending) {
  const bool may_wait = options_.when_full == WhenFull::kBlock && !pending.is_continuation &&
                        pending.bytes <= options_.pending_bytes_max && no_waiting_depth == 0 &&
                        CallbackThread::CheckMayBlock().ok();
  std::unique_lock<std::mutex> lock(mutex_.native());
  const auto take = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
    ++waiting_for_space_;
    bool is_late = false;
    while (may_wait && !is_stopped_ && !HasSpace(pending.bytes) && !is_late &&
           callbacks_->has_room_for_answers()) {
      if (pending.deadline == Clock::time_point::max()) {
        space_.wait(lock);
      } else {
        is_late = space_.wait_for(lock, pending.deadline - Clock::now()) == std::cv_status::timeout;
      }
    }
    --waiting_for_space_;
    if (is_stopped_) return absl::CancelledError("the client was destroyed");
    if (HasSpace(pending.bytes) || pending.is_continuation) {
      ++calls_;
      call_bytes_ += pending.bytes;
      return absl::OkStatus();
    }
    if (is_late) {
      return absl::DeadlineExceededError(
          absl::StrCat(Describe(*pending.request), ": too many calls were pending for ",
                       pending.deadline_ms, " ms; nothing was sent"));
    }
    const bool is_stuck = may_wait && !callbacks_->has_room_for_answers();
    return absl::ResourceExhaustedError(absl::StrCat(
        calls_, " calls of ", call_bytes_,
        " bytes are pending, the most that the client's options allow; ",
        is_stuck ? "this one does not wait for them, because too many outcomes wait for callbacks: "
                   "make these brief, and try again"
                 : "wait until some are done"));
  };
  return take();
}

void Engine::EndWaitingIfFull() {
  if (callbacks_->has_room_for_answers()) return;
  MutexLock lock(&mutex_);
  if (waiting_for_space_ > 0) space_.notify_all();
}

void Engine::Trace(Pending* pending) {
  if (options_.on_call_begin == nullptr && options_.on_call_end == nullptr) return;
  if (!pending->is_continuation) {
    std::string name = NameOfCall(*pending->request);
    {
      MutexLock lock(&mutex_);
      traced_[pending->call] = {name, Clock::now()};
    }
    if (options_.on_call_begin != nullptr) {
      options_.on_call_begin({.call = pending->call, .name = std::move(name)});
    }
  }
  pending->done = [this, call = pending->call,
                   done = std::move(pending->done)](absl::StatusOr<v1::Response> response) mutable {
    Outcome outcome = done(std::move(response));
    outcome.delivery = WithEnd(call, outcome.status, std::move(outcome.delivery));
    return outcome;
  };
}

std::shared_ptr<Delivery> Engine::WithEnd(uint64_t call, const absl::Status& status,
                                          std::shared_ptr<Delivery> delivery) {
  if (delivery == nullptr) return nullptr;
  CallEnd end{.call = call, .status = status};
  {
    MutexLock lock(&mutex_);
    const auto found = traced_.find(call);
    if (found == traced_.end()) return delivery;
    end.name = std::move(found->second.name);
    end.duration = Clock::now() - found->second.begun;
    traced_.erase(found);
    end.server = answering_server_;
  }
  if (options_.on_call_end == nullptr) return delivery;
  return std::make_shared<EndedCall>(std::move(end), &options_.on_call_end, std::move(delivery));
}

}  // namespace quorate::internal
