// SPDX-License-Identifier: Apache-2.0

#include "rpc/poller/poller.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc {
namespace {

// The registration of the eventfd: slot 0, which no other one gets.
constexpr uint64_t kWakeId = 0;

constexpr uint64_t MakeId(size_t slot, uint32_t generation) {
  return (uint64_t{generation} << 32) | slot;
}

}  // namespace

Poller::Poller(size_t events_max)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(events_max),
      registrations_(1) {
  if (!epoll_.is_open() || !wake_.is_open()) {
    throw std::system_error(errno, std::generic_category(), "cannot wait for sockets");
  }
  // Edge-triggered: each write to the eventfd is reported once, and it need never be read.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kWakeId;
  const int added = epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, wake_.number(), &event);
  if (added != 0)
    throw std::system_error(errno, std::generic_category(), "cannot wait for sockets");
}

Poller::Registration* Poller::Find(Id id) {
  const auto slot = static_cast<uint32_t>(static_cast<uint64_t>(id));
  const auto generation = static_cast<uint32_t>(static_cast<uint64_t>(id) >> 32);
  Registration& found = registrations_[slot];
  return found.generation == generation && found.descriptor >= 0 ? &found : nullptr;
}

std::optional<Poller::Id> Poller::Add(int descriptor, Readiness interest, Handler* handler) {
  size_t slot = registrations_.size();
  if (free_slots_.empty()) {
    registrations_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Registration& added = registrations_[slot];
  ++added.generation;
  added.descriptor = descriptor;
  added.handler = handler;
  added.interest = {};
  const Id id{MakeId(slot, added.generation)};
  if (Control(id, added, interest)) return id;
  Free(id, &added);
  return std::nullopt;
}

void Poller::SetInterest(Id id, Readiness interest) {
  Registration* found = Find(id);
  ASSERT(found != nullptr, "the registration was not removed");
  const bool done = Control(id, *found, interest);
  ASSERT(done, "the system takes back a descriptor that it had");
}

void Poller::Remove(Id id) {
  Registration* found = Find(id);
  ASSERT(found != nullptr, "a registration is removed once");
  Control(id, *found, {});
  Free(id, found);
}

void Poller::Free(Id id, Registration* registration) {
  registration->descriptor = -1;
  registration->handler = nullptr;
  free_slots_.push_back(static_cast<uint32_t>(static_cast<uint64_t>(id)));
}

// epoll reports errors and hang-ups of each descriptor that it knows, so that it must not know one
// without interest.
bool Poller::Control(Id id, Registration& registration, Readiness interest) {
  if (registration.interest == interest) return true;
  int operation = EPOLL_CTL_MOD;
  if (!registration.interest.any()) operation = EPOLL_CTL_ADD;
  if (!interest.any()) operation = EPOLL_CTL_DEL;
  epoll_event event{};
  if (interest.readable) event.events |= EPOLLIN;
  if (interest.writable) event.events |= EPOLLOUT;
  event.data.u64 = static_cast<uint64_t>(id);
  if (epoll_ctl(epoll_.number(), operation, registration.descriptor, &event) != 0) {
    ASSERT(operation == EPOLL_CTL_ADD, "the descriptor is open and registered");
    return false;
  }
  registration.interest = interest;
  return true;
}

void Poller::RunAt(Clock::time_point when, std::function<void()> task) {
  timed_.emplace(when, std::move(task));
}

int Poller::TimeoutMs(Clock::time_point deadline) const {
  if (!timed_.empty()) deadline = std::min(deadline, timed_.begin()->first);
  constexpr auto kLongest = std::chrono::hours(1);
  const Clock::time_point now = Clock::now();
  if (deadline <= now) return 0;
  const auto left = std::min<Clock::duration>(deadline - now, kLongest);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

void Poller::Poll(Clock::time_point deadline) {
  const int count = epoll_wait(epoll_.number(), events_.data(), static_cast<int>(events_.size()),
                               TimeoutMs(deadline));
  ASSERT(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) Dispatch(events_[static_cast<size_t>(i)]);
  RunTasks();
}

void Poller::Dispatch(const epoll_event& event) {
  if (event.data.u64 == kWakeId) return;
  // A handler that was called before this one may have removed it, or changed its interest.
  const Registration* found = Find(Id{event.data.u64});
  if (found == nullptr) return;
  const bool is_over = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
  const Readiness ready = {found->interest.readable && (is_over || (event.events & EPOLLIN) != 0),
                           found->interest.writable && (is_over || (event.events & EPOLLOUT) != 0)};
  if (ready.any()) found->handler->OnReady(ready);
}

void Poller::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(&mutex_);
    tasks.swap(posted_);
  }
  for (const std::function<void()>& task : tasks) task();
  if (timed_.empty()) return;
  // Those that are added meanwhile wait for the next Poll.
  const auto end = timed_.upper_bound(Clock::now());
  std::vector<std::function<void()>> due;
  for (auto it = timed_.begin(); it != end; ++it) due.push_back(std::move(it->second));
  timed_.erase(timed_.begin(), end);
  for (const std::function<void()>& task : due) task();
}

void Poller::Post(std::function<void()> task) {
  {
    MutexLock lock(&mutex_);
    posted_.push_back(std::move(task));
  }
  Wake();
}

void Poller::Wake() {
  constexpr uint64_t kOne = 1;
  // The counter of the eventfd cannot overflow in the life of a machine.
  [[maybe_unused]] const ssize_t written = ::write(wake_.number(), &kOne, sizeof kOne);
}

}  // namespace quorate::rpc
