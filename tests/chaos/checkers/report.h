// What a check says: a verdict with counts, and for each thing that is wrong the lines of the
// history that show it.
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

// Something that must never be.
struct Violation {
  std::string invariant;  // what holds otherwise
  std::string details;    // what happened instead, in a sentence
  std::vector<LineId> lines;
};

// The verdict of one check.
class Verdicts {
 public:
  // `run` must outlive it.
  Verdicts(const Run* run, std::string name) : run_(run), name_(std::move(name)) {}

  // The lines of these operations, or others. Of many violations of one invariant, the first are
  // kept, and all are counted.
  void Fail(std::string_view invariant, std::string details,
            const std::vector<const Operation*>& operations, std::vector<LineId> more_lines = {});
  void Count(const std::string& what, int64_t count = 1) { counts_[what] += count; }
  // Something that could not be decided.
  void Undecided(std::string what) { undecided_.push_back(std::move(what)); }

  const std::string& name() const { return name_; }
  const std::vector<Violation>& violations() const { return violations_; }
  int64_t violation_count() const { return violation_count_; }
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  const std::vector<std::string>& undecided() const { return undecided_; }
  bool good() const { return violation_count_ == 0; }

  // For a person: a line if all is good, and the windows of what is not.
  std::string Print() const;
  nlohmann::ordered_json Json() const;

 private:
  // Those of a violation with their times since the run's begin, in their order.
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
