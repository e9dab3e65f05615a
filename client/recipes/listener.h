// SPDX-License-Identifier: Apache-2.0

// Calls a recipe's listener with its events, until the recipe is destroyed.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "client/call.h"

namespace quorate::internal {

// Calls the callback with one event at a time, in the order in which events were added, even if the
// callback itself or other threads add events meanwhile.
//
// Thread-safety: all functions may be called from any thread.
template <class Event>
class Listener {
 public:
  // `callback` may be empty.
  explicit Listener(std::function<void(const Event&)> callback) : callback_(std::move(callback)) {}

  // Queues an event without calling the callback: may be called with a lock held, which then
  // decides the order of the events.
  void Add(Event event) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (callback_ != nullptr && !is_ended_) events_.push_back(std::move(event));
  }
  // Calls the callback with all queued events. If another thread, or an outer call on this one, is
  // doing so, returns at once: that thread calls the callback with the new events, too.
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
  // Does the same as TellAll, and then waits until no event is queued and no call is running. Does
  // not wait on the thread that runs the callback, nor on a callback thread, which must not block.
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
  // After End no call of the callback begins. Waits for a running call to return, except if End is
  // called by that call, or on a callback thread, which must not block.
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
  std::thread::id telling_;  // the thread in TellAll; none: no call is running
  bool is_ended_ = false;
};

}  // namespace quorate::internal
