// The outcome of a call that is under way: to be waited for, to be told by a callback, or to be
// awaited by a coroutine (`co_await client->AsyncGet("/a")`).
//
// A call is begun when it is made, in the order in which calls are made, and goes on if its Call is
// destroyed. Callbacks and coroutines run one after another, in the order of the answers, on the
// client's thread of callbacks (client.h); they may call anything but functions that block, which
// refuse to be called there (FAILED_PRECONDITION). As long as one runs, no other begins, but the
// session is kept alive, and the client goes on receiving and sending.
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

// Something to hand to the user.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // Hands it over, on the thread of callbacks. REQUIRES: it was not handed over yet.
  virtual void Deliver() = 0;
  // Hands it over if that runs nothing of the user's, on any thread; false if it would.
  virtual bool DeliverWithoutCallback() { return false; }
};

// Where callbacks run.
class CallbackThread {
 public:
  virtual ~CallbackThread() = default;
  // Runs it there soon; here, if the client is gone.
  virtual void Post(absl::AnyInvocable<void()> callback) = 0;
  // Gives a call up, as far as it is still under way.
  virtual void Cancel(uint64_t call) = 0;

  // An error if the calling thread is running a callback.
  static absl::Status CheckMayBlock();
};

template <class T>
class CallState : public Delivery {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // What will be delivered. REQUIRES: called once, before that.
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

  // The coroutine may be destroyed while it is suspended in co_await (not while it runs): the call
  // goes on, and its outcome is dropped.
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
      // The coroutine, and this with it, may be gone before Then returns.
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
    // With the callback, which must not reach into the frame of a coroutine that is gone.
    struct Shared {
      std::mutex mutex;
      std::coroutine_handle<> waiting;  // none: it was resumed, or destroyed
      std::optional<absl::StatusOr<T>> outcome;
    };
    Call* const call_;
    const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  };

  std::shared_ptr<internal::CallState<T>> state_;
};

}  // namespace quorate
