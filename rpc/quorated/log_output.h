// SPDX-License-Identifier: Apache-2.0

// The output of the program's log: a sink for spdlog whose callers never wait for the file or pipe
// behind it. Messages are queued up to a number of bytes, and one thread writes them. When the
// queue is full, because the pipe is not read or the disk stalls, new messages are dropped. As soon
// as there is space again, a line in their place has their number.
//
// Each message becomes one line of plain text, whatever names of clients it has: control characters
// and bytes that are not UTF-8 are escaped here, so that no caller can forget it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <spdlog/sinks/sink.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace quorate::rpc {

class LogOutput : public spdlog::sinks::sink {
 public:
  static constexpr size_t kQueuedBytesMax = 1u << 20;
  // Of a longer message the first part is logged.
  static constexpr size_t kMessageBytesMax = 16u << 10;
  // The time for which flush and the destructor wait for the messages to be written.
  static constexpr auto kFlushTimeout = std::chrono::seconds(1);

  // Creates a log that writes to `descriptor`, which must stay open until the process ends.
  explicit LogOutput(int descriptor, size_t queued_bytes_max = kQueuedBytesMax);
  // Writes the queued messages, if that is possible within kFlushTimeout.
  ~LogOutput() override;

  // Queues the message or drops it. Does not wait for the descriptor.
  void log(const spdlog::details::log_msg& message) override;
  // Waits until the messages that are queued now are written, at most for kFlushTimeout.
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;
  // Sets a formatter that itself makes one line of plain text of any message, and limits its length. It
  // gets whole messages as they are.
  void SetLineFormatter(std::unique_ptr<spdlog::formatter> formatter);

  // Returns the number of messages that were dropped so far.
  uint64_t dropped() const;

 private:
  struct Queue;

  static void Write(int descriptor, const std::shared_ptr<Queue>& queue);
  // Queues the line with the number of messages that were dropped since the last such line.
  void QueueDroppedNote() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Format(const spdlog::details::log_msg& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t queued_bytes_max_;
  const std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive the object
  mutable Mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_ ABSL_GUARDED_BY(mutex_);
  bool takes_whole_messages_ ABSL_GUARDED_BY(mutex_) = false;  // the formatter, of SetLineFormatter
  spdlog::memory_buf_t formatted_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_noted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread writer_;
};

}  // namespace quorate::rpc
