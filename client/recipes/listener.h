// Whom a recipe tells its events, until the recipe is destroyed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "client/call.h"

namespace quorate::internal {

// Tells events one at a time, in the order in which they were added, also those that are added by
// the callback itself or meanwhile by other threads.
//
// Thread-safety: all functions from any thread.
template <class Event>
class Listener {
 public:
  // May be empty.
  explicit Listener(std::function<void(const Event&)> callback) : callback_(std::move(callback)) {}

  // Does not call anything: may be called with a lock held, which then is what orders the events.
  void Add(Event event) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (callback_ != nullptr && !is_ended_) events_.push_back(std::move(event));
  }
  // Tells what was added, unless a call is under way: then that thread tells it afterwards.
  void TellAll() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (telling_ != std::thread::id()) return;
    telling_ = std::this_thread::get_id();
    while (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      callback_(event);
      lock.lock();
    }
    telling_ = std::thread::id();
    told_.notify_all();
  }
  // Likewise, and waits until all that was added before is told; unless this thread is the one that
  // tells, or one of callbacks, which must not block.
  void TellAllAndWait() {
    TellAll();
    if (!CallbackThread::CheckMayBlock().ok()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    if (telling_ == std::this_thread::get_id()) return;
    told_.wait(lock, [this] { return events_.empty() && telling_ == std::thread::id(); });
  }
  void Tell(Event event) {
    Add(std::move(event));
    TellAll();
  }
  // No call begins after this, and one that is under way is waited for; unless this is called by
  // that call, or on a thread of callbacks, which must not block.
  void End() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_ended_ = true;
    events_.clear();
    if (telling_ == std::this_thread::get_id() || !CallbackThread::CheckMayBlock().ok()) return;
    told_.wait(lock, [this] { return telling_ == std::thread::id(); });
  }

 private:
  const std::function<void(const Event&)> callback_;
  std::mutex mutex_;
  std::condition_variable told_;
  std::deque<Event> events_;
  std::thread::id telling_;  // none: no call is under way
  bool is_ended_ = false;
};

}  // namespace quorate::internal
