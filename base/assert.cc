// SPDX-License-Identifier: Apache-2.0

#include "base/assert.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace quorate {
namespace {

std::atomic<void (*)()> assertion_hook{nullptr};

constexpr int kStderrTimeoutMs = 1000;
// A pipe that poll reports as writable takes this many bytes at once.
constexpr size_t kMessageBytesMax = 4096;

// Writes the beginning of a log line, which is the time with its zone and the level, to `to`.
// Returns its size in bytes, or 0 if it does not fit into `room` bytes.
size_t WriteLineBegin(char* to, size_t room) {
  timespec now{};
  tm local{};
  char date[32];
  char zone[8];  // "+hhmm"
  clock_gettime(CLOCK_REALTIME, &now);
  if (localtime_r(&now.tv_sec, &local) == nullptr) return 0;
  if (std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &local) == 0) return 0;
  if (std::strftime(zone, sizeof(zone), "%z", &local) == 0) return 0;
  const int size = std::snprintf(to, room, "%s.%03ld%.3s:%s critical ", date,
                                 now.tv_nsec / 1'000'000, zone, zone + 3);
  return size < 0 || static_cast<size_t>(size) >= room ? 0 : static_cast<size_t>(size);
}

}  // namespace

// Declared again here because assertion_hook.h is not part of this library: code that does not use
// the hook does not depend on that header.
void SetAssertionHook(void (*hook)());
void SetAssertionHook(void (*hook)()) { assertion_hook = hook; }

namespace internal {

void AssertionFailed(const char* file, int line, const char* condition, const char* message) {
  if (auto* hook = assertion_hook.exchange(nullptr)) hook();
  const char* separator = message[0] == '\0' ? "" : ": ";
  char text[kMessageBytesMax];
  const size_t begin = WriteLineBegin(text, sizeof(text));
  const size_t room = sizeof(text) - begin;
  const int size = std::snprintf(text + begin, room, "%s:%d: assertion failed: %s%s%s\n", file,
                                 line, condition, separator, message);
  pollfd writable{STDERR_FILENO, POLLOUT, 0};
  if (size > 0 && poll(&writable, 1, kStderrTimeoutMs) > 0) {
    const size_t length = begin + std::min(static_cast<size_t>(size), room - 1);
    // A message that cannot be written is lost; the process ends in any case.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, length);
  }
  std::abort();
}

}  // namespace internal
}  // namespace quorate
