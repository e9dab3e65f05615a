// SPDX-License-Identifier: Apache-2.0

// Runs a task periodically on a thread of its own, so that a task that hangs holds up nothing else.
//
// Thread-safety: Start and Stop from one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/condition_variable.h"
#include "base/mutex.h"

namespace quorate::rpc {

class PeriodicTask {
 public:
  // `thread_name` has at most 15 characters. REQUIRES: interval is above 0.
  PeriodicTask(std::string thread_name, std::chrono::milliseconds interval,
               std::function<void()> task);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

  // Runs the task once on the caller's thread, and then repeatedly on the object's thread, each
  // time `interval` after the last run ended.
  void Start();
  // Ends the periodic runs. Waits for a run that is in progress.
  void Stop();

 private:
  void Run();

  const std::string thread_name_;
  const std::chrono::milliseconds interval_;
  const std::function<void()> task_;
  std::thread thread_;
  Mutex mutex_;
  ConditionVariable stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quorate::rpc
