// SPDX-License-Identifier: Apache-2.0

#include "client/callback_queue.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/assert.h"
#include "base/thread.h"

namespace quorate::internal {
namespace {

// Limits of the bytes of the items that wait for callbacks. Above kFullBytes no requests are sent,
// and above kOverfullBytes events are merged. Either state ends when the bytes have fallen to half
// of its limit.
constexpr size_t kFullBytes = 16u << 20;
constexpr size_t kOverfullBytes = 32u << 20;
// The bytes that each item counts besides its content, so that at most some thousands of items
// wait.
constexpr size_t kItemBytes = 2048;
// The most items that are delivered without taking the lock in between.
constexpr size_t kDeliveredAtOnce = 64;

// The queue for which this thread is delivering; null if none.
thread_local const CallbackQueue* delivering_queue = nullptr;

}  // namespace

absl::Status CallbackThread::CheckMayBlock() {
  if (delivering_queue == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this thread is running a callback, which must not block: use the Async function, or another "
      "thread");
}

CallbackQueue::CallbackQueue(Executor executor, std::function<void()> on_room)
    : executor_(std::move(executor)), on_room_(std::move(on_room)) {}

bool CallbackQueue::IsRunningHere() const { return delivering_queue == this; }

void CallbackQueue::Add(std::vector<Item>* items) {
  if (items->empty()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  ASSERT(!is_stopped_);
  auto next = items->begin();
  if (items_.empty() && !is_delivering_) {
    while (next != items->end() && next->delivery->DeliverWithoutCallback()) ++next;
  }
  for (; next != items->end(); ++next) {
    AddBytes(kItemBytes + next->bytes);
    items_.push_back(std::move(*next));
  }
  Begin(std::move(lock));
  items->clear();
}

bool CallbackQueue::Post(std::shared_ptr<Delivery> delivery) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_stopped_) return false;
  AddBytes(kItemBytes);
  items_.push_back({std::move(delivery), 0});
  Begin(std::move(lock));
  return true;
}

void CallbackQueue::Begin(std::unique_lock<std::mutex> lock) {
  if (items_.empty() || is_delivering_) return;
  if (executor_ != nullptr) {
    if (std::exchange(is_scheduled_, true)) return;
    lock.unlock();
    executor_([self = shared_from_this()] { self->RunTask(); });
    return;
  }
  if (!thread_.joinable()) thread_ = StartThread("quorate-callbck", [this] { Run(); });
  changed_.notify_all();
}

void CallbackQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !items_.empty() || is_stopping_; });
    if (items_.empty()) return;
    DeliverSome(&lock);
  }
}

void CallbackQueue::RunTask() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!items_.empty()) DeliverSome(&lock);
  // Ends this task after some items, so that the executor can run other tasks in between.
  is_scheduled_ = false;
  changed_.notify_all();
  Begin(std::move(lock));
}

void CallbackQueue::DeliverSome(std::unique_lock<std::mutex>* lock) {
  std::vector<Item> some;
  size_t bytes = 0;
  while (!items_.empty() && some.size() < kDeliveredAtOnce) {
    bytes += kItemBytes + items_.front().bytes;
    some.push_back(std::move(items_.front()));
    items_.pop_front();
  }
  is_delivering_ = true;
  lock->unlock();
  const CallbackQueue* const outer = std::exchange(delivering_queue, this);
  for (Item& item : some) {
    item.delivery->Deliver();
    // The user's callback is destroyed on the thread on which it ran.
    item.delivery.reset();
  }
  delivering_queue = outer;
  lock->lock();
  is_delivering_ = false;
  if (!SubtractBytes(bytes)) return;
  lock->unlock();
  on_room_();
  lock->lock();
}

void CallbackQueue::AddBytes(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kFullBytes) is_full_.store(true, std::memory_order_release);
  if (bytes_ > kOverfullBytes) is_overfull_.store(true, std::memory_order_release);
}

bool CallbackQueue::SubtractBytes(size_t bytes) {
  bytes_ -= bytes;
  if (bytes_ <= kOverfullBytes / 2) is_overfull_.store(false, std::memory_order_release);
  return bytes_ <= kFullBytes / 2 && is_full_.exchange(false);
}

void CallbackQueue::Stop() {
  ASSERT(!IsRunningHere());
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopping_ = true;
  changed_.notify_all();
  if (thread_.joinable()) {
    lock.unlock();
    thread_.join();
    lock.lock();
  } else {
    changed_.wait(lock, [this] { return items_.empty() && !is_delivering_ && !is_scheduled_; });
  }
  is_stopped_ = true;
}

}  // namespace quorate::internal
