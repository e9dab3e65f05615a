// SPDX-License-Identifier: Apache-2.0

// Allocates memory for the objects of which a tree has millions: nodes, their extra fields, and
// data.
//
// Blocks of up to kLargestBlock bytes come from slabs. All blocks of a slab have the same size, a
// multiple of 8 bytes. They have no header and hardly any rounding, while malloc takes 8 bytes for
// itself and rounds up to 16. Larger blocks come from malloc. A slab begins at a multiple of its
// size, so that the address of a block leads to its slab, and from there to its NodeMemory. Slabs
// lie in chunks, each of which the system can map as one large page. An empty chunk is returned to
// the system.
//
// Thread-safety: none inside, like the tree that uses it. Different objects are independent.
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
  // REQUIRES: all blocks have been freed.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // Returns a block of `bytes` bytes, aligned to 8. REQUIRES: bytes > 0.
  void* Allocate(size_t bytes);
  // Frees a block that Allocate(bytes) of any NodeMemory returned.
  static void Free(void* block, size_t bytes);

  // Returns the bytes of the slabs in use, including their free blocks, and of the large blocks.
  size_t bytes_used() const { return slabs_ * kSlabBytes + large_bytes_; }
  // Returns the same, plus the bytes of the slabs that are not in use and not returned to the
  // system.
  size_t bytes_reserved() const { return chunk_count() * kChunkBytes + large_bytes_; }

 private:
  static constexpr size_t kAlignment = 8;
  static constexpr size_t kSlabBytes = size_t{64} << 10;
  static constexpr size_t kChunkBytes = size_t{2} << 20;
  static constexpr uint32_t kSlabsInChunk = kChunkBytes / kSlabBytes;

  struct Chunk {
    char* memory = nullptr;
    uint32_t free_slabs = ~uint32_t{0};  // one bit for each slab
  };
  static_assert(kSlabsInChunk == 32, "free_slabs has a bit for each slab");

  // The header at the beginning of a slab. The blocks follow it; offsets count from the header.
  struct Slab {
    NodeMemory* owner = nullptr;
    std::list<Chunk>::iterator chunk;
    // Links in the list of the slabs that have this block size and a free block.
    Slab* previous = nullptr;
    Slab* next = nullptr;
    uint32_t block_bytes = 0;
    uint32_t used = 0;        // number of blocks in use
    uint32_t first_free = 0;  // offset of a freed block, which has the next offset; 0: none
    uint32_t fresh = 0;       // from this offset on, no block has been used yet

    bool HasRoom() const { return first_free != 0 || fresh + block_bytes <= kSlabBytes; }
  };

  // Placed before a large block.
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
  std::list<Chunk> roomy_chunks_;                                  // chunks with a free slab
  std::list<Chunk> full_chunks_;
  size_t slabs_ = 0;   // in use
  size_t blocks_ = 0;  // in use
  size_t large_bytes_ = 0;
};

}  // namespace quorate::tree
