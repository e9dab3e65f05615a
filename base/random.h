// Random bytes for what nobody may guess (passwords) or meet twice (ids), injected.
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

  // The system's, fit for secrets; lives as long as the process.
  static RandomBytes* System();
};

}  // namespace quorate
