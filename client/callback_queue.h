// SPDX-License-Identifier: Apache-2.0

// The ordered queue of deliveries to the user: outcomes of calls, and events of watches and of the
// session. User code runs only here, on the queue's own thread or on the executor that the user
// gave, so that user code cannot delay the engine, which keeps the session alive.
//
// Thread-safety: all functions may be called from any thread, except those marked as called by the
// engine only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "client/call.h"

namespace quorate::internal {

class CallbackQueue : public std::enable_shared_from_this<CallbackQueue> {
 public:
  using Executor = std::function<void(std::function<void()>)>;
  struct Item {
    std::shared_ptr<Delivery> delivery;
    size_t bytes = 0;  // approximate memory of the delivery
  };

  // Without an executor, the first callback starts a thread. `on_room` is called each time that
  // has_room_for_answers() becomes true again.
  CallbackQueue(Executor executor, std::function<void()> on_room);
  CallbackQueue(const CallbackQueue&) = delete;
  CallbackQueue& operator=(const CallbackQueue&) = delete;

  // Queues all of `items` and clears it. If nothing is queued or being delivered, first delivers,
  // on the calling thread, the leading items that need no callback. Called by the engine only.
  // REQUIRES: Stop was not called.
  void Add(std::vector<Item>* items);
  // Queues `delivery`. Returns false, and does nothing, after Stop.
  bool Post(std::shared_ptr<Delivery> delivery);
  // Delivers all queued items, and those that their callbacks add, and ends the thread. REQUIRES:
  // !IsRunningHere().
  void Stop();

  // Returns whether the engine may send further requests, whose answers would be queued here.
  bool has_room_for_answers() const { return !is_full_.load(std::memory_order_acquire); }
  // Returns whether events may be queued one by one; otherwise they are merged.
  bool has_room_for_events() const { return !is_overfull_.load(std::memory_order_acquire); }
  // Returns whether the calling thread is delivering for this queue.
  bool IsRunningHere() const;

 private:
  void Begin(std::unique_lock<std::mutex> lock);
  void Run();
  // Delivers some items, as a task of the executor.
  void RunTask();
  // Delivers some items. REQUIRES: items_ is not empty, and no other thread delivers.
  void DeliverSome(std::unique_lock<std::mutex>* lock);
  void AddBytes(size_t bytes);
  // Returns whether on_room_ has to be called.
  bool SubtractBytes(size_t bytes);

  const Executor executor_;
  const std::function<void()> on_room_;
  std::atomic<bool> is_full_{false};
  std::atomic<bool> is_overfull_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Item> items_;
  size_t bytes_ = 0;  // of queued items and of those that are being delivered
  bool is_delivering_ = false;
  bool is_scheduled_ = false;  // the executor has a task that has not ended
  bool is_stopping_ = false;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace quorate::internal
