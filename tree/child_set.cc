// SPDX-License-Identifier: Apache-2.0

#include "tree/child_set.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

#include "tree/hash.h"
#include "tree/znode.h"

namespace quorate::tree {
namespace {

constexpr uint32_t kMaxArray = 16;
// At or below this number of children, a table becomes an array again. It is half of kMaxArray, so
// that small changes of the number do not change the layout each time.
constexpr uint32_t kBackToArray = 8;
constexpr uint32_t kMinSlots = 32;
// A full segment of this capacity is split rather than grown.
constexpr uint32_t kSplitSlots = 512;
// Reserve plans for about this many children in a segment. By chance some segments get more, and
// these should not have to be split either.
constexpr uint32_t kReservedFill = kSplitSlots / 4 * 3;
// Two segments that were split from each other are joined when they have at most this many children
// together.
constexpr uint32_t kMergeSize = kSplitSlots / 4;
// The directory is doubled only if it then has at least this many children per entry. Therefore
// names with deliberately equal hash bits cannot make it grow without limit: their segment grows
// instead.
constexpr uint64_t kChildrenPerEntry = 64;

// Returns whether the load is so high that linear probing would become slow.
bool IsFull(uint32_t size, uint32_t capacity) { return size >= capacity / 8 * 7; }

uint32_t LowBits(uint64_t hash, uint32_t count) {
  return static_cast<uint32_t>(hash & ((uint64_t{1} << count) - 1));
}

}  // namespace

ChildSet::Slot ChildSet::MakeSlot(Znode* child, uint64_t hash) {
  const uint64_t pointer = reinterpret_cast<uint64_t>(child);
  ASSERT(pointer != 0 && (pointer & ~kPointerMask) == 0, "user addresses have 48 bits");
  return pointer | (hash & ~kPointerMask);
}

ChildSet::SegmentPointer::SegmentPointer(Segment* segment)
    : word_(reinterpret_cast<uint64_t>(segment) |
            static_cast<uint64_t>(std::countr_zero(segment->capacity)) << kPointerBits) {
  ASSERT(get() == segment, "user addresses have 48 bits");
}

ChildSet::Segment* ChildSet::NewSegment(uint32_t capacity, uint32_t depth) {
  ASSERT(capacity >= kMinSlots && (capacity & (capacity - 1)) == 0, "a power of two");
  const size_t slot_bytes = size_t{capacity} * sizeof(Slot);
  Segment* created = new (::operator new(sizeof(Segment) + slot_bytes)) Segment;
  created->capacity = capacity;
  created->depth = depth;
  std::uninitialized_fill_n(created->slots(), capacity, Slot{0});
  return created;
}

ChildSet::Segment* ChildSet::NewSegmentFor(uint32_t count, uint32_t depth) {
  uint32_t capacity = kMinSlots;
  while (count > capacity / 8 * 5) capacity *= 2;
  return NewSegment(capacity, depth);
}

void ChildSet::DeleteSegment(Segment* segment) { ::operator delete(segment); }

Znode* ChildSet::FindIn(SegmentPointer segment, std::string_view name, uint32_t tag) {
  const uint32_t mask = segment.capacity() - 1;
  const Slot* slots = segment->slots();
  for (uint32_t i = tag & mask; slots[i] != 0; i = (i + 1) & mask) {
    if (Tag(slots[i]) == tag && Child(slots[i])->name() == name) return Child(slots[i]);
  }
  return nullptr;
}

void ChildSet::InsertIn(Segment* segment, Slot slot) {
  ASSERT(segment->size + 1 < segment->capacity, "a search ends at an empty slot");
  const uint32_t mask = segment->capacity - 1;
  Slot* slots = segment->slots();
  uint32_t i = Tag(slot) & mask;
  while (slots[i] != 0) i = (i + 1) & mask;
  slots[i] = slot;
  ++segment->size;
}

void ChildSet::InsertAll(const Segment& from, Segment* to) {
  for (uint32_t i = 0; i < from.capacity; ++i) {
    if (from.slots()[i] != 0) InsertIn(to, from.slots()[i]);
  }
}

void ChildSet::EraseIn(Segment* segment, Slot slot) {
  const uint32_t mask = segment->capacity - 1;
  Slot* slots = segment->slots();
  uint32_t hole = Tag(slot) & mask;
  while (slots[hole] != slot) {
    ASSERT(slots[hole] != 0, "the child is in the set");
    hole = (hole + 1) & mask;
  }
  // Moves later slots into the hole, unless the hole is before the slot where their search starts.
  for (uint32_t i = (hole + 1) & mask; slots[i] != 0; i = (i + 1) & mask) {
    const uint32_t home = Tag(slots[i]) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    slots[hole] = slots[i];
    hole = i;
  }
  slots[hole] = 0;
  --segment->size;
}

ChildSet::SegmentPointer ChildSet::SegmentOf(uint64_t hash) const {
  if (layout_ == Layout::kSegment) return segment();
  ASSERT(layout_ == Layout::kDirectory, "only a segment or a directory has segments");
  return directory()->entries[LowBits(hash, directory()->depth)];
}

void ChildSet::ReplaceSegment(uint64_t hash, uint32_t depth, SegmentPointer to) {
  if (layout_ == Layout::kSegment) {
    SetSegment(to);
    return;
  }
  std::vector<SegmentPointer>& entries = directory()->entries;
  const size_t step = size_t{1} << depth;
  for (size_t i = LowBits(hash, depth); i < entries.size(); i += step) entries[i] = to;
}

uint64_t ChildSet::Reverse(uint64_t bits) {
  uint64_t result = 0;
  for (int i = 0; i < 64; ++i, bits >>= 1) result = result << 1 | (bits & 1);
  return result;
}

uint64_t ChildSet::PositionOf(std::string_view name) { return Reverse(HashName(name)); }

bool ChildSet::IsAtOrBehind(const Znode& child, uint64_t position) {
  return PositionOf(child.name()) >= position;
}

Znode* ChildSet::Find(std::string_view name) const {
  if (layout_ == Layout::kInline) {
    return size_ == 1 && Child(word_)->name() == name ? Child(word_) : nullptr;
  }
  return FindHash(name, HashName(name));
}

Znode* ChildSet::FindHash(std::string_view name, uint64_t hash) const {
  ASSERT(layout_ != Layout::kInline, "the inline layout is searched without a hash");
  const uint32_t tag = Tag(hash);
  if (layout_ != Layout::kArray) return FindIn(SegmentOf(hash), name, tag);
  for (uint32_t i = 0; i < size_; ++i) {
    const Slot slot = array()[i];
    if (Tag(slot) == tag && Child(slot)->name() == name) return Child(slot);
  }
  return nullptr;
}

void ChildSet::Insert(Znode* child) {
  ASSERT(child != nullptr);
  InsertHash(child, HashName(child->name()));
}

Znode* ChildSet::FindOrInsert(Znode* child) {
  ASSERT(child != nullptr);
  const uint64_t hash = HashName(child->name());
  Znode* found = layout_ == Layout::kInline ? Find(child->name()) : FindHash(child->name(), hash);
  if (found == nullptr) InsertHash(child, hash);
  return found;
}

void ChildSet::Reserve(uint32_t count) {
  ASSERT(size_ == 0 && layout_ == Layout::kInline, "the set is empty");
  if (count <= kMaxArray) return;
  if (count < kSplitSlots / 8 * 7) {
    uint32_t capacity = kMinSlots;
    while (IsFull(count, capacity)) capacity *= 2;
    SetSegment(SegmentPointer(NewSegment(capacity, 0)));
    return;
  }
  uint32_t depth = 1;
  while (count >> depth > kReservedFill) ++depth;
  auto* dir = new Directory{depth, 1u << depth, {}};
  for (size_t i = 0; i < size_t{1} << depth; ++i) {
    dir->entries.emplace_back(NewSegment(kSplitSlots, depth));
  }
  SetDirectory(dir);
}

void ChildSet::InsertHash(Znode* child, uint64_t hash) {
  ASSERT(size_ < static_cast<uint32_t>(std::numeric_limits<int32_t>::max()),
         "the number of children is a signed 32-bit number on the wire");
  const Slot slot = MakeSlot(child, hash);
  switch (layout_) {
    case Layout::kInline:
    case Layout::kArray:
      InsertInArray(slot, hash);
      break;
    case Layout::kSegment:
    case Layout::kDirectory:
      InsertHashed(slot, hash);
      break;
  }
  ++size_;
}

void ChildSet::InsertInArray(Slot slot, uint64_t hash) {
  if (layout_ == Layout::kInline && size_ == 0) {
    word_ = slot;
    return;
  }
  const Slot* from = layout_ == Layout::kInline ? &word_ : array();
  const uint32_t capacity = layout_ == Layout::kInline ? 1 : 1u << array_log2_;
  if (size_ < capacity) {
    array()[size_] = slot;
    return;
  }
  if (capacity == kMaxArray) {
    Segment* table = NewSegment(kMinSlots, 0);
    for (uint32_t i = 0; i < size_; ++i) InsertIn(table, from[i]);
    delete[] array();
    SetSegment(SegmentPointer(table));
    InsertHashed(slot, hash);
    return;
  }
  Slot* larger = new Slot[size_t{capacity} * 2];
  std::copy_n(from, size_, larger);
  larger[size_] = slot;
  if (layout_ == Layout::kArray) delete[] array();
  array_log2_ = layout_ == Layout::kInline ? 1 : array_log2_ + 1;
  SetArray(larger);
}

void ChildSet::InsertHashed(Slot slot, uint64_t hash) {
  Segment* at = SegmentOf(hash).get();
  while (IsFull(at->size, at->capacity)) {
    if (at->capacity >= kSplitSlots && MaySplit(*at)) {
      Split(at, hash);
    } else {
      Resize(at, hash);
    }
    at = SegmentOf(hash).get();
  }
  InsertIn(at, slot);
}

bool ChildSet::MaySplit(const Segment& segment) const {
  const uint32_t depth = layout_ == Layout::kDirectory ? directory()->depth : 0;
  return segment.depth < depth || (kChildrenPerEntry << depth) <= size_;
}

void ChildSet::Resize(Segment* segment, uint64_t hash) {
  Segment* resized = NewSegmentFor(segment->size, segment->depth);
  InsertAll(*segment, resized);
  ReplaceSegment(hash, segment->depth, SegmentPointer(resized));
  DeleteSegment(segment);
}

void ChildSet::Split(Segment* segment, uint64_t hash) {
  if (layout_ == Layout::kSegment) {
    SetDirectory(new Directory{0, 1, {SegmentPointer(segment)}});
  }
  Directory* dir = directory();
  const uint32_t depth = segment->depth;
  if (depth == dir->depth) {
    const size_t half = dir->entries.size();
    dir->entries.resize(half * 2);
    std::copy_n(dir->entries.begin(), half, dir->entries.begin() + static_cast<ptrdiff_t>(half));
    ++dir->depth;
    dir->deepest = 0;
  }
  std::vector<Slot> sides[2];
  for (uint32_t i = 0; i < segment->capacity; ++i) {
    const Slot slot = segment->slots()[i];
    if (slot == 0) continue;
    sides[HashName(Child(slot)->name()) >> depth & 1].push_back(slot);
  }
  const uint64_t low = LowBits(hash, depth);
  for (uint64_t side : {0, 1}) {
    const uint32_t count = static_cast<uint32_t>(sides[side].size());
    Segment* part = NewSegmentFor(count, depth + 1);
    for (Slot slot : sides[side]) InsertIn(part, slot);
    ReplaceSegment(low | side << depth, depth + 1, SegmentPointer(part));
  }
  if (depth + 1 == dir->depth) dir->deepest += 2;
  DeleteSegment(segment);
}

void ChildSet::Erase(Znode* child) {
  ASSERT(child != nullptr);
  ASSERT(size_ > 0, "the child is in the set");
  const uint64_t hash = HashName(child->name());
  const Slot slot = MakeSlot(child, hash);
  switch (layout_) {
    case Layout::kInline:
      ASSERT(word_ == slot, "the child is in the set");
      word_ = 0;
      --size_;
      return;
    case Layout::kArray:
      EraseFromArray(slot);
      return;
    case Layout::kSegment:
    case Layout::kDirectory:
      EraseIn(SegmentOf(hash).get(), slot);
      --size_;
      Shrink(hash);
      return;
  }
}

void ChildSet::EraseFromArray(Slot slot) {
  Slot* slots = array();
  Slot* at = std::find(slots, slots + size_, slot);
  ASSERT(at != slots + size_, "the child is in the set");
  *at = slots[size_ - 1];
  --size_;
  if (size_ > 1) return;
  word_ = slots[0];
  layout_ = Layout::kInline;
  delete[] slots;
}

void ChildSet::Shrink(uint64_t hash) {
  while (layout_ == Layout::kDirectory && Merge(hash)) {
  }
  Segment* at = SegmentOf(hash).get();
  if (at->capacity > kMinSlots && at->size < at->capacity / 8) Resize(at, hash);
  if (layout_ == Layout::kSegment && size_ <= kBackToArray) SegmentToArray();
}

bool ChildSet::Merge(uint64_t hash) {
  Directory* dir = directory();
  Segment* at = SegmentOf(hash).get();
  ASSERT(at->depth > 0, "a directory has more than one segment");
  const uint32_t depth = at->depth;
  Segment* buddy = dir->entries[LowBits(hash, depth) ^ (1u << (depth - 1))].get();
  if (buddy->depth != depth || at->size + buddy->size > kMergeSize) return false;
  Segment* joined = NewSegmentFor(at->size + buddy->size, depth - 1);
  InsertAll(*at, joined);
  InsertAll(*buddy, joined);
  ReplaceSegment(hash, depth - 1, SegmentPointer(joined));
  DeleteSegment(at);
  DeleteSegment(buddy);
  if (depth == dir->depth) {
    dir->deepest -= 2;
    if (dir->deepest == 0) ShrinkDirectory();
  }
  return true;
}

void ChildSet::ShrinkDirectory() {
  Directory* dir = directory();
  while (dir->depth > 0 && dir->deepest == 0) {
    --dir->depth;
    dir->entries.resize(dir->entries.size() / 2);
    for (const SegmentPointer at : dir->entries) dir->deepest += at->depth == dir->depth ? 1 : 0;
  }
  if (dir->depth > 0) {
    if (dir->entries.size() < dir->entries.capacity() / 2) dir->entries.shrink_to_fit();
    return;
  }
  SetSegment(dir->entries[0]);
  delete dir;
}

void ChildSet::SegmentToArray() {
  Segment* table = segment().get();
  Slot* slots = new Slot[kMaxArray];
  uint32_t count = 0;
  for (uint32_t i = 0; i < table->capacity; ++i) {
    if (table->slots()[i] != 0) slots[count++] = table->slots()[i];
  }
  ASSERT(count == size_ && count > 1, "an array holds more than one");
  array_log2_ = 4;
  SetArray(slots);
  DeleteSegment(table);
}

void ChildSet::Clear() {
  switch (layout_) {
    case Layout::kInline:
      break;
    case Layout::kArray:
      delete[] array();
      break;
    case Layout::kSegment:
      DeleteSegment(segment().get());
      break;
    case Layout::kDirectory: {
      Directory* dir = directory();
      // Goes from the end, so that a segment is deleted at its first entry, when no other entry is
      // left.
      for (size_t i = dir->entries.size(); i-- > 0;) {
        if ((i >> dir->entries[i]->depth) == 0) DeleteSegment(dir->entries[i].get());
      }
      delete dir;
      break;
    }
  }
  word_ = 0;
  size_ = 0;
  layout_ = Layout::kInline;
}

}  // namespace quorate::tree
