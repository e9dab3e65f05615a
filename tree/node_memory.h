// Memory for what a tree has by the million: nodes, what nodes need beside a plain leaf, and data.
//
// Blocks of up to kLargestBlock bytes come from slabs, each of blocks of one size, a multiple of 8
// bytes: no header and hardly any rounding, where malloc takes 8 bytes for itself and rounds up to
// 16. Larger ones are malloc's. A slab begins at a multiple of its size, so that a block finds its
// slab, and with it the memory that it is of. Slabs lie in chunks, each of which the system can map
// with one large page; an empty chunk goes back to it.
//
// Thread-safety: none inside: as the tree that the memory is of. Different objects are independent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>

namespace quorate::tree {

class NodeMemory {
 public:
  static constexpr size_t kLargestBlock = 1024;

  NodeMemory() = default;
  // REQUIRES: all of it was freed.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // `bytes` bytes, aligned to 8. REQUIRES: bytes > 0.
  void* Allocate(size_t bytes);
  // Gives back what Allocate(bytes) of any NodeMemory returned.
  static void Free(void* block, size_t bytes);

  // What slabs in use and large blocks take, free blocks in these slabs included.
  size_t bytes_used() const { return slabs_ * kSlabBytes + large_bytes_; }
  // The same with all slabs that were ever in use and not given back to the system.
  size_t bytes_reserved() const { return chunk_count() * kChunkBytes + large_bytes_; }

 private:
  static constexpr size_t kAlignment = 8;
  static constexpr size_t kSlabBytes = size_t{64} << 10;
  static constexpr size_t kChunkBytes = size_t{2} << 20;
  static constexpr uint32_t kSlabsInChunk = kChunkBytes / kSlabBytes;

  struct Chunk {
    char* memory = nullptr;
    uint32_t free_slabs = ~uint32_t{0};  // a bit each
  };
  static_assert(kSlabsInChunk == 32, "as many as bits");

  // Stands at the beginning of its memory; the blocks follow. Offsets are from there.
  struct Slab {
    NodeMemory* owner = nullptr;
    std::list<Chunk>::iterator chunk;
    // In the list of the slabs of this size that have room.
    Slab* previous = nullptr;
    Slab* next = nullptr;
    uint32_t block_bytes = 0;
    uint32_t used = 0;        // blocks
    uint32_t first_free = 0;  // a block that was freed, which holds the offset of the next; 0: none
    uint32_t fresh = 0;       // no block was ever used from there on

    bool HasRoom() const { return first_free != 0 || fresh + block_bytes <= kSlabBytes; }
  };

  // Before a large block.
  struct LargeHeader {
    NodeMemory* owner;
  };

  static Slab* SlabOf(void* block);
  static size_t ClassOf(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment; }
  size_t chunk_count() const { return roomy_chunks_.size() + full_chunks_.size(); }
  void* AllocateLarge(size_t bytes);
  Slab* NewSlab(uint32_t block_bytes);
  void AddChunk();
  void FreeIn(Slab* slab, void* block);
  void ReleaseSlab(Slab* slab);
  void Link(Slab* slab);
  void Unlink(Slab* slab);

  std::array<Slab*, kLargestBlock / kAlignment + 1> with_room_{};  // by ClassOf
  std::list<Chunk> roomy_chunks_;                                  // with a free slab
  std::list<Chunk> full_chunks_;
  size_t slabs_ = 0;   // in use
  size_t blocks_ = 0;  // in use
  size_t large_bytes_ = 0;
};

}  // namespace quorate::tree
