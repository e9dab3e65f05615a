// SPDX-License-Identifier: Apache-2.0

// Passes items from other threads to a thread that waits for files.
//
// Thread-safety: Put may be called from any thread; one thread calls the other functions.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace quorate::tools::shell {

template <class T>
class Mailbox {
 public:
  Mailbox() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { ASSERT(file_ >= 0); }
  ~Mailbox() { close(file_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void Put(T item) {
    std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(std::move(item));
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(file_, &one, sizeof one);
  }
  // Takes the next item, in the order of Put. Returns nothing if there is none.
  std::optional<T> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    uint64_t count = 0;
    if (items_.empty()) [[maybe_unused]]
      const ssize_t taken = read(file_, &count, sizeof count);
    return item;
  }
  // Returns a file that is readable while there is an item to take.
  int file() const { return file_; }

 private:
  const int file_;
  std::mutex mutex_;
  std::deque<T> items_;
};

}  // namespace quorate::tools::shell
