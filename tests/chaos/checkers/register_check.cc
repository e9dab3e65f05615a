// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/register_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/register_search.h"

namespace quorate::chaos {
namespace {

using simulation::CheckRegister;
using simulation::RegisterOperation;
using simulation::RegisterStuck;
using simulation::Verdict;

constexpr char kLinearizable[] = "a register is linearizable";
constexpr char kWritten[] = "every read value was written";
constexpr size_t kBetweenMax = 8;  // operations between the two that contradict each other

constexpr std::array<std::string_view, 4> kWorkloads = {"register", "append", "counter", "bank"};

struct Register {
  std::optional<std::string_view> initial;
  bool strange = false;  // deleted, created with different data, or added to: not a register
  std::vector<RegisterOperation> operations;
  std::vector<RegisterOperation> local_reads;
  std::vector<size_t> refused_writes;  // ids
};

using Registers = std::map<std::string_view, Register>;

class Collector {
 public:
  explicit Collector(Registers* registers) : registers_(registers) {}

  void Add(const Operation& operation) {
    switch (operation.function) {
      case Function::kCreate:
        return AddCreate(operation);
      case Function::kSet:
        return AddWrite(operation, operation.path, operation.written, operation.version,
                        operation.stat);
      case Function::kGet:
        return AddRead(operation, operation.path, operation.read, operation.stat);
      case Function::kDelete:
      case Function::kAdd:
        (*registers_)[operation.path].strange = true;
        return;
      case Function::kMulti:
        for (const RunStep& step : operation.steps) {
          if (step.check) continue;
          if (step.function == Function::kSet) {
            AddWrite(operation, step.path, step.data, step.version, step.stat);
          } else {
            (*registers_)[step.path].strange = true;
          }
        }
        return;
      case Function::kMultiGet:
        for (const RunStep& step : operation.steps) {
          if (step.stat) AddRead(operation, step.path, step.data, step.stat);
        }
        return;
      default:
        return;
    }
  }

 private:
  static RegisterOperation Entry(const Operation& operation, std::string_view value) {
    RegisterOperation entry;
    entry.id = operation.id;
    entry.call_time = operation.invoked_ns;
    entry.return_time = operation.answered_ns;
    entry.value = value;
    return entry;
  }

  void AddCreate(const Operation& operation) {
    Register& to = (*registers_)[operation.path];
    to.strange |= operation.sequential || operation.ephemeral ||
                  (to.initial && *to.initial != operation.written);
    to.initial = operation.written;
  }

  void AddWrite(const Operation& operation, std::string_view path, std::string_view value,
                int32_t expected, const std::optional<Stat>& stat) {
    Register& to = (*registers_)[path];
    RegisterOperation entry = Entry(operation, value);
    entry.write = true;
    entry.expected_version = expected;
    if (operation.outcome == Outcome::kUnknown) {
      entry.lost = true;
      entry.return_time = operation.until_ns;
    } else if (operation.outcome == Outcome::kRefused) {
      to.refused_writes.push_back(operation.id);
      // In a multi it is not known which step failed.
      if (operation.error != "BadVersion" || operation.function != Function::kSet) return;
      entry.refused = true;
    } else if (!stat) {
      to.strange = true;
      return;
    } else {
      entry.version = stat->version;
    }
    to.operations.push_back(entry);
  }

  void AddRead(const Operation& operation, std::string_view path, std::string_view value,
               const std::optional<Stat>& stat) {
    if (!operation.ok() || !stat) return;
    RegisterOperation entry = Entry(operation, value);
    entry.version = stat->version;
    Register& to = (*registers_)[path];
    (operation.linearizable ? to.operations : to.local_reads).push_back(entry);
  }

  Registers* const registers_;
};

// Finds what is wrong with one register.
class Checker {
 public:
  Checker(const Run& run, std::string_view path, const Register& of, Verdicts* verdicts)
      : run_(run), path_(path), register_(of), verdicts_(verdicts) {
    for (const RegisterOperation& operation : of.operations) {
      if (operation.lost) {
        lost_by_value_[operation.value].push_back(&operation);
      } else if (operation.write && !operation.refused) {
        writer_of_.emplace(operation.version, &operation);
      }
    }
  }

  void CheckReads() const {
    for (const RegisterOperation& read : register_.local_reads) CheckRead(read);
    for (const RegisterOperation& read : register_.operations) {
      if (!read.write) CheckRead(read);
    }
  }

  void CheckOrder(size_t states_max) const {
    RegisterStuck stuck;
    const Verdict verdict =
        CheckRegister(register_.operations, *register_.initial, states_max, &stuck);
    if (verdict == Verdict::kTooHard) {
      verdicts_->Undecided(absl::StrCat("whether ", std::string(path_),
                                        " is linearizable: more than ", states_max,
                                        " states would have to be tried"));
    } else if (verdict == Verdict::kNotLinearizable && !ExplainTwoOfOneVersion() &&
               !ExplainOrder()) {
      const RegisterOperation& next = register_.operations[stuck.operation];
      Fail(absl::StrCat("after its first ", stuck.version,
                        " writes, no order explains the answers that follow; by time it would be "
                        "the turn of the operation below"),
           {&next}, stuck.version - 1, stuck.version + 2);
    }
  }

 private:
  const Operation& At(const RegisterOperation& operation) const {
    return run_.operations()[operation.id];
  }

