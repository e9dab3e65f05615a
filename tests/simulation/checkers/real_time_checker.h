// SPDX-License-Identifier: Apache-2.0

// Linearizability by zxids: each write, and each sync and hence a read behind it, comes after
// everything that any client had seen before the operation began. ReplayChecker checks the zxids
// themselves against the log.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/replay_checker.h"

namespace quorate::simulation {

class RealTimeChecker : public HistoryListener, public LogListener {
 public:
  // Adds itself to both, which must outlive it.
  RealTimeChecker(History* history, ReplayChecker* replay);

  void OnInvoked(const Operation& operation) override;
  void OnAnswered(const Operation& operation) override;
  void OnPong(const Link& link, int64_t zxid) override;
  void OnEvent(const Link& link, const WatchEvent& event) override;
  void OnLogged(const Operation& operation, int64_t zxid) override;

 private:
  void See(int64_t zxid);

  History* const history_;
  int64_t seen_zxid_ = 0;  // by any client
  // By operation under way (write or sync): the newest zxid seen by any client when it began.
  std::map<OperationId, int64_t> seen_before_;
};

}  // namespace quorate::simulation
