// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/memory_budget.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace quorate::rpc {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// Returns the number in a file; kNone if there is no such file, or it has a word ("max").
uint64_t ReadNumber(const std::string& path) {
  std::ifstream in(path);
  uint64_t number = 0;
  return in >> number ? number : kNone;
}

// Returns the smallest limit of the control group and its ancestors.
uint64_t ControlGroupLimit() {
  uint64_t limit = std::min(ReadNumber("/sys/fs/cgroup/memory.max"),
                            ReadNumber("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t end = line.rfind(':');
    if (end == std::string::npos) continue;
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string name = unified ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string group = line.substr(end + 1); group.size() > 1;
         group.resize(group.rfind('/'))) {
      limit = std::min(limit, ReadNumber(root + group + name));
    }
  }
  return limit;
}

}  // namespace

bool MemoryBudget::OnMeasured(uint64_t resident_bytes, uint64_t tree_bytes, uint64_t free_bytes) {
  resident_bytes_.store(resident_bytes, std::memory_order_relaxed);
  counted_when_measured_.store(counted(), std::memory_order_relaxed);
  measurements_.fetch_add(1, std::memory_order_relaxed);
  const bool was_low = low();
  const uint64_t taken = resident_bytes - std::min(resident_bytes, free_bytes);
  const bool is_low = exceeds_bound(taken);
  const uint64_t besides_tree = taken - std::min(taken, tree_bytes);
  clients_exceed_.store(is_low && besides_tree > limit_ / 8, std::memory_order_relaxed);
  low_.store(is_low, std::memory_order_relaxed);
  return is_low != was_low;
}

uint64_t DefaultMemoryLimit() {
  uint64_t limit =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  limit = std::min(limit, ControlGroupLimit());
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit = std::min<uint64_t>(limit, address_space.rlim_cur);
  }
  return limit / 5 * 4;
}

uint64_t MeasureResidentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  in >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void ReleaseFreeMemory(uint64_t worth_bytes) {
  if (mallinfo2().fordblks > worth_bytes) malloc_trim(0);
}

}  // namespace quorate::rpc
