// Linearizability of registers, by search: is there an order of the operations, each between its
// call and its return, in which a plain register gives these answers? (Wing and Gong 1993, with the
// memory of Lowe 2017; one register at a time, since linearizability is local.) Trusts no zxid.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/checkers/history.h"

namespace quorate::simulation {

// One operation on a register. A register has a value and a version, which counts its writes.
struct RegisterOperation {
  OperationId id = 0;
  int64_t call_us = 0;
  int64_t return_us = 0;
  bool lost = false;  // it may have happened at any time after its call, or not at all
  bool write = false;
  int32_t expected_version = tree::kAnyVersion;  // write: only if this is the version
  std::string value;                             // written, or read
  bool refused = false;                          // write: another version was there
  int32_t version = 0;                           // after the operation, unless it was refused
};

enum class Verdict : uint8_t { kLinearizable, kNotLinearizable, kTooHard };

// `initial` is the value at version 0. Gives up after `states_max` states.
Verdict CheckRegister(const std::vector<RegisterOperation>& operations, const std::string& initial,
                      size_t states_max);

// Collects the operations on registers from the history. A read counts if it comes right behind a
// sync of the same path on its connection; it begins with the sync. (Others may be old.)
class RegisterChecker : public HistoryListener {
 public:
  // Adds itself to the history, which must outlive it. Registers are the nodes whose paths begin
  // with `prefix`; they are there with version 0 and data `initial` before the first operation on
  // them, and are never deleted.
  RegisterChecker(History* history, std::string prefix, std::string initial);

  void OnAnswered(const Operation& operation) override;
  void OnLost(const Operation& operation) override;

  // So many operations of a register are in its history.
  size_t size(const std::string& path) const;
  // Judges all registers. REQUIRES: nothing is under way.
  void CheckFinal() const;

 private:
  void Add(const Operation& operation, int64_t call_us);

  History* const history_;
  const std::string prefix_;
  const std::string initial_;
  std::map<std::string, std::vector<RegisterOperation>> registers_;
};

}  // namespace quorate::simulation
