// The outcome of a call that is under way: to be waited for, to be told by a callback, or to be
// awaited by a coroutine (`co_await client->AsyncGet("/a")`).
//
// A call is begun when it is made, in the order in which calls are made, and goes on if its Call is
// destroyed. Callbacks and coroutines run on the client's own thread, one after another, in the
// order of the answers; they may call anything but functions that block, which refuse to be called
// there (FAILED_PRECONDITION). As long as one runs, the client does nothing else: what takes more
// than some milliseconds belongs on another thread.
//
// Thread-safety: a Call is used by one thread at a time.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate {

namespace internal {

// Where callbacks run.
class CallbackThread {
 public:
  virtual ~CallbackThread() = default;
  // Runs it there soon; here, if the client is gone.
  virtual void Post(absl::AnyInvocable<void()> callback) = 0;
  // Gives a call up, as far as it is still under way.
  virtual void Cancel(uint64_t call) = 0;

  // An error if the calling thread is one of callbacks.
  static absl::Status CheckMayBlock();
  // From now on the calling thread is one of callbacks.
  static void MarkThisThread();
};

template <class T>
class CallState {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // Gives the outcome, on the thread of callbacks. REQUIRES: called once.
  void Complete(absl::StatusOr<T> outcome) {
    Callback callback;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (callback_ == nullptr) {
        outcome_.emplace(std::move(outcome));
        is_done_ = true;
        done_.notify_all();
        return;
      }
      callback = std::move(callback_);
    }
    callback(std::move(outcome));
  }
  absl::StatusOr<T> Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return is_done_; });
    return std::move(*outcome_);
  }
  // Returns the outcome with the callback if it is there already.
  std::optional<std::pair<Callback, absl::StatusOr<T>>> SetCallback(Callback callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_done_) return std::make_pair(std::move(callback), std::move(*outcome_));
    callback_ = std::move(callback);
    return std::nullopt;
  }

  std::shared_ptr<CallbackThread> thread;  // set before the state is shared
  uint64_t number = 0;                     // of the call, for Cancel

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::optional<absl::StatusOr<T>> outcome_;
  Callback callback_;
};

}  // namespace internal

template <class T>
class [[nodiscard]] Call {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  explicit Call(std::shared_ptr<internal::CallState<T>> state) : state_(std::move(state)) {}

  // Blocks. REQUIRES, of Wait, Then and co_await: at most one of them, once.
  absl::StatusOr<T> Wait() {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    return state_->Wait();
  }

  // Calls `callback` once, also if the outcome is there already.
  void Then(Callback callback) {
    // The callback may destroy this object before SetCallback returns.
    const std::shared_ptr<internal::CallState<T>> state = state_;
    auto ready = state->SetCallback(std::move(callback));
    if (!ready.has_value()) return;
    state->thread->Post(
        [ready = std::move(*ready)]() mutable { ready.first(std::move(ready.second)); });
  }

  // Gives the call up: unless it is over, its outcome is CANCELLED. A write that was sent already
  // may still be made; the status says whether it was.
  void Cancel() { state_->thread->Cancel(state_->number); }

  auto operator co_await() {
    struct Awaiter {
      Call* call;
      std::optional<absl::StatusOr<T>> outcome;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) {
        call->Then([this, coroutine](absl::StatusOr<T> result) {
          outcome.emplace(std::move(result));
          coroutine.resume();
        });
      }
      absl::StatusOr<T> await_resume() { return std::move(*outcome); }
    };
    return Awaiter{this, std::nullopt};
  }

 private:
  std::shared_ptr<internal::CallState<T>> state_;
};

}  // namespace quorate
