// SPDX-License-Identifier: Apache-2.0

// CRC-32C (Castagnoli), the checksum of log records and of frames between servers.
#pragma once

#include <cstdint>
#include <string_view>

namespace quorate {

// Returns the CRC of `bytes`, continuing from `crc`, the CRC of the bytes before them (0 at the
// start).
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

namespace internal {
// Returns the same as Crc32c, without the processor's CRC instruction. It is used on processors
// without that instruction, and by the test that compares both implementations.
uint32_t Crc32cPortable(std::string_view bytes, uint32_t crc);
}  // namespace internal

}  // namespace quorate
