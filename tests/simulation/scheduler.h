// SPDX-License-Identifier: Apache-2.0

// Virtual time: runs events in the order of their times, and events of the same time in the order
// in which they were scheduled.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace quorate::simulation {

class Scheduler {
 public:
  using Task = std::function<void()>;

  int64_t now_us() const { return now_us_; }
  uint64_t executed() const { return executed_; }

  // REQUIRES: time_us >= now_us().
  void At(int64_t time_us, Task task) {
    ASSERT(time_us >= now_us_);
    size_t slot;
    if (free_.empty()) {
      slot = tasks_.size();
      tasks_.push_back(std::move(task));
    } else {
      slot = free_.back();
      free_.pop_back();
      tasks_[slot] = std::move(task);
    }
    heap_.push_back({time_us, next_sequence_++, slot});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(int64_t delay_us, Task task) { At(now_us_ + delay_us, std::move(task)); }

  bool empty() const { return heap_.empty(); }
  // The time of the next event. REQUIRES: !empty().
  int64_t next_us() const { return heap_.front().time_us; }
  // Advances the time. REQUIRES: no event is before `time_us`.
  void AdvanceTo(int64_t time_us) { now_us_ = std::max(now_us_, time_us); }
  // Runs the next event. REQUIRES: !empty().
  void RunOne() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = heap_.back();
    heap_.pop_back();
    now_us_ = event.time_us;
    ++executed_;
    Task task = std::move(tasks_[event.slot]);
    tasks_[event.slot] = nullptr;
    free_.push_back(event.slot);
    task();
  }

 private:
  struct Event {
    int64_t time_us;
    uint64_t sequence;
    size_t slot;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.time_us != b.time_us ? a.time_us > b.time_us : a.sequence > b.sequence;
  }

  int64_t now_us_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t executed_ = 0;
  std::vector<Event> heap_;
  std::vector<Task> tasks_;
  std::vector<size_t> free_;
};

}  // namespace quorate::simulation
