// SPDX-License-Identifier: Apache-2.0

// The common part of all fuzz targets: the entry point, and a reader of the input.
//
// A target feeds bytes to a decoder of data from the network or a disk, and checks properties of
// all input that the decoder accepts. It fails by a sanitizer's report or an ASSERT.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace quorate::fuzz {

// Reads numbers and pieces from the front of an input; at its end, numbers are 0 and pieces are
// short or empty.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  template <typename Number>
  Number Take() {
    Number number{};
    const std::string_view bytes = TakeBytes(sizeof(number));
    if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  std::string_view TakeBytes(size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // Takes a piece of up to 255 bytes, after a byte with its length.
  std::string_view TakePiece() { return TakeBytes(Take<uint8_t>()); }

 private:
  std::string_view rest_;
};

// Defined by each target.
void Run(Input input);

}  // namespace quorate::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quorate::fuzz::Run({data, size});
  return 0;
}
