// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/async_lock.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/timer.h"

namespace quorate::internal {
namespace {

// The wait of one call. The node's handler, the timer and the stop callback have weak references; the
// call and this object own each other until the outcome is known.
class AsyncLock final : public CallbackThread, public std::enable_shared_from_this<AsyncLock> {
 public:
  AsyncLock(Client* client, std::string directory)
      : client_(client), directory_(std::move(directory)) {}

  Call<HeldLock> Start(LockNode::Options options, const std::stop_token& stop, int deadline_ms) {
    auto call = std::make_shared<CallState<HeldLock>>();
    call->thread = shared_from_this();
    state_ = call;
    const std::weak_ptr<AsyncLock> weak = weak_from_this();
    options.handler = [weak, outer = std::move(options.handler)](const LockNode& node,
                                                                 const LockNode::Event& event) {
      if (outer != nullptr) outer(node, event);
      if (const auto self = weak.lock()) self->OnEvent(event);
    };
    auto node = LockNode::Start(client_, std::move(options));
    bool is_over = false;
    std::optional<LockNode::Event> early;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      node_ = node;
      is_over = state_ == nullptr;
      early = std::move(early_);
    }
    if (early.has_value()) OnEvent(*early);
    if (deadline_ms > 0) {
      RunAfter(client_, std::chrono::milliseconds(deadline_ms), [weak, deadline_ms] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->GiveUp(absl::DeadlineExceededError(
            absl::StrCat(self->directory_, ": not acquired within ", deadline_ms, " ms")));
      });
    }
    if (stop.stop_possible() && !is_over) {
      stop_callback_ = std::make_unique<StopCallback>(stop, [weak] {
        if (const auto self = weak.lock()) self->Cancel(0);
      });
    }
    return Call<HeldLock>(std::move(call));
  }

  void Post(absl::AnyInvocable<void()> callback) override {
    RunAfter(client_, std::chrono::milliseconds(0), std::move(callback));
  }
  void Cancel(uint64_t /*call*/) override {
    GiveUp(absl::CancelledError(absl::StrCat(directory_, ": the wait for the lock was cancelled")));
  }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void OnEvent(const LockNode::Event& event) {
    using Type = LockNode::Event::Type;
    if (event.type != Type::kTurn && event.type != Type::kEnded) return;
    std::shared_ptr<LockNode> node;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      node = node_;
      // Start has not returned on another thread, which handles the event then.
      if (node == nullptr) {
        if (!early_.has_value() || event.type == Type::kEnded) early_ = event;
        return;
      }
    }
    if (event.type == Type::kEnded) {
      Finish(event.reason);
    } else {
      Finish(HeldLock(std::move(node)));
    }
  }

  void GiveUp(const absl::Status& status) {
    // If the turn came first, the lock belongs to the call's outcome.
    if (!Finish(status)) return;
    std::shared_ptr<LockNode> node;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      node = node_;
    }
    if (node != nullptr) node->Release();
  }

  // Ends the call, and returns true; returns false if it is over already.
  bool Finish(absl::StatusOr<HeldLock> outcome) {
    std::shared_ptr<CallState<HeldLock>> state;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state = std::exchange(state_, nullptr);
    }
    // A HeldLock that nobody receives releases the node.
    if (state == nullptr) return false;
    state->SetOutcome(std::move(outcome));
    if (!state->DeliverWithoutCallback()) Post([state] { state->Deliver(); });
    return true;
  }

  Client* const client_;
  const std::string directory_;
  std::mutex mutex_;
  std::shared_ptr<LockNode> node_;
  std::optional<LockNode::Event> early_;
  std::shared_ptr<CallState<HeldLock>> state_;  // null: the call is over
  // Its callback may be running when this object is destroyed, on the thread that destroys it.
  std::unique_ptr<StopCallback> stop_callback_;
};

}  // namespace

Call<HeldLock> StartAsyncLock(Client* client, LockNode::Options options,
                              const std::stop_token& stop, int deadline_ms) {
  auto lock = std::make_shared<AsyncLock>(client, options.directory);
  return lock->Start(std::move(options), stop, deadline_ms);
}

}  // namespace quorate::internal
