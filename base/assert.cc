#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace quorate::internal {

void AssertionFailed(const char* file, int line, const char* condition, const char* message) {
  const char* separator = message[0] == '\0' ? "" : ": ";
  std::fprintf(stderr, "%s:%d: assertion failed: %s%s%s\n", file, line, condition, separator,
               message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace quorate::internal
