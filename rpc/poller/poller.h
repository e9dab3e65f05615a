// SPDX-License-Identifier: Apache-2.0

// The wait of one thread for many sockets, by epoll. A socket is registered once; epoll reports it
// as long as it is ready (level-triggered). So a request costs one wait for all sockets that are
// ready, and one receive: no registration is renewed, and no receive finds nothing. Boost.Asio needs
// two system calls more for each (docs/decisions/poller.md).
//
// Thread-safety: Post and Wake may be called from any thread, the other functions from one thread
// at a time, on which all handlers and tasks run.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {

class Poller {
 public:
  using Clock = std::chrono::steady_clock;

  // What a descriptor is waited for, or ready for. One that was closed by the other end, or has an
  // error, is ready for all that it is waited for.
  struct Readiness {
    bool readable = false;
    bool writable = false;
    bool any() const { return readable || writable; }
    friend bool operator==(const Readiness&, const Readiness&) = default;
  };

  class Handler {
   public:
    virtual ~Handler() = default;
    // The descriptor is `ready`, which may contain less than it is waited for, but something of it.
    // The call may add and remove registrations, its own too; the handler must stay alive until it
    // returns.
    virtual void OnReady(Readiness ready) = 0;
  };

  // Names a registration. An id is never used again.
  enum class Id : uint64_t {};

  // Handles at most `events_max` ready descriptors in one Poll. Throws std::system_error if no file
  // descriptor is left, as threads do that cannot be started: the server ends and says what to do
  // (rpc/member/fatal_error.h).
  explicit Poller(size_t events_max = 256);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Registers `descriptor`. `handler` must outlive the registration. Returns no value if the system
  // refuses it, because it limits the number of descriptors for which processes wait. REQUIRES: the
  // descriptor is open, does not block, is not registered yet, and is not closed before Remove.
  std::optional<Id> Add(int descriptor, Readiness interest, Handler* handler);
  // Changes what the descriptor is waited for. Without any interest, nothing is reported of it, not
  // even that it was closed.
  void SetInterest(Id id, Readiness interest);
  // Ends a registration. Its handler is not called any more, not even in a Poll that is running.
  void Remove(Id id);

  // Runs `task` in the first Poll at or after `when`. The task is dropped if no Poll
  // follows.
  void RunAt(Clock::time_point when, std::function<void()> task);
  // Waits until a descriptor is ready, Wake or Post was called since the last Poll, a task of RunAt
  // is due, or `deadline` has passed; calls the handlers and runs the tasks.
  void Poll(Clock::time_point deadline);

  // Runs `task` in the Poll that waits now, or else the next one. The task is
  // dropped if no Poll follows.
  void Post(std::function<void()> task);
  // Makes the Poll that waits now, or else the next one, return at once.
  void Wake();

 private:
  struct Registration {
    int descriptor = -1;  // -1: the slot is free
    uint32_t generation = 0;
    Readiness interest;
    Handler* handler = nullptr;
  };

  // Returns null if the registration was removed.
  Registration* Find(Id id);
  // Returns false if the system refuses a new descriptor.
  bool Control(Id id, Registration& registration, Readiness interest);
  void Free(Id id, Registration* registration);
  void Dispatch(const epoll_event& event);
  void RunTasks();
  // Returns the time to wait, in milliseconds, rounded up.
  int TimeoutMs(Clock::time_point deadline) const;

  const Descriptor epoll_;
  const Descriptor wake_;  // an eventfd
  std::vector<epoll_event> events_;
  std::vector<Registration> registrations_;  // by slot
  std::vector<uint32_t> free_slots_;
  std::multimap<Clock::time_point, std::function<void()>> timed_;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
