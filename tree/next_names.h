// SPDX-License-Identifier: Apache-2.0

// The names that come next in byte order among those of a set that is read in any order. At most a
// given number of bytes is kept: of more names, the smallest ones, so that the set is read again for
// those that follow.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quorate::tree {

class NextNames {
 public:
  // Forgets all names. From now on, Add takes the names that are greater than `after`.
  void Begin(std::string_view after);
  // Adds a name, unless it is known that the name is not among the next ones. O(name).
  void Add(std::string_view name);
  // Returns the number of bytes that the names take.
  size_t bytes() const { return bytes_.size() + entries_.size() * sizeof(Entry); }
  size_t count() const { return entries_.size(); }
  // Returns the number of bytes that are allocated.
  size_t allocated_bytes() const {
    return bytes_.capacity() + entries_.capacity() * sizeof(Entry) + after_.capacity() +
           largest_.capacity();
  }
  // Drops the largest names until the others take at most `bytes_max` bytes; one is always kept.
  // O(count()).
  void Cut(size_t bytes_max);
  // Ends the addition of names, before the first call of front. O(count()).
  void Order();

  // --- After Order -------------------------------------------------------------------------------
  bool empty() const { return entries_.empty(); }
  // Returns the smallest name; valid until the next call of Begin. REQUIRES: not empty().
  std::string_view front() const { return NameOf(entries_.front()); }
  // Removes the smallest name. O(log count()).
  void Pop();
  // Returns whether no name was dropped since Begin.
  bool is_complete() const { return !dropped_; }

 private:
  struct Entry {
    uint32_t offset = 0;
    uint32_t size = 0;
  };
  std::string_view NameOf(Entry entry) const {
    return std::string_view(bytes_).substr(entry.offset, entry.size);
  }

  std::string after_;
  std::string bytes_;  // the names one after the other
  std::vector<Entry> entries_;
  bool dropped_ = false;
  std::string largest_;  // if dropped_: every name above it was or will be dropped
};

}  // namespace quorate::tree
