// SPDX-License-Identifier: Apache-2.0

// All checkers of a run.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/checkers/bank_checker.h"
#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/native_checker.h"
#include "tests/simulation/checkers/order_checker.h"
#include "tests/simulation/checkers/real_time_checker.h"
#include "tests/simulation/checkers/register_checker.h"
#include "tests/simulation/checkers/replay_checker.h"
#include "tests/simulation/checkers/sequence_checker.h"
#include "tests/simulation/checkers/session_checker.h"
#include "tests/simulation/checkers/watch_checker.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

// The facts about the workload that the checkers need.
struct CheckerSettings {
  std::vector<std::string> accounts;
  int64_t sum = 0;
  std::string register_prefix;
  std::string register_value;  // the initial value
  std::vector<std::string> sequence_parents;
  double clock_drift_max = 0;
  int64_t unnoticed_us = 0;  // see SessionChecker
};

class Checkers {
 public:
  // `environment` must outlive the object, and the object must outlive the run.
  Checkers(SimEnvironment* environment, const CheckerSettings& settings);

  History& history() { return history_; }
  const Model& model() const { return replay_.model(); }
  SessionChecker& sessions() { return sessions_; }
  const SessionChecker& sessions() const { return sessions_; }
  const RegisterChecker& registers() const { return registers_; }
  NativeChecker& native() { return native_; }

  // Final checks. REQUIRES: no work is under way, clients have received all replies and events, and
  // the members have converged. `living`: the sessions that clients still have.
  void CheckFinal(const std::set<int64_t>& living) const;

 private:
  History history_;
  // Checkers are called in this order: a reply is compared with the log before anything else.
  ReplayChecker replay_;
  OrderChecker order_;
  RealTimeChecker real_time_;
  WatchChecker watches_;
  SessionChecker sessions_;
  BankChecker bank_;
  SequenceChecker sequences_;
  RegisterChecker registers_;
  NativeChecker native_;
};

}  // namespace quorate::simulation
