#include "rpc/server/disk_space.h"

#include <sys/statvfs.h>

#include <chrono>
#include <utility>

#include "base/assert.h"
#include "base/thread.h"

namespace quorate::rpc {

DiskSpace::DiskSpace(std::vector<std::string> paths, int interval_ms, Report report)
    : paths_(std::move(paths)), interval_ms_(interval_ms), report_(std::move(report)) {
  ASSERT(interval_ms > 0);
}

DiskSpace::~DiskSpace() { Stop(); }

void DiskSpace::Start() {
  ASSERT(!thread_.joinable(), "once");
  Measure();
  thread_ = StartThread("disk-space", [this] { Run(); });
}

void DiskSpace::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void DiskSpace::Run() {
  for (;;) {
    {
      const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(interval_ms_);
      MutexLock lock(&mutex_);
      while (!stopping_ && stop_.WaitUntil(&mutex_, next)) {
      }
      if (stopping_) return;
    }
    Measure();
  }
}

void DiskSpace::Measure() {
  std::vector<std::optional<uint64_t>> free_bytes;
  for (const std::string& path : paths_) {
    struct statvfs info;
    // What cannot be measured is reported by whoever uses it.
    const bool is_known = statvfs(path.c_str(), &info) == 0;
    free_bytes.push_back(is_known ? std::optional(uint64_t{info.f_bavail} * info.f_frsize)
                                  : std::nullopt);
  }
  report_(free_bytes);
}

}  // namespace quorate::rpc
