// SPDX-License-Identifier: Apache-2.0

#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/assert.h"

namespace quorate {
namespace {

class SystemRandomBytes final : public RandomBytes {
 public:
  void Fill(char* bytes, size_t size) override {
    while (size > 0) {
      const ssize_t filled = getrandom(bytes, size, 0);
      if (filled < 0) {
        ASSERT(errno == EINTR, "the kernel has random bytes");
        continue;
      }
      bytes += filled;
      size -= static_cast<size_t>(filled);
    }
  }
};

}  // namespace

RandomBytes* RandomBytes::System() {
  static SystemRandomBytes random;
  return &random;
}

}  // namespace quorate
