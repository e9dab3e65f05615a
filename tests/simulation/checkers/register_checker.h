// SPDX-License-Identifier: Apache-2.0

// Linearizability of the registers of a simulation (register_search.h).
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/checkers/register_search.h"

namespace quorate::simulation {

// Collects the operations on registers from the history. A read counts if it directly follows a
// sync of the same path on its connection, and then begins with the sync. (Other reads may be
// stale.)
class RegisterChecker : public HistoryListener {
 public:
  // Adds itself to the history, which must outlive it. Registers are the nodes whose paths begin
  // with `prefix`; they exist with version 0 and data `initial` before the first operation on them,
  // and are never deleted.
  RegisterChecker(History* history, std::string prefix, std::string initial);

  void OnAnswered(const Operation& operation) override;
  void OnLost(const Operation& operation) override;

  // The number of operations collected for a register.
  size_t size(const std::string& path) const;
  // Checks all registers. REQUIRES: no operation is under way.
  void CheckFinal() const;

 private:
  void Add(const Operation& operation, int64_t call_us);

  History* const history_;
  const std::string prefix_;
  const std::string initial_;
  std::map<std::string, std::vector<RegisterOperation>> registers_;
};

}  // namespace quorate::simulation
