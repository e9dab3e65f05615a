// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_output.h"

#include <poll.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/condition_variable.h"
#include "base/escape.h"
#include "base/thread.h"

namespace quorate::rpc {
namespace {

// Writes `bytes`. If that is not possible, because the disk is full or the reader is gone, they are
// lost, because a failing log must not end the server.
void WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{descriptor, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Returns the text of a message as one line: names of clients and other servers, which may be part of
// it, can neither begin a line of their own nor act on the terminal of a reader. Returns the first
// part of a very long text, and its length.
std::string OneLine(std::string_view text) {
  if (text.size() <= LogOutput::kMessageBytesMax) return EscapeLine(text);
  return EscapeLine(text.substr(0, LogOutput::kMessageBytesMax)) + "...(" +
         std::to_string(text.size()) + " bytes)";
}

}  // namespace

struct LogOutput::Queue {
  Mutex mutex;
  ConditionVariable changed;
  std::string bytes ABSL_GUARDED_BY(mutex);
  size_t writing ABSL_GUARDED_BY(mutex) = 0;    // bytes that the thread has taken
  uint64_t queued ABSL_GUARDED_BY(mutex) = 0;   // bytes queued since the start
  uint64_t written ABSL_GUARDED_BY(mutex) = 0;  // bytes of these that were written
  bool end ABSL_GUARDED_BY(mutex) = false;

  // Queues `text`. Returns false if the queue would exceed `bytes_max`.
  bool Push(std::string_view text, size_t bytes_max) {
    {
      MutexLock lock(&mutex);
      if (bytes.size() + writing + text.size() > bytes_max) return false;
      bytes += text;
      queued += text.size();
    }
    changed.NotifyAll();
    return true;
  }
};

LogOutput::LogOutput(int descriptor, size_t queued_bytes_max)
    : queued_bytes_max_(queued_bytes_max),
      queue_(std::make_shared<Queue>()),
      formatter_(std::make_unique<spdlog::pattern_formatter>()),
      writer_(
          StartThread("log-output", [descriptor, queue = queue_] { Write(descriptor, queue); })) {}

LogOutput::~LogOutput() {
  {
    MutexLock lock(&mutex_);
    QueueDroppedNote();
  }
  flush();
  bool is_written = false;
  {
    MutexLock lock(&queue_->mutex);
    queue_->end = true;
    is_written = queue_->written == queue_->queued;
  }
  queue_->changed.NotifyAll();
  // A thread that is blocked in a write is left alone, and ends with the process.
  is_written ? writer_.join() : writer_.detach();
}

void LogOutput::Write(int descriptor, const std::shared_ptr<Queue>& queue) {
  std::string bytes;
  for (;;) {
    {
      MutexLock lock(&queue->mutex);
      while (queue->bytes.empty() && !queue->end) queue->changed.Wait(&queue->mutex);
      if (queue->bytes.empty()) return;
      bytes.swap(queue->bytes);
      queue->writing = bytes.size();
    }
    WriteAll(descriptor, bytes);
    MutexLock lock(&queue->mutex);
    queue->writing = 0;
    queue->written += bytes.size();
    bytes.clear();
    queue->changed.NotifyAll();
  }
}

void LogOutput::log(const spdlog::details::log_msg& message) {
  MutexLock lock(&mutex_);
  QueueDroppedNote();
  const std::string_view text(message.payload.data(), message.payload.size());
  if (!takes_whole_messages_ && (text.size() > kMessageBytesMax || NeedsEscapeLine(text))) {
    const std::string line = OneLine(text);
    spdlog::details::log_msg safe = message;
    safe.payload = line;
    Format(safe);
  } else {
    Format(message);
  }
  // After a dropped message, all later messages are dropped until the line about them is queued.
  const bool is_late = dropped_ > dropped_noted_;
  if (is_late || !queue_->Push({formatted_.data(), formatted_.size()}, queued_bytes_max_)) {
    ++dropped_;
  }
}

void LogOutput::QueueDroppedNote() {
  if (dropped_ == dropped_noted_) return;
  const std::string text =
      fmt::format("messages of this log were dropped, for what was before them was not taken: {}",
                  dropped_ - dropped_noted_);
  Format(spdlog::details::log_msg(spdlog::string_view_t(), spdlog::level::warn, text));
  if (queue_->Push({formatted_.data(), formatted_.size()}, queued_bytes_max_)) {
    dropped_noted_ = dropped_;
  }
}

void LogOutput::Format(const spdlog::details::log_msg& message) {
  formatted_.clear();
  formatter_->format(message, formatted_);
}

void LogOutput::flush() {
  const auto deadline = std::chrono::steady_clock::now() + kFlushTimeout;
  MutexLock lock(&queue_->mutex);
  const uint64_t until = queue_->queued;
  while (queue_->written < until && queue_->changed.WaitUntil(&queue_->mutex, deadline)) {
  }
}

void LogOutput::set_pattern(const std::string& pattern) {
  set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
}

void LogOutput::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  MutexLock lock(&mutex_);
  formatter_ = std::move(formatter);
  takes_whole_messages_ = false;
}

void LogOutput::SetLineFormatter(std::unique_ptr<spdlog::formatter> formatter) {
  MutexLock lock(&mutex_);
  formatter_ = std::move(formatter);
  takes_whole_messages_ = true;
}

uint64_t LogOutput::dropped() const {
  MutexLock lock(&mutex_);
  return dropped_;
}

}  // namespace quorate::rpc
