// SPDX-License-Identifier: Apache-2.0

// A SimEnvironment for tests: virtual time and randomness, no servers. A failure is an exception.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "tests/simulation/random.h"
#include "tests/simulation/refusal_times.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

struct InvariantFailure : std::runtime_error {
  InvariantFailure(std::string_view name, std::string_view text)
      : std::runtime_error(std::string(name) + ": " + std::string(text)),
        invariant(name),
        details(text) {}
  std::string invariant;
  std::string details;
};

class FakeEnvironment : public SimEnvironment {
 public:
  explicit FakeEnvironment(uint64_t seed, size_t member_count = 3)
      : seed_(seed), trees_(member_count, nullptr) {}

  int64_t now_us() const override { return now_us_; }
  void After(int64_t delay_us, std::function<void()> task) override {
    ASSERT(delay_us >= 0);
    tasks_.emplace(std::pair(now_us_ + delay_us, next_task_++), std::move(task));
  }
  Random& random(std::string_view name) override {
    std::unique_ptr<Random>& stream = streams_[std::string(name)];
    if (stream == nullptr) stream = std::make_unique<Random>(seed_, name);
    return *stream;
  }
  [[noreturn]] void Fail(std::string_view invariant, std::string_view details) override {
    throw InvariantFailure(invariant, details);
  }
  bool tracing() const override { return true; }
  void Trace(std::string_view line) override { last_line_ = line; }
  void Mix(uint64_t number) override { hash_ = Spread(hash_ ^ number); }
  void Count(std::string_view probe) override { ++counts_[std::string(probe)]; }
  size_t member_count() const override { return trees_.size(); }
  void ReadTree(size_t member, const std::function<void(const tree::Tree&)>& read) const override {
    if (const tree::Tree* tree = trees_.at(member); tree != nullptr) read(*tree);
  }
  bool MightRefuseData(size_t, int64_t from_us, int64_t until_us) const override {
    return refusal_times_.Overlap(from_us, until_us);
  }
  void AddObserver(ServerObserver* observer) override { observers_.push_back(observer); }

  // Runs the tasks that are due until `time_us`.
  void RunUntil(int64_t time_us) {
    while (!tasks_.empty() && tasks_.begin()->first.first <= time_us) {
      auto task = tasks_.extract(tasks_.begin());
      now_us_ = task.key().first;
      task.mapped()();
    }
    now_us_ = time_us;
  }

  void SetTree(size_t member, const tree::Tree* tree) { trees_.at(member) = tree; }
  // From now on all members might refuse writes that add data, or can no longer do so.
  void SetMightRefuse(bool might) { refusal_times_.Set(might, now_us_); }
  void Commit(const consensus::Entry& entry) {
    for (ServerObserver* observer : observers_) observer->OnCommitted(entry);
  }
  uint64_t hash() const { return hash_; }
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  const uint64_t seed_;
  int64_t now_us_ = 0;
  uint64_t next_task_ = 0;
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> tasks_;
  std::map<std::string, std::unique_ptr<Random>> streams_;
  std::vector<const tree::Tree*> trees_;
  std::vector<ServerObserver*> observers_;
  std::map<std::string, uint64_t> counts_;
  RefusalTimes refusal_times_;
  std::string last_line_;
  uint64_t hash_ = 0;
};

}  // namespace quorate::simulation
