// SPDX-License-Identifier: Apache-2.0

// How the simulator carries a stream of the native protocol on one of its connections: as frames,
// each of which has a kind, a length and a payload. HTTP/2 itself is not simulated.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace quorate::simulation {

enum class NativeFrame : uint8_t {
  kMessage = 1,  // the payload is a SessionRequest or a SessionResponse
  kStatus = 2,   // how the server ended the stream: a byte with a v1::ErrorCode, and a text
};

inline constexpr size_t kNativeFrameHeadBytes = 5;

// Appends a frame to `*to`.
inline void AppendNativeFrame(NativeFrame kind, std::string_view payload, std::string* to) {
  to->push_back(static_cast<char>(kind));
  for (size_t i = 0; i < 4; ++i) to->push_back(static_cast<char>(payload.size() >> (8 * i)));
  to->append(payload);
}

// Reassembles frames from bytes that were cut anywhere.
class NativeFrameReader {
 public:
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // Takes out the next whole frame; returns false if there is none.
  bool Next(NativeFrame* kind, std::string* payload) {
    if (bytes_.size() < kNativeFrameHeadBytes) return false;
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) {
      size |= static_cast<size_t>(static_cast<unsigned char>(bytes_[1 + i])) << (8 * i);
    }
    if (bytes_.size() < kNativeFrameHeadBytes + size) return false;
    *kind = static_cast<NativeFrame>(bytes_[0]);
    ASSERT(*kind == NativeFrame::kMessage || *kind == NativeFrame::kStatus);
    *payload = bytes_.substr(kNativeFrameHeadBytes, size);
    bytes_.erase(0, kNativeFrameHeadBytes + size);
    return true;
  }
  void Clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

}  // namespace quorate::simulation