  // Reports a violation, with the writes of versions from `first` to `last`.
  void Fail(const std::string& details, const std::vector<const RegisterOperation*>& what,
            int32_t first, int32_t last) const {
    std::vector<const Operation*> operations;
    for (const RegisterOperation* operation : what) operations.push_back(&At(*operation));
    size_t between = 0;
    for (auto at = writer_of_.lower_bound(first);
         at != writer_of_.end() && at->first <= last && between < kBetweenMax; ++at, ++between) {
      operations.push_back(&At(*at->second));
    }
    verdicts_->Fail(kLinearizable, absl::StrCat(std::string(path_), ": ", details), operations);
  }

  // The unknown write of this value that was called first, or null.
  const RegisterOperation* LostWriterOf(std::string_view value) const {
    const auto found = lost_by_value_.find(value);
    return found == lost_by_value_.end() ? nullptr : found->second.front();
  }

  void CheckRead(const RegisterOperation& read) const {
    const auto fail = [&](const std::string& why, const Operation* other) {
      verdicts_->Fail(
          kWritten,
          absl::StrCat(std::string(path_), ": version ", read.version, " was read, ", why),
          {&At(read), other});
    };
    const auto writer = writer_of_.find(read.version);
    if (writer != writer_of_.end()) {
      if (writer->second->value != read.value) {
        fail("with other data than were written by the write that led to it", &At(*writer->second));
      } else if (writer->second->call_time > read.return_time) {
        fail("before its write began", &At(*writer->second));
      }
      return;
    }
    if (read.version == 0 && read.value == *register_.initial) return;
    const RegisterOperation* lost = LostWriterOf(read.value);
    if (lost != nullptr) {
      if (lost->call_time > read.return_time) fail("before its write began", &At(*lost));
      return;
    }
    for (size_t id : register_.refused_writes) {
      if (WritesValue(run_.operations()[id], read.value)) {
        return fail("and its write had been refused", &run_.operations()[id]);
      }
    }
    fail("and no write that may have happened has these data", nullptr);
  }

  bool WritesValue(const Operation& operation, std::string_view value) const {
    if (operation.function == Function::kSet) return operation.written == value;
    return std::any_of(operation.steps.begin(), operation.steps.end(), [&](const RunStep& step) {
      return step.path == path_ && step.data == value;
    });
  }

  bool ExplainTwoOfOneVersion() const {
    std::map<int32_t, const RegisterOperation*> writes;
    for (const RegisterOperation& operation : register_.operations) {
      if (operation.lost || !operation.write || operation.refused) continue;
      const auto [at, fresh] = writes.emplace(operation.version, &operation);
      if (fresh) continue;
      Fail(absl::StrCat("two writes were acknowledged as version ", operation.version,
                        ": one of them is lost"),
           {at->second, &operation}, operation.version + 1, operation.version);
      return true;
    }
    return false;
  }

  // Versions tell which of two operations came first; time must not contradict that.
  bool ExplainOrder() const {
    std::vector<const RegisterOperation*> by_version;
    for (const RegisterOperation& operation : register_.operations) {
      if (!operation.lost && !operation.refused) by_version.push_back(&operation);
    }
    std::stable_sort(by_version.begin(), by_version.end(),
                     [](const RegisterOperation* a, const RegisterOperation* b) {
                       return std::pair(a->version, !a->write) < std::pair(b->version, !b->write);
                     });
    // Of the operations that come before in the order of versions, the one that was called last.
    const RegisterOperation* latest = nullptr;   // of versions before
    const RegisterOperation* current = nullptr;  // of this version too, reads only later
    int32_t version = -1;
    // Of all pairs that contradict each other, the two that are closest in time.
    const RegisterOperation* newer = nullptr;
    const RegisterOperation* older = nullptr;
    int64_t smallest_gap = INT64_MAX;
    for (const RegisterOperation* operation : by_version) {
      if (operation->version != version) {
        version = operation->version;
        if (current != nullptr && (latest == nullptr || latest->call_time < current->call_time)) {
          latest = current;
        }
      }
      if (latest != nullptr && operation->return_time < latest->call_time) {
        const int64_t gap = latest->call_time - operation->return_time;
        if (gap < smallest_gap) {
          smallest_gap = gap;
          newer = operation;
          older = latest;
        }
      }
      if (current == nullptr || current->call_time < operation->call_time) current = operation;
    }
    if (newer == nullptr) return false;
    Fail(absl::StrCat("version ", newer->version, newer->write ? " was written" : " was read",
                      " and answered before ", older->write ? "the write" : "the read",
                      " of version ", older->version, " began: time goes back"),
         {newer, older}, older->version, newer->version);
    return true;
  }

  const Run& run_;
  const std::string_view path_;
  const Register& register_;
  Verdicts* const verdicts_;
  std::map<int32_t, const RegisterOperation*> writer_of_;  // by version
  std::map<std::string_view, std::vector<const RegisterOperation*>> lost_by_value_;
};

}  // namespace

Verdicts CheckRegisters(const Run& run, size_t states_max) {
  Verdicts verdicts(&run, "register");
  Registers registers;
  Collector collector(&registers);
  for (const Operation& operation : run.operations()) {
    if (std::find(kWorkloads.begin(), kWorkloads.end(), operation.workload) == kWorkloads.end()) {
      continue;
    }
    collector.Add(operation);
  }
  for (const auto& [path, of] : registers) {
    if (of.strange || !of.initial || of.operations.size() + of.local_reads.size() == 0) continue;
    verdicts.Count("registers");
    verdicts.Count("linearizable operations", static_cast<int64_t>(of.operations.size()));
    verdicts.Count("local reads", static_cast<int64_t>(of.local_reads.size()));
    const Checker checker(run, path, of, &verdicts);
    checker.CheckReads();
    checker.CheckOrder(states_max);
  }
  return verdicts;
}

}  // namespace quorate::chaos
