// SPDX-License-Identifier: Apache-2.0

// The set of the children of one znode, found by name. The object takes 16 bytes.
//
// Most nodes have no child or one child, which is stored inline. Up to 16 children are an array
// with linear search. More children are a hash table with open addressing. A table does not grow
// beyond a segment of some hundred children: then it is split in two, and a directory leads from
// bits of the hash to the segment (extendible hashing). Therefore no insertion, even among ten
// million children, moves more than one segment's children or copies more than the directory's
// pointers.
//
// A slot has a pointer in its low 48 bits, and above it a tag: the top 16 bits of the name's hash.
// Because of the tag, a search rarely reads other children, and a table grows and shrinks without
// reading the nodes.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/assert.h"

namespace quorate::tree {

struct Znode;

// Holds pointers only: the tree owns the nodes.
class ChildSet {
 public:
  ChildSet() = default;
  ~ChildSet() { Clear(); }
  ChildSet(const ChildSet&) = delete;
  ChildSet& operator=(const ChildSet&) = delete;

  // Returns the child with that name, or nullptr. Expected O(1).
  Znode* Find(std::string_view name) const;
  // Adds a child. REQUIRES: the set has no child with that name; the name does not change while the
  // child is in the set.
  void Insert(Znode* child);
  // Inserts `child` and returns nullptr, or returns the child that already has its name. REQUIRES:
  // the name does not change while the child is in the set.
  Znode* FindOrInsert(Znode* child);
  // Allocates space for `count` children that will be inserted. REQUIRES: the set is empty, and no
  // child is erased before all of them were inserted.
  void Reserve(uint32_t count);
  // Removes a child. REQUIRES: `child` is in the set.
  void Erase(Znode* child);
  // Removes all children from the set, without freeing them.
  void Clear();

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Calls `visit(Znode*)` for each child, in no particular order. REQUIRES: `visit` does not change
  // the set.
  template <typename Visit>
  void ForEach(Visit visit) const;

  // The position of a child is the bit-reversed hash of its name. It does not change when other
  // children are inserted or erased.
  static constexpr uint64_t kFirstPosition = 0;
  static uint64_t PositionOf(std::string_view name);
  // Calls `visit(Znode*)` for the children from `position` on, in groups in the order of their
  // positions, until at least `count_max` were visited. A group has up to some hundred children.
  // Returns the position for the next call, or kFirstPosition after the last child. A child that is
  // in the set all the time is visited exactly once, even if the set changes between the calls.
  // O(count_max + the size of a group).
  template <typename Visit>
  uint64_t ForEachFrom(uint64_t position, size_t count_max, Visit visit) const;

 private:
  using Slot = uint64_t;  // 0: empty

  enum class Layout : uint8_t {
    kInline,     // word_ is a slot, if size_ is 1
    kArray,      // word_ points to 2^array_log2_ slots, the first size_ of them in use
    kSegment,    // word_ is a SegmentPointer
    kDirectory,  // word_ points to a Directory
  };

  // A hash table with linear probing. Its slots follow the object in memory.
  struct Segment {
    uint32_t size = 0;
    uint32_t capacity = 0;  // a power of two
    uint32_t depth = 0;     // the number of low hash bits that all its children share

    Slot* slots() { return reinterpret_cast<Slot*>(this + 1); }
    const Slot* slots() const { return reinterpret_cast<const Slot*>(this + 1); }
    uint32_t padding = 0;  // the slots are aligned to 8 bytes
  };
  static_assert(sizeof(Segment) % alignof(Slot) == 0);

  static constexpr uint32_t kPointerBits = 48;
  static constexpr Slot kPointerMask = (Slot{1} << kPointerBits) - 1;

  // A pointer to a segment, with the logarithm of its capacity in the upper bits. Thanks to that, a
  // search reads only slots: reading the head of the segment would be one more memory access.
  class SegmentPointer {
   public:
    SegmentPointer() = default;
    explicit SegmentPointer(Segment* segment);
    // REQUIRES: `word` is the word() of another SegmentPointer.
    explicit SegmentPointer(uint64_t word) : word_(word) {}

    Segment* get() const { return reinterpret_cast<Segment*>(word_ & kPointerMask); }
    Segment* operator->() const { return get(); }
    Segment& operator*() const { return *get(); }
    uint32_t capacity() const { return uint32_t{1} << (word_ >> kPointerBits); }
    uint64_t word() const { return word_; }

   private:
    uint64_t word_ = 0;
  };

  struct Directory {
    uint32_t depth = 0;                   // there are 2^depth entries
    uint32_t deepest = 0;                 // number of segments of that depth; each of them
                                          // has one entry
    std::vector<SegmentPointer> entries;  // by the low bits of the hash
  };

  static Slot MakeSlot(Znode* child, uint64_t hash);
  static Znode* Child(Slot slot) { return reinterpret_cast<Znode*>(slot & kPointerMask); }
  static uint32_t Tag(Slot slot) { return static_cast<uint32_t>(slot >> kPointerBits); }

