// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/counter_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/chaos/checkers/number.h"

namespace quorate::chaos {
namespace {

constexpr char kOnce[] = "each addition counts once";
constexpr char kDown[] = "no session sees a counter go down";

// The sum of all additions before any given time.
class Sums {
 public:
  void Add(int64_t time_ns, int64_t delta) { steps_.emplace_back(time_ns, delta); }
  void Finish() {
    std::sort(steps_.begin(), steps_.end());
    for (size_t i = 1; i < steps_.size(); ++i) steps_[i].second += steps_[i - 1].second;
  }
  int64_t Before(int64_t time_ns) const {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), std::pair(time_ns, INT64_MIN));
    return at == steps_.begin() ? 0 : std::prev(at)->second;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> steps_;
};

struct Counter {
  int64_t initial = 0;
  bool strange = false;                     // not only additions of positive numbers
  Sums acknowledged;                        // by the times of their answers
  Sums attempted;                           // by the times of their invocations
  std::vector<const Operation*> additions;  // acknowledged
  std::vector<const Operation*> reads;
  std::map<std::string_view, const Operation*> refused;  // sets, by data
  // Unknown outcomes. Sets, by number: when the first such set was invoked.
  std::map<int64_t, int64_t> unknown_sets;
  Sums unknown_adds;  // by the times of their invocations
};

int64_t DeltaOf(const Operation& operation) { return operation.delta == 0 ? 1 : operation.delta; }

// The value that an answer shows.
std::optional<int64_t> ValueOf(const Operation& operation) {
  switch (operation.function) {
    case Function::kAdd:
      return operation.value;
    case Function::kSet:
      return LeadingNumber(operation.written);
    default:
      return LeadingNumber(operation.read);
  }
}

class Checker {
 public:
  Checker(std::string_view path, Verdicts* verdicts) : path_(path), verdicts_(verdicts) {}

  void Check(Counter* counter) const {
    counter->acknowledged.Finish();
    counter->attempted.Finish();
    counter->unknown_adds.Finish();
    verdicts_->Count("additions", static_cast<int64_t>(counter->additions.size()));
    verdicts_->Count("reads", static_cast<int64_t>(counter->reads.size()));
    std::vector<const Operation*> sights = counter->additions;
    sights.insert(sights.end(), counter->reads.begin(), counter->reads.end());
    std::sort(sights.begin(), sights.end(),
              [](const Operation* a, const Operation* b) { return a->id < b->id; });
    for (const Operation* sight : sights) CheckBounds(*sight, *counter);
    for (const Operation* read : counter->reads) CheckNotRefused(*read, *counter);
    CheckDistinct(counter);
    CheckCovered(*counter, sights);
    CheckSessions(sights);
    CheckLastRead(*counter);
  }

 private:
  std::string Name() const { return std::string(path_); }

  void CheckBounds(const Operation& operation, const Counter& counter) const {
    const std::optional<int64_t> value = ValueOf(operation);
    if (!value) {
      verdicts_->Fail(kOnce, absl::StrCat(Name(), " is not a number"), {&operation});
      return;
    }
    const bool is_addition = operation.IsWrite();
    int64_t least = counter.initial;
    if (is_addition || operation.linearizable) {
      least += counter.acknowledged.Before(operation.invoked_ns);
    }
    if (is_addition) least += DeltaOf(operation);
    const int64_t most = counter.initial + counter.attempted.Before(operation.answered_ns);
    if (least <= *value && *value <= most) return;
    verdicts_->Fail(
        kOnce,
        absl::StrCat(Name(), " is ", *value, "; ",
                     *value < least ? absl::StrCat("the additions acknowledged before make ", least,
                                                   " at least: an addition is lost")
                                    : absl::StrCat("the additions tried by then make ", most,
                                                   " at most: an addition counted twice")),
        {&operation});
  }

  // Data with a token behind the number belong to one addition.
  void CheckNotRefused(const Operation& read, const Counter& counter) const {
    const auto refused = counter.refused.find(read.read);
    if (refused == counter.refused.end() || read.read.find(' ') == std::string_view::npos) return;
    verdicts_->Fail(kOnce,
                    absl::StrCat(Name(), " was read as an addition left it that was refused"),
                    {refused->second, &read});
  }

  // An acknowledged addition covers the numbers up to the value that it leads to; no other addition
  // may cover these numbers.
  void CheckDistinct(Counter* counter) const {
    std::stable_sort(counter->additions.begin(), counter->additions.end(),
                     [](const Operation* a, const Operation* b) {
                       return ValueOf(*a).value_or(0) < ValueOf(*b).value_or(0);
                     });
    for (size_t i = 1; i < counter->additions.size(); ++i) {
      const Operation& before = *counter->additions[i - 1];
      const Operation& after = *counter->additions[i];
      const int64_t from = ValueOf(after).value_or(0) - DeltaOf(after);
      if (from >= ValueOf(before).value_or(0)) continue;
      verdicts_->Fail(kOnce,
                      absl::StrCat(Name(), ": two additions lead to ", ValueOf(before).value_or(0),
                                   " and ", ValueOf(after).value_or(0), ": one of them is lost"),
                      {&before, &after});
    }
  }

