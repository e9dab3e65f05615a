// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/entry_cache.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

const EntryCache::Slot& EntryCache::SlotAt(Index index) const {
  ASSERT(index >= first_);
  ASSERT(index <= last_index());
  return slots_[index - first_];
}

const Entry& EntryCache::At(Index index) const { return SlotAt(index).entry; }

uint64_t EntryCache::BytesBegin() const {
  return slots_.empty() ? 0 : slots_.front().bytes_end - slots_.front().entry.ByteSize();
}

uint64_t EntryCache::BytesEnd() const { return slots_.empty() ? 0 : slots_.back().bytes_end; }

void EntryCache::Append(Entry entry) {
  ASSERT(entry.index == last_index() + 1, "the log has no gaps");
  largest_entry_bytes_ = std::max(largest_entry_bytes_, entry.ByteSize());
  const uint64_t bytes_end = BytesEnd() + entry.ByteSize();
  ASSERT(bytes_end > BytesEnd());
  slots_.push_back({std::move(entry), bytes_end});
}

void EntryCache::TruncateAfter(Index index) {
  ASSERT(index <= last_index());
  if (index < first_) {
    slots_.clear();
    first_ = index + 1;
  } else {
    slots_.resize(index - first_ + 1);
  }
  ASSERT(last_index() == index);
}

void EntryCache::Trim(Index limit, size_t bytes_max) {
  const Index last = last_index();
  while (!slots_.empty() && first_ <= limit && ByteSize() > bytes_max) {
    slots_.pop_front();
    ++first_;
  }
  ASSERT(last_index() == last);
}

size_t EntryCache::BytesAfter(Index index) const {
  if (index >= last_index()) return 0;
  const uint64_t begin = index < first_ ? BytesBegin() : SlotAt(index).bytes_end;
  ASSERT(begin <= BytesEnd());
  return BytesEnd() - begin;
}

std::vector<Entry> EntryCache::Collect(Index first, Index last, size_t bytes_max) const {
  ASSERT(Has(first));
  ASSERT(first <= last && last <= last_index());
  const uint64_t begin = SlotAt(first).bytes_end - SlotAt(first).entry.ByteSize();
  // bytes_end ascends, so that a binary search finds the last slot that fits, and the vector is
  // allocated once.
  const auto from = slots_.begin() + static_cast<std::ptrdiff_t>(first - first_);
  const auto to = slots_.begin() + static_cast<std::ptrdiff_t>(last - first_ + 1);
  const auto fits = std::partition_point(
      from, to, [&](const Slot& slot) { return slot.bytes_end - begin <= bytes_max; });
  const auto count = std::max<std::ptrdiff_t>(1, fits - from);
  std::vector<Entry> entries;
  entries.reserve(static_cast<size_t>(count));
  for (auto slot = from; slot != from + count; ++slot) entries.push_back(slot->entry);
  return entries;
}

}  // namespace quorate::consensus
