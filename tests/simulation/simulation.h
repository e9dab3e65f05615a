// SPDX-License-Identifier: Apache-2.0

// What all parts of a simulated run share: time, randomness, trace, and the report of a failure.
//
// Thread-safety: none.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/simulation/options.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

namespace quorate::simulation {

class Simulation {
 public:
  Simulation(Options options, Trace::Lines lines) : options_(std::move(options)), trace_(lines) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const Options& options() const { return options_; }
  Trace& trace() { return trace_; }
  const Scheduler& scheduler() const { return scheduler_; }

  int64_t now_us() const { return scheduler_.now_us(); }
  void After(int64_t delay_us, Scheduler::Task task) {
    scheduler_.After(delay_us, std::move(task));
  }
  bool tracing() const { return trace_.wanted(); }
  // Runs events until `done` returns true or `until_us` is reached; returns false in the latter
  // case. Calls `done` after every event.
  template <class Done>
  bool RunUntil(int64_t until_us, Done done) {
    while (!done()) {
      if (scheduler_.empty() || scheduler_.next_us() > until_us) {
        scheduler_.AdvanceTo(until_us);
        return false;
      }
      scheduler_.RunOne();
      trace_.Mix(static_cast<uint64_t>(scheduler_.now_us()));
    }
    return true;
  }

  // Makes all delays short from now on, so that the cluster can recover.
  void SetSteady() { steady_ = true; }
  bool steady() const { return steady_; }

  // The stream of that name; the same object at each call.
  Random& random(std::string_view name) {
    auto found = randoms_.find(name);
    if (found == randoms_.end()) {
      found = randoms_.emplace(name, Random(options_.seed, name)).first;
    }
    return found->second;
  }

  // Prints the report of the failure and ends the process with kFailed.
  static constexpr int kFailed = 3;
  [[noreturn]] void Fail(std::string_view invariant, std::string_view details);
  // Prints the report of a failure without ending the process; also called when an assertion of the
  // servers fails.
  void PrintFailure(std::string_view invariant, std::string_view details);
  // `describe` returns the state of the whole run, which a failure shows besides the trace.
  void SetDescribe(std::function<std::string()> describe) { describe_ = std::move(describe); }

  // Adds a line to the trace, if lines are wanted: the time, `who` and the formatted text.
  template <class... Args>
  void Line(std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
    if (!trace_.wanted()) return;
    trace_.Add(Stamp(who) + fmt::format(format, std::forward<Args>(args)...));
  }
  std::string Stamp(std::string_view who) const;

 private:
  const Options options_;
  Scheduler scheduler_;
  Trace trace_;
  std::map<std::string, Random, std::less<>> randoms_;
  std::function<std::string()> describe_;
  bool steady_ = false;
};

}  // namespace quorate::simulation
