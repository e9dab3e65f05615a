// SPDX-License-Identifier: Apache-2.0

// Assertions that stay on in every build. A failed assertion is a bug of this program; bad input is
// reported as an absl::Status instead.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

namespace quorate::internal {

// Prints "file:line: assertion failed: condition (message)" to stderr and aborts.
[[noreturn]] void AssertionFailed(const char* file, int line, const char* condition,
                                  const char* message);

}  // namespace quorate::internal

// ASSERT(condition) or ASSERT(condition, "why it holds").
#define ASSERT(condition, ...)                                                              \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::quorate::internal::AssertionFailed(__FILE__, __LINE__, #condition, "" __VA_ARGS__); \
    }                                                                                       \
  } while (false)
