// SPDX-License-Identifier: Apache-2.0

// Reports the state of the server to the program that manages it, such as systemd, by the protocol of
// sd_notify(3): when it is ready, what it does, that it stops, and that its node thread runs.
//
// A server that no manager started has no NOTIFY_SOCKET in its environment. Then there is no thread, and
// all functions do nothing. libsystemd is not used, because its sd_notify waits while the manager's socket
// is full: a server must start and stop although its manager hangs. A report that the manager does not take
// at once is repeated.
//
// Thread-safety: all functions may be called from any thread, unless they say otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "rpc/frontend/service.h"
#include "rpc/member/periodic_task.h"

namespace quorate::rpc {

// Returns what the server does, in one line: "serving as follower".
std::string StatusLine(const ServerStatus& status);

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment. REQUIRES: no other thread
  // changes the environment.
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // Starts the thread that calls Report. Called from the thread that destroys the object.
  void Start();

  // Reports that the server listens for clients (READY=1). A member of a cluster is ready before a
  // majority runs, because a start of the first member would otherwise wait for the others; its status
  // line says what it waits for. `service` must be valid until Detach.
  void Serve(const Service* service);
  // Called on the node thread, periodically while that thread runs.
  void OnNodeThread() { node_rounds_.fetch_add(1, std::memory_order_relaxed); }
  // Reports that the server stops (STOPPING=1).
  void Stop();
  // Ends the use of the service. Without Stop before, the server counts as loading its data: one that
  // ended by itself may execute itself again, and the manager expects a process that has reported
  // STOPPING=1 to end.
  void Detach();

  // Reports everything that changed and was not reported yet, and feeds the watchdog: always while the server loads its data
  // or stops, and while it serves only if OnNodeThread was called since the last report.
  void Report();
  // Returns the time between two reports: short enough for the watchdog.
  std::chrono::milliseconds interval() const { return interval_; }

 private:
  enum class Phase : uint8_t { kLoading, kServing, kStopping };

  // Returns what has to be reported now.
  std::string Message(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the manager has received the message. Does not wait.
  bool Send(const std::string& message) const;

  const std::string address_;  // of the manager's socket, for connect; empty: there is none
  const std::chrono::milliseconds
      watchdog_;  // within which a report is expected; 0: there is no watchdog
  const std::chrono::milliseconds interval_;
  const int socket_;  // -1: there is no manager
  std::atomic<uint64_t> node_rounds_{0};
  Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kLoading;
  const Service* service_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // What the manager has received last.
  Phase phase_reported_ ABSL_GUARDED_BY(mutex_) = Phase::kLoading;
  std::string line_reported_ ABSL_GUARDED_BY(mutex_);
  uint64_t node_rounds_reported_ ABSL_GUARDED_BY(mutex_) = 0;
  PeriodicTask reports_;  // the last member, because its thread uses the others
};

}  // namespace quorate::rpc
