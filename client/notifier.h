// SPDX-License-Identifier: Apache-2.0

// Passes the notifications of a watch, or the events of the session, to the user's callback.
//
// Thread-safety: all functions may be called from any thread, except those marked as called by the
// engine.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "client/call.h"
#include "client/client.h"

namespace quorate::internal {

// Returns the notification that replaces `newest` and all undelivered ones before it.
inline WatchNotification Summary(const WatchNotification& newest) {
  if (const Event* event = std::get_if<Event>(&newest)) return WatchReset{event->zxid};
  return newest;
}
inline SessionEvent Summary(const SessionEvent& newest) { return newest; }

template <class Notification>
class Notifier : public std::enable_shared_from_this<Notifier<Notification>> {
 public:
  using Callback = absl::AnyInvocable<void(const Notification&)>;

  explicit Notifier(Callback callback) : callback_(std::move(callback)) {}

  // Returns the delivery for `notification`, which the engine puts into the queue. If the queue has
  // no room, turns the notification into a summary. If an earlier notification of this notifier is
  // still queued, the summary replaces it, and null is returned. Called by the engine.
  std::shared_ptr<Delivery> Add(Notification notification, bool has_room) {
    if (!has_room) {
      notification = Summary(notification);
      const std::shared_ptr<QueuedNotification> last = last_.lock();
      if (last != nullptr && last->Replace(notification)) return nullptr;
    }
    auto queued =
        std::make_shared<QueuedNotification>(this->shared_from_this(), std::move(notification));
    last_ = queued;
    return queued;
  }

  // After End no call of the callback begins. Waits for a running call to return, unless End is
  // itself called by a callback.
  void End(bool is_in_callback) {
    if (is_in_callback) {
      is_ended_ = true;  // if this notifier's callback is running, this thread holds the lock
    } else {
      std::lock_guard<std::mutex> lock(calling_);
      is_ended_ = true;
    }
  }

 private:
  class QueuedNotification final : public Delivery {
   public:
    QueuedNotification(std::shared_ptr<Notifier> notifier, Notification notification)
        : notifier_(std::move(notifier)), notification_(std::move(notification)) {}
    void Deliver() override {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        is_taken_ = true;
      }
      notifier_->Call(notification_);
    }
    // Returns false, and does nothing, if the delivery has begun.
    bool Replace(const Notification& notification) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!is_taken_) notification_ = notification;
      return !is_taken_;
    }

   private:
    const std::shared_ptr<Notifier> notifier_;
    std::mutex mutex_;
    bool is_taken_ = false;
    Notification notification_;
  };

  void Call(const Notification& notification) {
    std::lock_guard<std::mutex> lock(calling_);
    if (!is_ended_) callback_(notification);
  }

  Callback callback_;
  std::weak_ptr<QueuedNotification> last_;  // used by the engine only
  std::mutex calling_;                      // held during calls
  bool is_ended_ = false;
};

using WatchNotifier = Notifier<WatchNotification>;
using SessionNotifier = Notifier<SessionEvent>;

}  // namespace quorate::internal
