// SPDX-License-Identifier: Apache-2.0

// An injected source of random bytes, for values that must be unpredictable (passwords) or unique
// (ids).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <string>

namespace quorate {

class RandomBytes {
 public:
  virtual ~RandomBytes() = default;

  virtual void Fill(char* bytes, size_t size) = 0;

  std::string Make(size_t size) {
    std::string bytes(size, '\0');
    Fill(bytes.data(), size);
    return bytes;
  }

  // Returns the system's source, which is fit for secrets and lives as long as the process.
  static RandomBytes* System();
};

}  // namespace quorate
