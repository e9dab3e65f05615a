// SPDX-License-Identifier: Apache-2.0

// What the servers of a cluster say about themselves at one moment.
//
// Thread-safety: an Observer is used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cli/cluster_client.h"
#include "tools/monitor/metrics.h"

namespace quorate::tools {

// The answers of one server.
struct Observation {
  std::string address;
  absl::StatusOr<v1::StatusResponse> status;
  // Not asked for, and Unavailable, if there is no status.
  absl::StatusOr<v1::MembersResponse> members;
  absl::StatusOr<Metrics> metrics;
  // Asked for by quorate top alone. Unimplemented by older servers.
  absl::StatusOr<v1::TopRequestsResponse> top = absl::UnavailableError("not asked");
  // When the metrics came, on this machine's clocks.
  std::chrono::steady_clock::time_point at{};
  std::chrono::system_clock::time_point wall{};

  // Returns the value of a metric; nullopt if it is not known.
  std::optional<double> Value(std::string_view name, std::string_view labels = "") const;
};

// Returns what was added to a metric from one observation of a server to a later one; nullopt if it
// is not known, or if the server was restarted or its statistics were reset in between.
std::optional<double> Increase(const Observation& before, const Observation& now,
                               std::string_view name);
// Returns the increase for each second.
std::optional<double> Rate(const Observation& before, const Observation& now,
                           std::string_view name);

class Observer {
 public:
  // `top_count` says how many of the busiest clients, paths and so on are asked for; 0: none.
  Observer(const std::vector<std::string>& addresses, const Access& access, uint32_t top_count = 0);

  // Asks all servers at the same time. Returns their answers, or why there are none, in the order of
  // the addresses. Takes some seconds if a server does not answer.
  std::vector<Observation> Look();

 private:
  const uint32_t top_count_;
  std::vector<std::unique_ptr<ClusterClient>> clients_;
};

}  // namespace quorate::tools
