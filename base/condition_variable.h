// SPDX-License-Identifier: Apache-2.0

// A condition variable for quorate::Mutex that Clang's thread-safety analysis understands: the
// waiting thread holds the mutex before and after. Callers write conditions as loops,
//
//   MutexLock lock(&mutex_);
//   while (!ready_) ready_changed_.Wait(&mutex_);
//
// because the analysis does not follow a lambda into the function that calls it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace quorate {

class ConditionVariable {
 public:
  // Waits for a notification; may also return without one. `*mutex` is unlocked during the wait.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->native(), std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the caller holds it
  }
  // Waits like Wait, but at most until `deadline`. Returns false if the deadline has passed.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->native(), std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) != std::cv_status::timeout;
    lock.release();  // the caller holds it
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace quorate
