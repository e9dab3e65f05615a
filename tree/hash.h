// SPDX-License-Identifier: Apache-2.0

// The hashes of the tree. HashBytes and HashNumbers give the same value on every machine and in
// every run, because members compare digests made from them. HashName is for hash tables.
//
// Thread-safety: functions without state, except for the key of HashName, which is set once at the
// start.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "xxhash.h"

namespace quorate::tree {

inline constexpr uint64_t kHashSeed = 0x51756f7261746531;

inline uint64_t HashBytes(std::string_view bytes, uint64_t seed = kHashSeed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

// The key of HashName. It decides only the places in hash tables, and no result, record, digest or
// order of the state machine depends on these; therefore it may differ between members.
struct TableKey {
  static constexpr size_t kBytes = 192;
  alignas(8) std::array<unsigned char, kBytes> bytes;
};
static_assert(TableKey::kBytes >= XXH3_SECRET_SIZE_MIN);

// Returns a key that is the same in all runs, for tests and tools.
constexpr TableKey FixedTableKey() {
  TableKey key{};
  uint64_t state = kHashSeed;
  for (unsigned char& byte : key.bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return key;
}

inline TableKey table_key = FixedTableKey();

// Sets a random key, so that clients cannot choose names that collide in a table. REQUIRES: no hash
// table and no other thread exists yet.
inline void SetTableKey(std::string_view random_bytes) {
  ASSERT(random_bytes.size() == TableKey::kBytes);
  std::copy(random_bytes.begin(), random_bytes.end(), table_key.bytes.begin());
}

// Returns the hash for tables whose keys clients choose.
inline uint64_t HashName(std::string_view name) {
  return XXH3_64bits_withSecret(name.data(), name.size(), table_key.bytes.data(), TableKey::kBytes);
}

// Returns one hash of several numbers, in their order. `kind` separates terms of different types.
template <size_t kCount>
uint64_t HashNumbers(uint64_t kind, const std::array<uint64_t, kCount>& numbers) {
  return XXH3_64bits_withSeed(numbers.data(), sizeof(numbers), kHashSeed ^ kind);
}

}  // namespace quorate::tree
