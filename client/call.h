// SPDX-License-Identifier: Apache-2.0

// A pending call of the client. Its outcome is obtained in one of three ways: Wait blocks for it,
// Then passes it to a callback, or a coroutine awaits it (`co_await client->AsyncGet("/a")`).
//
// The call starts when the Async function is called, not when its outcome is awaited, and continues
// even if its Call object is destroyed. Callbacks and coroutines run one at a time, in the order of
// the answers, on the client's callback thread (client.h). They may call every function that does
// not block; functions that block return FAILED_PRECONDITION there. While a callback runs, no other
// begins, but the session is kept alive, and the client continues to send and receive.
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

// An outcome or event that is to be delivered to the user.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // Delivers it; called on the callback thread. REQUIRES: it was not delivered yet.
  virtual void Deliver() = 0;
  // Delivers it and returns true if that runs no code of the user; otherwise does nothing and
  // returns false. May be called on any thread.
  virtual bool DeliverWithoutCallback() { return false; }
};

// The callback thread of a client.
class CallbackThread {
 public:
  virtual ~CallbackThread() = default;
  // Schedules `callback` on the callback thread; runs it on the calling thread if the client is
  // destroyed.
  virtual void Post(absl::AnyInvocable<void()> callback) = 0;
  // Ends the call with CANCELLED if it is pending.
  virtual void Cancel(uint64_t call) = 0;

  // Returns FAILED_PRECONDITION if the calling thread is running a callback of any client.
  static absl::Status CheckMayBlock();
};

template <class T>
class CallState : public Delivery {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // Sets the outcome that Deliver will deliver. REQUIRES: called once, before the delivery.
  void SetOutcome(absl::StatusOr<T> outcome) { outcome_.emplace(std::move(outcome)); }
  void Deliver() override {
    Callback callback;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (callback_ == nullptr) return SetDone();
      callback = std::move(callback_);
    }
    callback(std::move(*outcome_));
  }
  bool DeliverWithoutCallback() override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (callback_ != nullptr) return false;
    SetDone();
    return true;
  }
  absl::StatusOr<T> Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return is_done_; });
    return std::move(*outcome_);
  }
  // Stores `callback` for the delivery and returns nothing; if the outcome was delivered already,
  // returns the callback with the outcome instead.
  std::optional<std::pair<Callback, absl::StatusOr<T>>> SetCallback(Callback callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_done_) return std::make_pair(std::move(callback), std::move(*outcome_));
    callback_ = std::move(callback);
    return std::nullopt;
  }

  std::shared_ptr<CallbackThread> thread;  // set before the state is shared
  uint64_t number = 0;                     // of the call, for Cancel

 private:
  // REQUIRES: mutex_ is held.
  void SetDone() {
    is_done_ = true;
    done_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::optional<absl::StatusOr<T>> outcome_;
  Callback callback_;
};

}  // namespace internal

// A request that was sent, or waits to be. Its outcome comes once, by Wait, Then or co_await.
template <class T>
class [[nodiscard]] Call {
 public:
  // Gets the outcome of the call.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  explicit Call(std::shared_ptr<internal::CallState<T>> state) : state_(std::move(state)) {}

  // Blocks until the call is over, and returns its outcome. REQUIRES: at most one of Wait, Then and
  // co_await is used, and at most once.
  absl::StatusOr<T> Wait() {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    return state_->Wait();
  }

  // Calls `callback` once with the outcome, on the callback thread, even if the call is over
  // already. Does not block.
  void Then(Callback callback) {
    // The callback may destroy this object before SetCallback returns.
    const std::shared_ptr<internal::CallState<T>> state = state_;
    auto ready = state->SetCallback(std::move(callback));
    if (!ready.has_value()) return;
    state->thread->Post(
        [ready = std::move(*ready)]() mutable { ready.first(std::move(ready.second)); });
  }

  // Ends the call with CANCELLED, unless it is over. A write that was sent already may still be
  // made; the message of the status says whether it was sent.
  void Cancel() { state_->thread->Cancel(state_->number); }

  // Suspends the coroutine until the call is over. The coroutine may be destroyed while it is
  // suspended here (not while it runs): the call continues, and its outcome is dropped.
  auto operator co_await() { return Awaiter(this); }

 private:
  class Awaiter {
   public:
    explicit Awaiter(Call* call) : call_(call) {}
    ~Awaiter() {
      std::lock_guard<std::mutex> lock(shared_->mutex);
      shared_->waiting = nullptr;
    }
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) {
      // The coroutine, and this object with it, may be destroyed before Then returns.
      const std::shared_ptr<Shared> shared = shared_;
      shared->waiting = coroutine;
      call_->Then([shared](absl::StatusOr<T> result) {
        std::coroutine_handle<> waiting;
        {
          std::lock_guard<std::mutex> lock(shared->mutex);
          shared->outcome.emplace(std::move(result));
          waiting = std::exchange(shared->waiting, nullptr);
        }
        if (waiting != nullptr) waiting.resume();
      });
    }
    absl::StatusOr<T> await_resume() { return std::move(*shared_->outcome); }

   private:
    // State shared with the callback, which must not access the frame of a destroyed coroutine.
    struct Shared {
      std::mutex mutex;
      std::coroutine_handle<> waiting;  // null: the coroutine was resumed or destroyed
      std::optional<absl::StatusOr<T>> outcome;
    };
    Call* const call_;
    const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  };

  std::shared_ptr<internal::CallState<T>> state_;
};

}  // namespace quorate
