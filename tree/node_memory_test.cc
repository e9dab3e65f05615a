// SPDX-License-Identifier: Apache-2.0

#include "tree/node_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace quorate::tree {
namespace {

constexpr size_t kChunkBytes = size_t{2} << 20;

struct Block {
  char* memory;
  size_t bytes;
  char fill;
};

Block Take(NodeMemory* memory, size_t bytes, char fill) {
  Block block{static_cast<char*>(memory->Allocate(bytes)), bytes, fill};
  std::memset(block.memory, fill, bytes);
  return block;
}

void GiveBack(const Block& block) {
  const bool whole = std::all_of(block.memory, block.memory + block.bytes,
                                 [&block](char byte) { return byte == block.fill; });
  if (!whole) FAIL("a block of " << block.bytes << " bytes was overwritten");
  NodeMemory::Free(block.memory, block.bytes);
}

TEST_CASE("blocks of all sizes are aligned and do not overlap") {
  NodeMemory memory;
  std::mt19937_64 random(1);
  std::vector<Block> blocks;
  for (int i = 0; i < 100'000; ++i) {
    if (blocks.empty() || random() % 5 < 3) {
      const size_t bytes = 1 + random() % (NodeMemory::kLargestBlock * 9 / 8);
      blocks.push_back(Take(&memory, bytes, static_cast<char>(random())));
      REQUIRE(reinterpret_cast<uintptr_t>(blocks.back().memory) % 8 == 0);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      GiveBack(blocks.back());
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) GiveBack(block);
}

TEST_CASE("many blocks take little more memory than their size") {
  NodeMemory memory;
  std::vector<Block> blocks;
  for (int i = 0; i < 200'000; ++i) blocks.push_back(Take(&memory, 104, 'a'));
  CHECK(memory.bytes_reserved() < 104 * 200'000 * 1.01 + kChunkBytes);
  for (const Block& block : blocks) GiveBack(block);
}

TEST_CASE("freed blocks are used again, also for other sizes, or returned to the system") {
  NodeMemory memory;
  std::vector<Block> blocks;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 100'000; ++i) {
      blocks.push_back(Take(&memory, static_cast<size_t>(64 + 64 * round), 'b'));
    }
    CHECK(memory.bytes_reserved() > 2 * kChunkBytes);
    // Frees in another order, so that slabs become empty in the middle of their list.
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(2));
    for (const Block& block : blocks) GiveBack(block);
    blocks.clear();
    CHECK(memory.bytes_reserved() == kChunkBytes);
  }
}

TEST_CASE("Free finds the NodeMemory of a block") {
  NodeMemory memory;
  {
    NodeMemory other;
    const Block small = Take(&other, 8, 'c');
    const Block large = Take(&other, NodeMemory::kLargestBlock + 1, 'd');
    const size_t reserved = other.bytes_reserved();
    GiveBack(large);
    CHECK(other.bytes_reserved() == reserved - (NodeMemory::kLargestBlock + 1));
    GiveBack(small);
  }
  CHECK(memory.bytes_reserved() == 0);
}

}  // namespace
}  // namespace quorate::tree
