// SPDX-License-Identifier: Apache-2.0

#include "tree/node_memory.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#endif

namespace quorate::tree {
namespace {

char* MapAligned(size_t bytes) {
  // Twice the size always contains an aligned piece of the wanted size. The parts before and behind
  // it are unmapped.
  void* mapped =
      mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* begin = static_cast<char*>(mapped);
  const size_t skipped = -reinterpret_cast<uintptr_t>(begin) % bytes;
  if (skipped > 0) munmap(begin, skipped);
  munmap(begin + skipped + bytes, bytes - skipped);
  return begin + skipped;
}

}  // namespace

NodeMemory::~NodeMemory() {
  ASSERT(blocks_ == 0, "all blocks were freed");
  for (const std::list<Chunk>* chunks : {&roomy_chunks_, &full_chunks_}) {
    for (const Chunk& chunk : *chunks) {
      ASAN_UNPOISON_MEMORY_REGION(chunk.memory, kChunkBytes);
      munmap(chunk.memory, kChunkBytes);
    }
  }
}

NodeMemory::Slab* NodeMemory::SlabOf(void* block) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~(kSlabBytes - 1));
}

void* NodeMemory::Allocate(size_t bytes) {
  ASSERT(bytes > 0);
  ++blocks_;
  if (bytes > kLargestBlock) return AllocateLarge(bytes);
  Slab* slab = with_room_[ClassOf(bytes)];
  if (slab == nullptr) slab = NewSlab(static_cast<uint32_t>(ClassOf(bytes) * kAlignment));
  uint32_t offset = slab->first_free;
  char* block = reinterpret_cast<char*>(slab) + offset;
  if (offset != 0) {
    ASAN_UNPOISON_MEMORY_REGION(block, slab->block_bytes);
    slab->first_free = *reinterpret_cast<uint32_t*>(block);
  } else {
    block = reinterpret_cast<char*>(slab) + slab->fresh;
    ASAN_UNPOISON_MEMORY_REGION(block, slab->block_bytes);
    slab->fresh += slab->block_bytes;
  }
  ++slab->used;
  if (!slab->HasRoom()) Unlink(slab);
  return block;
}

void* NodeMemory::AllocateLarge(size_t bytes) {
  auto* header = static_cast<LargeHeader*>(::operator new(sizeof(LargeHeader) + bytes));
  header->owner = this;
  large_bytes_ += bytes;
  return header + 1;
}

void NodeMemory::Free(void* block, size_t bytes) {
  ASSERT(block != nullptr);
  if (bytes <= kLargestBlock) {
    Slab* slab = SlabOf(block);
    ASSERT(ClassOf(bytes) * kAlignment == slab->block_bytes, "a block is freed with its size");
    slab->owner->FreeIn(slab, block);
    return;
  }
  LargeHeader* header = static_cast<LargeHeader*>(block) - 1;
  --header->owner->blocks_;
  header->owner->large_bytes_ -= bytes;
  ::operator delete(header);
}

void NodeMemory::FreeIn(Slab* slab, void* block) {
  --blocks_;
  const bool had_room = slab->HasRoom();
  *static_cast<uint32_t*>(block) = slab->first_free;
  slab->first_free =
      static_cast<uint32_t>(static_cast<char*>(block) - reinterpret_cast<char*>(slab));
  ASAN_POISON_MEMORY_REGION(block, slab->block_bytes);
  --slab->used;
  if (!had_room) Link(slab);
  if (slab->used == 0) ReleaseSlab(slab);
}

NodeMemory::Slab* NodeMemory::NewSlab(uint32_t block_bytes) {
  ++slabs_;
  if (roomy_chunks_.empty()) AddChunk();
  const auto chunk = roomy_chunks_.begin();
  const uint32_t place = static_cast<uint32_t>(std::countr_zero(chunk->free_slabs));
  chunk->free_slabs &= ~(uint32_t{1} << place);
  char* memory = chunk->memory + place * kSlabBytes;
  if (chunk->free_slabs == 0) full_chunks_.splice(full_chunks_.begin(), roomy_chunks_, chunk);
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(Slab));
  Slab* slab = new (memory) Slab;
  slab->owner = this;
  slab->chunk = chunk;
  slab->block_bytes = block_bytes;
  slab->fresh = sizeof(Slab);
  Link(slab);
  return slab;
}

void NodeMemory::AddChunk() {
  Chunk chunk;
  chunk.memory = MapAligned(kChunkBytes);
  // Requests large pages only from the second chunk on: a small tree should not use one. If that
  // fails, the memory is only slower.
  if (!full_chunks_.empty()) madvise(chunk.memory, kChunkBytes, MADV_HUGEPAGE);
  ASAN_POISON_MEMORY_REGION(chunk.memory, kChunkBytes);
  roomy_chunks_.push_back(chunk);
}

void NodeMemory::ReleaseSlab(Slab* slab) {
  --slabs_;
  Unlink(slab);
  const auto chunk = slab->chunk;
  const size_t offset = static_cast<size_t>(reinterpret_cast<char*>(slab) - chunk->memory);
  ASAN_POISON_MEMORY_REGION(slab, kSlabBytes);
  if (chunk->free_slabs == 0) {
    roomy_chunks_.splice(roomy_chunks_.end(), full_chunks_, chunk);
  }
  chunk->free_slabs |= uint32_t{1} << (offset / kSlabBytes);
  // Keeps one empty chunk, so that a number of slabs that varies around a multiple of a chunk does
  // not map and unmap a chunk each time.
  if (~chunk->free_slabs != 0 || roomy_chunks_.size() == 1) return;
  ASAN_UNPOISON_MEMORY_REGION(chunk->memory, kChunkBytes);
  munmap(chunk->memory, kChunkBytes);
  roomy_chunks_.erase(chunk);
}

void NodeMemory::Link(Slab* slab) {
  Slab*& first = with_room_[slab->block_bytes / kAlignment];
  slab->previous = nullptr;
  slab->next = first;
  if (first != nullptr) first->previous = slab;
  first = slab;
}

void NodeMemory::Unlink(Slab* slab) {
  Slab*& first = with_room_[slab->block_bytes / kAlignment];
  (slab->previous == nullptr ? first : slab->previous->next) = slab->next;
  if (slab->next != nullptr) slab->next->previous = slab->previous;
  slab->previous = slab->next = nullptr;
}

}  // namespace quorate::tree
