// SPDX-License-Identifier: Apache-2.0

// A hash map without long pauses. It consists of parts that grow independently, so that no
// insertion, even among a million entries, moves more than some thousand entries.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"

namespace quorate::tree {

// All 64 bits of `Hash` must be well distributed. An insertion may move entries, so that pointers
// to values are valid only until the next one.
template <typename Key, typename Value, typename Hash = absl::Hash<Key>>
class ShardedMap {
 public:
  static constexpr size_t kPartBits = 8;
  static constexpr size_t kParts = size_t{1} << kPartBits;

  Value* Find(const Key& key) {
    const size_t hash = Hash()(key);
    Part& part = PartOf(hash);
    const auto found = part.find(key, hash);
    return found == part.end() ? nullptr : &found->second;
  }
  const Value* Find(const Key& key) const { return const_cast<ShardedMap*>(this)->Find(key); }

  // Returns the value of `key`. Creates it if there is none.
  Value& FindOrMake(const Key& key) {
    if (Value* found = Find(key); found != nullptr) return *found;
    ++size_;
    return PartOf(Hash()(key))[key];
  }

  // Removes an entry. Returns false if there is no such key.
  bool Erase(const Key& key) {
    if (PartOf(Hash()(key)).erase(key) == 0) return false;
    --size_;
    return true;
  }

  size_t size() const { return size_; }

  // Calls `visit(key, value)` for each entry, in no particular order, until it returns false.
  // Returns whether all were visited.
  template <typename Visit>
  bool ForEach(Visit visit) const {
    for (size_t part = 0; part < kParts; ++part) {
      if (!ForEachOfPart(part, visit)) return false;
    }
    return true;
  }
  // Does the same for one of the kParts parts. A key is always in the same part.
  template <typename Visit>
  bool ForEachOfPart(size_t part, Visit visit) const {
    for (const auto& [key, value] : parts_[part]) {
      if (!visit(key, value)) return false;
    }
    return true;
  }

 private:
  using Part = absl::flat_hash_map<Key, Value, Hash>;

  // Chooses the part by hash bits that the hash table of the part hardly uses.
  Part& PartOf(size_t hash) { return parts_[hash >> (8 * sizeof(hash) - kPartBits)]; }

  std::array<Part, kParts> parts_;
  size_t size_ = 0;
};

}  // namespace quorate::tree
