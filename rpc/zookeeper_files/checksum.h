// SPDX-License-Identifier: Apache-2.0

// Computes the two checksums of ZooKeeper's files.
//
// zlib returns its initial value for a null pointer, so an empty input is not passed to it.
//
// Thread-safety: functions without state.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string_view>

namespace quorate::zookeeper_files {

inline constexpr uint32_t kAdler32OfNothing = 1;

// Returns the checksum of some bytes, whose own checksum is `before`, followed by `bytes`.
inline uint32_t Adler32(std::string_view bytes, uint32_t before = kAdler32OfNothing) {
  if (bytes.empty()) return before;
  return static_cast<uint32_t>(
      adler32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

inline uint32_t Crc32(std::string_view bytes, uint32_t before = 0) {
  if (bytes.empty()) return before;
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace quorate::zookeeper_files