  // Each number up to the greatest one seen comes from an addition of its own: an acknowledged one,
  // or one with an unknown outcome; of these, sets show the value that they lead to.
  void CheckCovered(const Counter& counter, std::vector<const Operation*> sights) const {
    std::set<int64_t> acknowledged;
    for (const Operation* addition : counter.additions) {
      const int64_t value = ValueOf(*addition).value_or(0);
      for (int64_t i = 0; i < DeltaOf(*addition); ++i) acknowledged.insert(value - i);
    }
    // By number: the first operation that saw it or a greater one.
    std::map<int64_t, const Operation*> first;
    std::stable_sort(sights.begin(), sights.end(), [](const Operation* a, const Operation* b) {
      return ValueOf(*a).value_or(0) > ValueOf(*b).value_or(0);
    });
    const Operation* earliest = nullptr;
    for (const Operation* sight : sights) {
      if (earliest == nullptr || sight->answered_ns < earliest->answered_ns) earliest = sight;
      first[ValueOf(*sight).value_or(0)] = earliest;
    }
    int64_t adds = 0;
    const int64_t most = counter.initial + counter.attempted.Before(kNever);
    const int64_t greatest =
        first.empty() ? counter.initial : std::min(first.rbegin()->first, most);
    for (int64_t number = counter.initial + 1; number <= greatest; ++number) {
      if (acknowledged.count(number) > 0) continue;
      const Operation& seen_by = *first.lower_bound(number)->second;
      verdicts_->Count("numbers of additions in doubt");
      const auto set = counter.unknown_sets.find(number);
      if (set != counter.unknown_sets.end() && set->second < seen_by.answered_ns) continue;
      if (++adds <= counter.unknown_adds.Before(seen_by.answered_ns)) continue;
      verdicts_->Fail(kOnce,
                      absl::StrCat(Name(), ": no addition leads to ", number,
                                   ", not even one in doubt: an addition counted twice"),
                      {&seen_by});
      return;  // all following numbers are shifted by this one
    }
  }

  void CheckSessions(const std::vector<const Operation*>& sights) const {
    std::map<size_t, const Operation*> greatest;  // by session
    for (const Operation* sight : sights) {
      if (sight->session == kNone) continue;
      const Operation*& before = greatest[sight->session];
      // Only if it had been answered before: several operations may be under way.
      if (before != nullptr && before->answered_ns < sight->invoked_ns &&
          ValueOf(*sight).value_or(0) < ValueOf(*before).value_or(0)) {
        verdicts_->Fail(kDown,
                        absl::StrCat(Name(), " is ", ValueOf(*sight).value_or(0), " after ",
                                     ValueOf(*before).value_or(0)),
                        {before, sight});
      } else if (before == nullptr || ValueOf(*before).value_or(0) < ValueOf(*sight).value_or(0)) {
        before = sight;
      }
    }
  }

  void CheckLastRead(const Counter& counter) const {
    int64_t last_ns = 0;
    for (const Operation* addition : counter.additions) {
      last_ns = std::max(last_ns, addition->answered_ns);
    }
    for (const Operation* read : counter.reads) {
      if (read->linearizable && read->invoked_ns > last_ns) return;
    }
    if (last_ns > 0) {
      verdicts_->Undecided(
          absl::StrCat("the final value of ", Name(), ": there is no linearizable read of it"));
    }
  }

  const std::string_view path_;
  Verdicts* const verdicts_;
};

void RecordUnknown(const Operation& operation, Counter* counter) {
  if (operation.function == Function::kAdd) {
    counter->unknown_adds.Add(operation.invoked_ns, DeltaOf(operation));
  } else {
    // emplace keeps the first one.
    counter->unknown_sets.emplace(LeadingNumber(operation.written).value_or(0),
                                  operation.invoked_ns);
  }
}

}  // namespace

Verdicts CheckCounters(const Run& run) {
  Verdicts verdicts(&run, "counter");
  std::map<std::string_view, Counter> counters;
  for (const Operation& operation : run.operations()) {
    if (operation.workload != "counter") continue;
    Counter& counter = counters[operation.path];
    switch (operation.function) {
      case Function::kCreate:
        counter.initial = LeadingNumber(operation.written).value_or(0);
        break;
      case Function::kAdd:
      case Function::kSet:
        // A set without a version, or to a smaller number, is no addition.
        counter.strange |= DeltaOf(operation) < 0 ||
                           (operation.function == Function::kSet && operation.version < 0);
        if (operation.outcome == Outcome::kRefused) {
          if (operation.function == Function::kSet) counter.refused[operation.written] = &operation;
          break;
        }
        counter.attempted.Add(operation.invoked_ns, DeltaOf(operation));
        if (!operation.ok()) {
          RecordUnknown(operation, &counter);
          break;
        }
        counter.acknowledged.Add(operation.answered_ns, DeltaOf(operation));
        counter.additions.push_back(&operation);
        break;
      case Function::kGet:
        if (operation.ok()) counter.reads.push_back(&operation);
        break;
      default:
        break;
    }
  }
  for (auto& [path, counter] : counters) {
    if (counter.strange) {
      verdicts.Undecided(
          absl::StrCat(std::string(path), ": something else than additions was done"));
    } else if (!counter.additions.empty() || !counter.reads.empty()) {
      Checker(path, &verdicts).Check(&counter);
    }
  }
  return verdicts;
}

}  // namespace quorate::chaos
