// SPDX-License-Identifier: Apache-2.0

// The randomness of a simulation: one named stream for each concern, so that an additional draw in
// one place does not change what all others draw.
//
// Thread-safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/assert.h"

namespace quorate::simulation {

// SplitMix64 (Steele, Lea and Flood 2014): mixes a seed, and derives further seeds from it.
constexpr uint64_t Spread(uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// FNV-1a, then Spread: hashes a name to the same number on every machine.
constexpr uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Spread(hash);
}

// xoshiro256** (Blackman and Vigna 2018).
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = seed = Spread(seed);
  }
  Random(uint64_t seed, std::string_view name) : Random(seed ^ HashName(name)) {}

  // Any 64 bits.
  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }
  // Uniform in [0, bound). REQUIRES: bound > 0. (The bias of the multiplication is below 2^-32 for
  // bounds that a simulation uses.)
  uint64_t Below(uint64_t bound) {
    ASSERT(bound > 0);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  // Uniform in [low, high]. REQUIRES: low <= high.
  int64_t Between(int64_t low, int64_t high) {
    ASSERT(low <= high);
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Unit() < probability; }
  // With a long tail: half of the values are below the mean, some are ten times as large. At least
  // 0. Integer arithmetic only, so that it is the same on every machine.
  int64_t LongTail(int64_t mean) {
    if (mean <= 0) return 0;
    const int64_t value = Between(0, 2 * mean);
    const uint64_t dice = Below(128);
    return dice == 0 ? value * 10 : dice < 8 ? value * 3 : value;
  }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  uint64_t state_[4];
};

}  // namespace quorate::simulation
