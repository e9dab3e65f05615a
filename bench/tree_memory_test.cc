// SPDX-License-Identifier: Apache-2.0

// Tests how much memory a znode takes besides its name and data. The bytes are counted inside the
// process, so that each run gives the same result.

#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "bench/grown_tree.h"

namespace {

// The bytes in use by operator new, which is everything except NodeMemory. Includes the eight bytes
// of malloc's header.
size_t new_bytes = 0;

size_t BytesOf(void* block) { return malloc_usable_size(block) + sizeof(size_t); }

}  // namespace

// All forms except the aligned ones are replaced, so that each block is freed by the matching
// allocator, even if a sanitizer replaces the others.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  void* block = std::malloc(bytes);
  if (block != nullptr) new_bytes += BytesOf(block);
  return block;
}

void* operator new(size_t bytes) {
  void* block = operator new(bytes, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void* operator new[](size_t bytes) { return operator new(bytes); }

void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, std::nothrow);
}

void operator delete(void* block) noexcept {
  if (block != nullptr) new_bytes -= BytesOf(block);
  std::free(block);
}

void operator delete(void* block, size_t) noexcept { operator delete(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { operator delete(block); }
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, size_t) noexcept { operator delete(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { operator delete(block); }

namespace quorate::bench {
namespace {

// Returns the bytes of memory per znode of a tree, besides name and data.
double BytesBeside(Shape shape, uint64_t nodes) {
  const size_t before = new_bytes;
  GrownTree grown(shape);
  const size_t data_before = grown.tree().data_bytes();
  grown.GrowTo(nodes);
  // Empties the list of changes, as a checkpoint does.
  grown.tree().BeginDelta();
  while (grown.tree().NextDeltaRecords(1 << 20, [](auto, auto) {})) {
  }
  while (grown.tree().EndDelta(/*durable=*/true, 1 << 20)) {
  }
  const size_t memory = new_bytes - before + grown.tree().node_memory_bytes();
  const size_t data = grown.tree().data_bytes() - data_before;
  return static_cast<double>(memory - data) / static_cast<double>(nodes);
}

TEST_CASE("a znode takes at most 128 bytes besides its name and data, in a tree of any shape") {
  constexpr double kBytesMax = 128;
  // There are so many znodes that memory that exists only once has little effect.
  constexpr uint64_t kNodes = 200'000;
  const Shape shape = GENERATE(Shape::kFlat, Shape::kChains, Shape::kDirectories);
  const double bytes = BytesBeside(shape, kNodes);
  INFO("shape " << static_cast<int>(shape));
  CHECK(bytes <= kBytesMax);
  // A result below the size of a Node would mean that znodes are not counted.
  CHECK(bytes > 88);
}

TEST_CASE("a destroyed tree leaves no memory allocated") {
  const size_t before = new_bytes;
  BytesBeside(Shape::kDirectories, 1000);
  CHECK(new_bytes == before);
}

}  // namespace
}  // namespace quorate::bench
