// The hash of the tree: the same on every machine and in every run, since digests that members
// compare are made of it.
//
// Thread-safety: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "xxhash.h"

namespace quorate::tree {

inline constexpr uint64_t kHashSeed = 0x51756f7261746531;

inline uint64_t HashBytes(std::string_view bytes, uint64_t seed = kHashSeed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

// One hash of several numbers, in their order. `kind` keeps terms of different things apart.
template <size_t kCount>
uint64_t HashNumbers(uint64_t kind, const std::array<uint64_t, kCount>& numbers) {
  return XXH3_64bits_withSeed(numbers.data(), sizeof(numbers), kHashSeed ^ kind);
}

}  // namespace quorate::tree
