// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/periodic_task.h"

#include <utility>

#include "base/assert.h"
#include "base/thread.h"

namespace quorate::rpc {

PeriodicTask::PeriodicTask(std::string thread_name, std::chrono::milliseconds interval,
                           std::function<void()> task)
    : thread_name_(std::move(thread_name)), interval_(interval), task_(std::move(task)) {
  ASSERT(interval.count() > 0);
}

PeriodicTask::~PeriodicTask() { Stop(); }

void PeriodicTask::Start() {
  ASSERT(!thread_.joinable(), "once");
  task_();
  thread_ = StartThread(thread_name_.c_str(), [this] { Run(); });
}

void PeriodicTask::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void PeriodicTask::Run() {
  for (;;) {
    {
      const auto next = std::chrono::steady_clock::now() + interval_;
      MutexLock lock(&mutex_);
      while (!stopping_ && stop_.WaitUntil(&mutex_, next)) {
      }
      if (stopping_) return;
    }
    task_();
  }
}

}  // namespace quorate::rpc
