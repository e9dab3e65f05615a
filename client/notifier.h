// Between a watch, or the session, and the callback that is told of it.
//
// Thread-safety: all functions from any thread, but for those of the engine as they say.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "client/call.h"
#include "client/client.h"

namespace quorate::internal {

// What stands for `newest` and all that was not told before it.
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

  // What is to be delivered of `notification`. Without room for more it takes the place of the last
  // one that waits, if there is one, as a summary: then nothing is returned. Called by the engine.
  std::shared_ptr<Delivery> Add(Notification notification, bool has_room) {
    if (!has_room) {
      notification = Summary(notification);
      const std::shared_ptr<Told> last = last_.lock();
      if (last != nullptr && last->Replace(notification)) return nullptr;
    }
    auto told = std::make_shared<Told>(this->shared_from_this(), std::move(notification));
    last_ = told;
    return told;
  }

  // No call begins after this. One that is under way is waited for, unless this is called by a
  // callback.
  void End(bool is_in_callback) {
    if (is_in_callback) {
      is_ended_ = true;  // the lock is held if it is this one that is being told
    } else {
      std::lock_guard<std::mutex> lock(calling_);
      is_ended_ = true;
    }
  }

 private:
  class Told final : public Delivery {
   public:
    Told(std::shared_ptr<Notifier> notifier, Notification notification)
        : notifier_(std::move(notifier)), notification_(std::move(notification)) {}
    void Deliver() override {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        is_taken_ = true;
      }
      notifier_->Call(notification_);
    }
    // False if it was taken.
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
  std::weak_ptr<Told> last_;  // the engine's
  std::mutex calling_;        // held during calls
  bool is_ended_ = false;
};

using WatchNotifier = Notifier<WatchNotification>;
using SessionNotifier = Notifier<SessionEvent>;

}  // namespace quorate::internal
