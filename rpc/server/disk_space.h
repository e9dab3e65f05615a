// Measures how much room there is on the disks of some directories, now and then, on a thread of
// its own: a file system that hangs holds up nothing else.
//
// Thread-safety: Start and Stop from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/condition_variable.h"
#include "base/mutex.h"

namespace quorate::rpc {

class DiskSpace {
 public:
  // The bytes that are free in each of the directories; nothing where that cannot be measured.
  using Report = std::function<void(const std::vector<std::optional<uint64_t>>& free_bytes)>;

  // `report` is called at Start, and then on the thread of this object.
  DiskSpace(std::vector<std::string> paths, int interval_ms, Report report);
  // Stops it.
  ~DiskSpace();
  DiskSpace(const DiskSpace&) = delete;
  DiskSpace& operator=(const DiskSpace&) = delete;

  void Start();
  void Stop();

 private:
  void Run();
  void Measure();

  const std::vector<std::string> paths_;
  const int interval_ms_;
  const Report report_;
  std::thread thread_;
  Mutex mutex_;
  ConditionVariable stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quorate::rpc
