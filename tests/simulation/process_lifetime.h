// SPDX-License-Identifier: Apache-2.0

// Runs the tasks of a simulated process while it is alive, and defers them while it is paused.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class ProcessLifetime : public std::enable_shared_from_this<ProcessLifetime> {
 public:
  explicit ProcessLifetime(Simulation* simulation) : simulation_(*simulation) {}

  bool alive() const { return alive_; }
  bool paused() const { return paused_; }

  void After(int64_t delay_us, Scheduler::Task task) {
    simulation_.After(delay_us,
                      [self = shared_from_this(), task = std::move(task)] { self->Run(task); });
  }
  // Runs `task` now, or when the process is resumed if it is paused; drops it if the process is
  // dead.
  void Run(const Scheduler::Task& task) {
    if (!alive_) return;
    if (paused_) {
      deferred_.push_back(task);
    } else {
      task();
    }
  }

  void Pause() { paused_ = true; }
  void Resume() {
    paused_ = false;
    // All deferred tasks are due at once, and the threads may run them in any order; the order in
    // which they became due is one of these.
    for (const Scheduler::Task& task : std::exchange(deferred_, {})) {
      if (alive_) Run(task);
    }
  }
  void End() {
    alive_ = false;
    deferred_.clear();
  }

 private:
  Simulation& simulation_;
  bool alive_ = true;
  bool paused_ = false;
  std::deque<Scheduler::Task> deferred_;
};

}  // namespace quorate::simulation