  static Segment* NewSegment(uint32_t capacity, uint32_t depth);
  // Returns a new segment with space for somewhat more than `count` children.
  static Segment* NewSegmentFor(uint32_t count, uint32_t depth);
  static void DeleteSegment(Segment* segment);
  static Znode* FindIn(SegmentPointer segment, std::string_view name, uint32_t tag);
  static void InsertIn(Segment* segment, Slot slot);
  static void InsertAll(const Segment& from, Segment* to);
  static void EraseIn(Segment* segment, Slot slot);

  Slot* array() const { return reinterpret_cast<Slot*>(word_); }
  SegmentPointer segment() const { return SegmentPointer(word_); }
  Directory* directory() const { return reinterpret_cast<Directory*>(word_); }
  void SetArray(Slot* slots) { SetWord(reinterpret_cast<uint64_t>(slots), Layout::kArray); }
  void SetSegment(SegmentPointer segment) { SetWord(segment.word(), Layout::kSegment); }
  void SetDirectory(Directory* directory) {
    SetWord(reinterpret_cast<uint64_t>(directory), Layout::kDirectory);
  }
  void SetWord(uint64_t word, Layout layout) {
    word_ = word;
    layout_ = layout;
  }

  Znode* FindHash(std::string_view name, uint64_t hash) const;
  void InsertHash(Znode* child, uint64_t hash);
  SegmentPointer SegmentOf(uint64_t hash) const;
  static uint64_t Reverse(uint64_t bits);
  static bool IsAtOrBehind(const Znode& child, uint64_t position);
  // Sets all directory entries of the segment that contains `hash` and has depth `depth` to `to`.
  void ReplaceSegment(uint64_t hash, uint32_t depth, SegmentPointer to);
  void InsertInArray(Slot slot, uint64_t hash);
  void InsertHashed(Slot slot, uint64_t hash);
  bool MaySplit(const Segment& segment) const;
  void Resize(Segment* segment, uint64_t hash);
  void Split(Segment* segment, uint64_t hash);
  void EraseFromArray(Slot slot);
  // Frees memory that is no longer needed after an erasure from the segment of `hash`.
  void Shrink(uint64_t hash);
  // Joins the segment of `hash` with the one it was split from. Returns false if the two together
  // have too many children.
  bool Merge(uint64_t hash);
  void ShrinkDirectory();
  void SegmentToArray();

  uint64_t word_ = 0;
  uint32_t size_ = 0;
  Layout layout_ = Layout::kInline;
  uint8_t array_log2_ = 0;
};

static_assert(sizeof(ChildSet) == 16);

template <typename Visit>
void ChildSet::ForEach(Visit visit) const {
  const auto visit_segment = [&visit](const Segment& segment) {
    for (uint32_t i = 0; i < segment.capacity; ++i) {
      if (segment.slots()[i] != 0) visit(Child(segment.slots()[i]));
    }
  };
  switch (layout_) {
    case Layout::kInline:
      if (size_ == 1) visit(Child(word_));
      return;
    case Layout::kArray:
      for (uint32_t i = 0; i < size_; ++i) visit(Child(array()[i]));
      return;
    case Layout::kSegment:
      visit_segment(*segment());
      return;
    case Layout::kDirectory:
      // A segment of less depth than the directory has several entries. Its first entry is the one
      // whose further bits are 0.
      for (size_t i = 0; i < directory()->entries.size(); ++i) {
        const Segment& at = *directory()->entries[i];
        if ((i >> at.depth) == 0) visit_segment(at);
      }
      return;
  }
}

template <typename Visit>
uint64_t ChildSet::ForEachFrom(uint64_t position, size_t count_max, Visit visit) const {
  if (layout_ != Layout::kDirectory) {
    ForEach([&](Znode* child) {
      if (position == kFirstPosition || IsAtOrBehind(*child, position)) visit(child);
    });
    return kFirstPosition;
  }
  size_t visited = 0;
  do {
    // A segment has all children in a range of positions.
    const Segment& at = *SegmentOf(Reverse(position));
    const uint64_t length = at.depth == 0 ? 0 : uint64_t{1} << (64 - at.depth);
    const bool from_start = (position & (length - 1)) == 0;
    for (uint32_t i = 0; i < at.capacity; ++i) {
      if (at.slots()[i] == 0) continue;
      Znode* child = Child(at.slots()[i]);
      // If segments were joined since the last call, this segment may begin with children visited
      // then.
      if (!from_start && !IsAtOrBehind(*child, position)) continue;
      ++visited;
      visit(child);
    }
    position = length == 0 ? kFirstPosition : (position & ~(length - 1)) + length;
  } while (position != kFirstPosition && visited < count_max);
  return position;
}

}  // namespace quorate::tree
