#include "base/assert.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace quorate {
namespace {

std::atomic<void (*)()> assertion_hook{nullptr};

constexpr int kStderrTimeoutMs = 1000;
// A pipe that poll calls writable takes so much at once.
constexpr size_t kMessageBytesMax = 4096;

}  // namespace

// Declared in assertion_hook.h, which is no part of this library, so that what does not use it need
// not be compiled with it.
void SetAssertionHook(void (*hook)());
void SetAssertionHook(void (*hook)()) { assertion_hook = hook; }

namespace internal {

void AssertionFailed(const char* file, int line, const char* condition, const char* message) {
  if (auto* hook = assertion_hook.exchange(nullptr)) hook();
  const char* separator = message[0] == '\0' ? "" : ": ";
  char text[kMessageBytesMax];
  const int size = std::snprintf(text, sizeof(text), "%s:%d: assertion failed: %s%s%s\n", file,
                                 line, condition, separator, message);
  pollfd writable{STDERR_FILENO, POLLOUT, 0};
  if (size > 0 && poll(&writable, 1, kStderrTimeoutMs) > 0) {
    const size_t length = std::min(static_cast<size_t>(size), sizeof(text) - 1);
    // What cannot be written is lost; the process ends in any case.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, length);
  }
  std::abort();
}

}  // namespace internal
}  // namespace quorate
