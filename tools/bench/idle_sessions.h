// SPDX-License-Identifier: Apache-2.0

// Idle sessions beside those of a workload, to measure how the number of sessions and watches
// affects the workload.
//
// Thread-safety: that of the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/engine.h"

namespace quorate::tools::bench {

class IdleSessions : public ConnectionHandler {
 public:
  // Creates `sessions` idle sessions, distributed over the servers. They share `watches` watches,
  // each on another path below `root` where no znode exists. `servers` and `*engine` must outlive
  // the object. REQUIRES: sessions > 0.
  IdleSessions(size_t sessions, size_t watches, std::string root,
               const std::vector<Endpoint>& servers, Engine* engine);
  // Closes the sessions.
  ~IdleSessions() override;
  IdleSessions(const IdleSessions&) = delete;
  IdleSessions& operator=(const IdleSessions&) = delete;

  // Waits until all sessions are open and have their watches. Unavailable if the servers do not
  // answer.
  absl::Status Open();

  void OnUp(Connection& connection, int64_t now_ns) override;
  void OnReply(Connection& connection, const Request& request, tree::ErrorCode error,
               std::string_view body, int64_t now_ns) override;

 private:
  const size_t watches_;
  const std::string root_;
  Engine& engine_;
  Connections* const connections_;
  int64_t progress_ns_ = 0;
  absl::Status status_;
};

}  // namespace quorate::tools::bench
