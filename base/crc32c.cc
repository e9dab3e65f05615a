// SPDX-License-Identifier: Apache-2.0

#include "base/crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include <boost/crc.hpp>
#include <cstring>

namespace quorate {
namespace internal {

uint32_t Crc32cPortable(std::string_view bytes, uint32_t crc) {
  // Boost continues from the reflected register without the final inversion.
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> state;
  uint32_t remainder = ~crc;
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((remainder >> bit) & 1u) << (31 - bit);
  state.reset(reflected);
  state.process_bytes(bytes.data(), bytes.size());
  return state.checksum();
}

}  // namespace internal

namespace {

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cHardware(std::string_view bytes, uint32_t crc) {
  uint64_t state = ~crc;
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; left > 0; ++p, --left) tail = _mm_crc32_u8(tail, static_cast<unsigned char>(*p));
  return ~tail;
}

const bool has_instruction = __builtin_cpu_supports("sse4.2");
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (has_instruction) return Crc32cHardware(bytes, crc);
#endif
  return internal::Crc32cPortable(bytes, crc);
}

}  // namespace quorate
