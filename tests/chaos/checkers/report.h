// SPDX-License-Identifier: Apache-2.0

// The result of a check: a verdict with counts, and for each violation the lines of the history
// that show it.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

// An invariant that does not hold.
struct Violation {
  std::string invariant;  // the name of the invariant
  std::string details;    // what happened instead, in a sentence
  std::vector<LineId> lines;
};

// The verdict of one check.
class Verdicts {
 public:
  // `run` must outlive it.
  Verdicts(const Run* run, std::string name) : run_(run), name_(std::move(name)) {}

  // Records a violation, shown by the lines of these operations and by `more_lines`. Only the first
  // violations of one invariant are kept, but all are counted.
  void Fail(std::string_view invariant, std::string details,
            const std::vector<const Operation*>& operations, std::vector<LineId> more_lines = {});
  void Count(const std::string& what, int64_t count = 1) { counts_[what] += count; }
  // Records something that could not be decided.
  void Undecided(std::string what) { undecided_.push_back(std::move(what)); }

  const std::string& name() const { return name_; }
  const std::vector<Violation>& violations() const { return violations_; }
  int64_t violation_count() const { return violation_count_; }
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  const std::vector<std::string>& undecided() const { return undecided_; }
  bool good() const { return violation_count_ == 0; }

  // For a person: one line if there is no violation, otherwise the window of lines of each
  // violation.
  std::string Print() const;
  nlohmann::ordered_json Json() const;

 private:
  // The lines of a violation with their times since the run's begin, in order.
  std::vector<std::string> Window(const Violation& violation) const;

  const Run* const run_;
  const std::string name_;
  std::vector<Violation> violations_;
  std::map<std::string, int64_t> by_invariant_;
  int64_t violation_count_ = 0;
  std::map<std::string, int64_t> counts_;
  std::vector<std::string> undecided_;
};

}  // namespace quorate::chaos
