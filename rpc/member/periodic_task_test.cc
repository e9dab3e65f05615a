// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/periodic_task.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "base/condition_variable.h"
#include "base/mutex.h"

namespace quorate::rpc {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a task that hangs does not hold up another one") {
  Mutex mutex;
  ConditionVariable changed;
  int disk_runs = 0;
  int memory_runs = 0;
  bool hangs = true;
  PeriodicTask disk("disk", milliseconds(1), [&] {
    MutexLock lock(&mutex);
    ++disk_runs;
    changed.NotifyAll();
    while (hangs && disk_runs > 1) changed.Wait(&mutex);
  });
  PeriodicTask memory("memory", milliseconds(1), [&] {
    MutexLock lock(&mutex);
    ++memory_runs;
    changed.NotifyAll();
  });
  disk.Start();
  memory.Start();
  {
    MutexLock lock(&mutex);
    while (disk_runs < 2) changed.Wait(&mutex);
    const int before = memory_runs;
    while (memory_runs < before + 3) changed.Wait(&mutex);
    CHECK(disk_runs == 2);
    hangs = false;
    changed.NotifyAll();
    while (disk_runs < 3) changed.Wait(&mutex);
  }
  memory.Stop();
  disk.Stop();
}

}  // namespace
}  // namespace quorate::rpc
