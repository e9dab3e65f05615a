// SPDX-License-Identifier: Apache-2.0

// What a server reports of itself: its version, its role, the process, and the sources of its
// metrics. The four-letter words and the commands over HTTP show the same.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/frontend/service.h"
#include "rpc/zookeeper/monitor.h"
#include "tree/tree.h"

namespace quorate::rpc::zk {

class ZkFrontend;

// The reported version: clients and monitoring tools expect a ZooKeeper version.
inline constexpr std::string_view kReportedVersion = "3.8.0-quorate, built on 2026-11-21";

class ServerInfo {
 public:
  // `frontend` must outlive the object.
  explicit ServerInfo(ZkFrontend* frontend);

  // Returns leader, follower, observer, standalone or read-only.
  std::string_view ModeName(const ServerStatus& status) const;
  int64_t uptime_ms() const;

  // ZooKeeper's trace mask, which has no effect here.
  int64_t trace_mask() const { return trace_mask_.load(); }
  void set_trace_mask(int64_t mask) { trace_mask_.store(mask); }

  // The open descriptors of the process, and how many it may have. Reads /proc; both are equal if
  // that fails, as it does if no descriptor is free.
  struct Descriptors {
    int64_t open = 0;
    uint64_t max = 0;
  };
  static Descriptors CountDescriptors();
  // Calls `use` with the sources of all metrics of this moment.
  void ReadMetrics(const ServerStatus& status, Descriptors descriptors, const TreeTotals& tree,
                   const std::function<void(const MetricSources& sources)>& use) const;

  // Returns the names and values that ZooKeeper's `envi` shows and that exist without Java.
  static std::vector<std::pair<std::string, std::string>> Environment();
  // Returns the sum of the sizes of all files below `directory`. Reads the file system.
  static int64_t FileBytes(const std::string& directory);

 private:
  ZkFrontend& frontend_;
  const std::chrono::steady_clock::time_point started_;
  std::atomic<int64_t> trace_mask_;
};

}  // namespace quorate::rpc::zk
