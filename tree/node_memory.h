// Memory for the objects of which a tree has millions: nodes, their extra fields, and data.
//
// Blocks of up to kLargestBlock bytes come from slabs, each of blocks of one size, a multiple of 8
// bytes: no header and hardly any rounding, where malloc takes 8 bytes for itself and rounds up to
// 16. Larger blocks come from malloc. A slab begins at a multiple of its size, so that the address
// of a block leads to its slab, and from there to its NodeMemory. Slabs lie in chunks, each of
// which the system can map with one large page; an empty chunk is returned to the system.
//
// Thread-safety: none inside, as the tree that uses it. Different objects are independent.
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
  // REQUIRES: all blocks were freed.
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // Returns a block of `bytes` bytes, aligned to 8. REQUIRES: bytes > 0.
  void* Allocate(size_t bytes);
  // Frees a block that Allocate(bytes) of any NodeMemory returned.
  static void Free(void* block, size_t bytes);

  // The bytes of slabs in use, including their free blocks, and of large blocks.
  size_t bytes_used() const { return slabs_ * kSlabBytes + large_bytes_; }
  // The same, plus all slabs that are not in use but not returned to the system.
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

  // The header at the beginning of a slab; the blocks follow. Offsets are from the header's begin.
  struct Slab {
    NodeMemory* owner = nullptr;
    std::list<Chunk>::iterator chunk;
    // In the list of the slabs with this block size that have a free block.
    Slab* previous = nullptr;
    Slab* next = nullptr;
    uint32_t block_bytes = 0;
    uint32_t used = 0;        // blocks
    uint32_t first_free = 0;  // the first freed block, which holds the offset of the next; 0: none
    uint32_t fresh = 0;       // from this offset on, no block was ever used

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
  std::list<Chunk> roomy_chunks_;                                  // with a free slab
  std::list<Chunk> full_chunks_;
  size_t slabs_ = 0;   // in use
  size_t blocks_ = 0;  // in use
  size_t large_bytes_ = 0;
};

}  // namespace quorate::tree
