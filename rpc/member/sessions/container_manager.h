// SPDX-License-Identifier: Apache-2.0

// Decides when the leader removes empty containers and expired TTL nodes, and how many at a time. A
// round begins at each check interval and goes on as long as there is something to remove. The rate
// is limited to max_per_minute, so that the removal of very many nodes leaves capacity of the log
// to the clients.
//
// Pure decisions: no thread, no clock, no I/O.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

class ContainerManager {
 public:
  // REQUIRES: both values are positive.
  ContainerManager(int64_t check_interval_ms, int64_t max_per_minute);

  // Ends the current round, if there is one. The next round begins one interval from now. Called
  // when leadership begins, or when a round must be abandoned.
  void Reset();
  // Advances the time by `elapsed_ms`.
  void Advance(int64_t elapsed_ms);
  // Returns how many nodes may be removed now; 0: the caller need not search for any.
  size_t allowed() const;
  // Records that `found` nodes were found, and are being removed. REQUIRES: found <= allowed(), and
  // allowed() is not 0.
  void OnFound(size_t found);

 private:
  const int64_t check_interval_ms_;
  const int64_t max_per_minute_;
  bool in_round_ = false;
  int64_t since_check_ms_ = 0;
  // How much may be removed, in nodes times 60,000 (the milliseconds of a minute).
  int64_t credit_ = 0;
};

}  // namespace quorate::rpc
