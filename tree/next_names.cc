// SPDX-License-Identifier: Apache-2.0

#include "tree/next_names.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::tree {
namespace {

// Makes space for `size` elements and an eighth more, not for twice as many: very many are kept.
template <class List>
void Reserve(size_t size, List* list) {
  if (size <= list->capacity()) return;
  List grown;
  grown.reserve(size + size / 8);
  grown.insert(grown.end(), list->begin(), list->end());
  list->swap(grown);
}

}  // namespace

void NextNames::Begin(std::string_view after) {
  after_ = after;
  // Frees the memory.
  std::string().swap(bytes_);
  std::vector<Entry>().swap(entries_);
  dropped_ = false;
  largest_.clear();
}

void NextNames::Add(std::string_view name) {
  if (name <= after_ || (dropped_ && name > largest_)) return;
  Reserve(entries_.size() + 1, &entries_);
  entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(name.size())});
  Reserve(bytes_.size() + name.size(), &bytes_);
  bytes_.append(name);
}

void NextNames::Cut(size_t bytes_max) {
  const auto less = [this](Entry a, Entry b) { return NameOf(a) < NameOf(b); };
  size_t kept_bytes = bytes();
  size_t kept = entries_.size();
  // Each round looks at half as many names as the one before.
  while (kept_bytes > bytes_max && kept > 1) {
    const size_t half = kept / 2;
    std::nth_element(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(half - 1),
                     entries_.begin() + static_cast<ptrdiff_t>(kept), less);
    for (size_t i = half; i < kept; ++i) kept_bytes -= entries_[i].size + sizeof(Entry);
    kept = half;
  }
  if (kept == entries_.size()) return;
  largest_ = NameOf(entries_[kept - 1]);
  dropped_ = true;
  std::string bytes;
  std::vector<Entry> entries;
  bytes.reserve(kept_bytes);
  entries.reserve(kept);
  for (size_t i = 0; i < kept; ++i) {
    entries.push_back({static_cast<uint32_t>(bytes.size()), entries_[i].size});
    bytes.append(NameOf(entries_[i]));
  }
  bytes_ = std::move(bytes);
  entries_ = std::move(entries);
}

void NextNames::Order() {
  std::make_heap(entries_.begin(), entries_.end(),
                 [this](Entry a, Entry b) { return NameOf(a) > NameOf(b); });
}

void NextNames::Pop() {
  ASSERT(!entries_.empty());
  std::pop_heap(entries_.begin(), entries_.end(),
                [this](Entry a, Entry b) { return NameOf(a) > NameOf(b); });
  entries_.pop_back();
}

}  // namespace quorate::tree
