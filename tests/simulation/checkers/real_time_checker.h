// Linearizability by zxids: what has been seen anywhere before an operation began is before it. For
// each write, and for each sync and so for a read behind it. The zxids themselves are held against
// the log by ReplayChecker.
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
  // What had been seen when a write or sync that is under way began.
  std::map<OperationId, int64_t> seen_before_;
};

}  // namespace quorate::simulation
