// SPDX-License-Identifier: Apache-2.0

// The newest entries of the log in memory: all entries that are not durable yet, and before them as
// many as the bound allows, for followers and for apply.
//
// Thread-safety: none. Payloads are shared, never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::consensus {

class EntryCache {
 public:
  // Creates an empty cache for a log whose last index is `last`.
  explicit EntryCache(Index last) : first_(last + 1) {}

  // The cache has the entries first_index()..last_index(). If it is empty, last_index() + 1 ==
  // first_index().
  Index first_index() const { return first_; }
  Index last_index() const { return first_ + slots_.size() - 1; }
  bool Has(Index index) const { return index >= first_ && index <= last_index(); }
  // Returns the entry at `index`. REQUIRES: Has(index).
  const Entry& At(Index index) const;

  // Appends an entry. REQUIRES: entry.index == last_index() + 1.
  void Append(Entry entry);
  // Drops the entries above `index`, which may be less than first_index().
  void TruncateAfter(Index index);
  // Drops the oldest entries, but none above `limit`, until ByteSize() <= bytes_max.
  void Trim(Index limit, size_t bytes_max);

  // Return the bytes (Entry::ByteSize) of all entries, and of those above `index`. O(1).
  size_t ByteSize() const { return BytesAfter(Index{0}); }
  size_t BytesAfter(Index index) const;
  // Returns the size of the largest entry that was ever in the cache.
  size_t largest_entry_bytes() const { return largest_entry_bytes_; }

  // Returns entries from `first` to at most `last`: as many as fit into bytes_max, but at least
  // one. REQUIRES: Has(first), last_index() >= last >= first.
  std::vector<Entry> Collect(Index first, Index last, size_t bytes_max) const;

 private:
  struct Slot {
    Entry entry;
    uint64_t bytes_end;  // bytes ever appended, up to and including this entry
  };
  const Slot& SlotAt(Index index) const;
  uint64_t BytesBegin() const;
  uint64_t BytesEnd() const;

  Index first_;
  std::deque<Slot> slots_;
  size_t largest_entry_bytes_ = 0;
};

}  // namespace quorate::consensus
