// What every fuzz target has: its entry, and a way to take an input apart.
//
// A target feeds bytes to a decoder that reads from the network or a disk, and checks what must
// hold of whatever it accepts. It fails by a sanitizer's report or an ASSERT.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace quorate::fuzz {

// Takes numbers and pieces off the front of an input; zeros and less once it is used up.
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
  // A piece of up to 255 bytes, which its first byte counts.
  std::string_view TakePiece() { return TakeBytes(Take<uint8_t>()); }

 private:
  std::string_view rest_;
};

// What a target defines.
void Run(Input input);

}  // namespace quorate::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quorate::fuzz::Run({data, size});
  return 0;
}
