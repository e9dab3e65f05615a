// What a client has to hand to its user, in order: outcomes of calls, events of watches and of the
// session. User code runs only here, on a thread of its own or on an executor that the user gave,
// so that it can never delay the engine, which keeps the session alive.
//
// Thread-safety: all functions from any thread, but for those of the engine as they say.
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
    size_t bytes = 0;  // about what it occupies
  };

  // Without an executor, a thread is started for the first callback. `on_room` is called after
  // has_room_for_answers() became true again.
  CallbackQueue(Executor executor, std::function<void()> on_room);
  CallbackQueue(const CallbackQueue&) = delete;
  CallbackQueue& operator=(const CallbackQueue&) = delete;

  // Takes all of `items`. If nothing is queued or under way, it delivers at once as many of the
  // first ones as need no callback. Called by the engine only, and not after Stop.
  void Add(std::vector<Item>* items);
  // False, and nothing is done, after Stop.
  bool Post(std::shared_ptr<Delivery> delivery);
  // Delivers what is queued, and what that adds, and ends the thread. REQUIRES: !IsRunningHere().
  void Stop();

  // Whether the engine should ask the servers for more answers.
  bool has_room_for_answers() const { return !is_full_.load(std::memory_order_acquire); }
  // Whether events may be queued one by one; otherwise they are merged.
  bool has_room_for_events() const { return !is_overfull_.load(std::memory_order_acquire); }
  // Whether the calling thread is delivering for this queue.
  bool IsRunningHere() const;

 private:
  void Begin(std::unique_lock<std::mutex> lock);
  void Run();
  // Of the executor.
  void RunTask();
  // Delivers some items. REQUIRES: there are some, and nobody else delivers.
  void DeliverSome(std::unique_lock<std::mutex>* lock);
  void AddBytes(size_t bytes);
  // Whether on_room_ is due.
  bool SubtractBytes(size_t bytes);

  const Executor executor_;
  const std::function<void()> on_room_;
  std::atomic<bool> is_full_{false};
  std::atomic<bool> is_overfull_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Item> items_;
  size_t bytes_ = 0;  // also of those that are being delivered
  bool is_delivering_ = false;
  bool is_scheduled_ = false;  // a task of the executor will look
  bool is_stopping_ = false;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace quorate::internal
