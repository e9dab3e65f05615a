// SPDX-License-Identifier: Apache-2.0

// A queue whose reader takes all items at once: one hand-off for everything that was queued while
// the reader was busy.
//
// Thread-safety: one thread takes items; any thread may push.
#pragma once

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "consensus/runtime/event_loop.h"

namespace quorate::consensus {

template <class T>
class BatchQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Makes TakeAll wait in `event_loop`. REQUIRES: no thread uses the queue yet.
  void SetEventLoop(EventLoop* event_loop) { event_loop_ = event_loop; }

  // Adds an item, which is made of `item`, and wakes the reader.
  template <class U>
  void Push(U&& item) {
    PushQuietly(std::forward<U>(item));
    Wake();
  }

  // Adds an item without waking the reader, which takes it with the next item that is pushed or at
  // its deadline.
  template <class U>
  void PushQuietly(U&& item) {
    MutexLock lock(&mutex_);
    if (!closed_) items_.emplace_back(std::forward<U>(item));
  }

  // Wakes the reader if it waits.
  void Wake() {
    {
      MutexLock lock(&mutex_);
      if (!std::exchange(waiting_, false)) return;
    }
    if (event_loop_ != nullptr) {
      event_loop_->Wake();
    } else {
      changed_.NotifyOne();
    }
  }

  // Waits for items, for Close, for `deadline` (if not null), or for an event of the loop, and
  // moves all items to `*items`, which may stay empty. Returns false if the queue is closed and no
  // item is left. REQUIRES: with a loop, there is a deadline.
  bool TakeAll(std::vector<T>* items, const TimePoint* deadline) {
    items->clear();
    if (event_loop_ != nullptr) ServeEvents(*deadline);
    MutexLock lock(&mutex_);
    while (event_loop_ == nullptr && items_.empty() && !closed_) {
      waiting_ = true;
      if (!Wait(deadline)) break;
    }
    waiting_ = false;
    items->swap(items_);
    return !closed_ || !items->empty();
  }

  // Returns all queued items, without waiting.
  std::vector<T> TakeQueued() {
    MutexLock lock(&mutex_);
    return std::exchange(items_, {});
  }

  bool HasItems() const {
    MutexLock lock(&mutex_);
    return !items_.empty();
  }

  void Close() {
    {
      MutexLock lock(&mutex_);
      if (std::exchange(closed_, true)) return;
      changed_.NotifyAll();
    }
    if (event_loop_ != nullptr) event_loop_->Wake();
  }

 private:
  // Handles events of the loop, and waits there if the queue is empty.
  void ServeEvents(TimePoint deadline) {
    {
      MutexLock lock(&mutex_);
      waiting_ = items_.empty() && !closed_;
      if (!waiting_) deadline = TimePoint::min();
    }
    event_loop_->HandleEvents(deadline);
  }

  // Returns false if `deadline` (if not null) has passed.
  bool Wait(const TimePoint* deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (deadline != nullptr) return changed_.WaitUntil(&mutex_, *deadline);
    changed_.Wait(&mutex_);
    return true;
  }

  EventLoop* event_loop_ = nullptr;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quorate::consensus
