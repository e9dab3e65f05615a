// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_sizes.h"

#include <catch2/catch.hpp>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

// A model of LogSizes that counts entry by entry.
class Model {
 public:
  explicit Model(uint64_t base) : base_(base) {}
  void Append(size_t bytes) { sizes_.push_back(bytes); }
  void TruncateAfter(uint64_t index) { sizes_.resize(index - base_); }
  void CompactTo(uint64_t index) {
    sizes_.erase(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(index - base_));
    base_ = index;
  }
  uint64_t base() const { return base_; }
  uint64_t last() const { return base_ + sizes_.size(); }
  uint64_t BytesAfter(uint64_t index) const {
    uint64_t bytes = 0;
    for (uint64_t i = std::max(index, base_); i < last(); ++i) bytes += sizes_[i - base_];
    return bytes;
  }

 private:
  uint64_t base_;
  std::vector<size_t> sizes_;
};

TEST_CASE("sizes are exact if each entry has a mark, however the log changes") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    TestRandom random(seed);
    const uint64_t base = random.Below(3) * 7;
    Model model(base);
    LogSizes sizes(Index{base}, {}, Index{base}, 1);
    for (int step = 0; step < 200; ++step) {
      const uint64_t dice = random.Below(10);
      const uint64_t at = model.base() + random.Below(model.last() - model.base() + 1);
      if (dice < 7) {
        const size_t bytes = 1 + random.Below(100);
        model.Append(bytes);
        sizes.Append(bytes);
      } else if (dice == 7) {
        model.TruncateAfter(at);
        sizes.TruncateAfter(Index{at});
      } else if (dice == 8) {
        model.CompactTo(at);
        sizes.CompactTo(Index{at});
      }
      for (uint64_t i = model.base(); i <= model.last(); ++i) {
        REQUIRE(sizes.BytesAfter(Index{i}) == model.BytesAfter(i));
      }
      // Computes the first index after which at most that many bytes remain.
      const uint64_t most = random.Below(1000);
      uint64_t first = model.last();
      while (first > model.base() && model.BytesAfter(first - 1) <= most) --first;
      REQUIRE(sizes.FirstWithin(Index{model.last()}, most) == Index{first});
    }
  }
}

TEST_CASE("sizes between marks are interpolated, and the bound is respected") {
  // 100 entries of 10 bytes, of which only the sum is known at the start; then 100 of 1,000 bytes.
  LogSizes sizes(Index{50}, {{Index{150}, 1000}}, Index{150}, 500);
  for (int i = 0; i < 100; ++i) sizes.Append(1000);
  CHECK(sizes.BytesAfter(Index{50}) == 101000);
  CHECK(sizes.BytesAfter(Index{100}) == 100500);
  CHECK(sizes.BytesAfter(Index{200}) == 50000);
  for (const uint64_t most : {0, 999, 20500, 100300, 100990}) {
    const Index first = sizes.FirstWithin(Index{250}, most);
    CHECK(sizes.BytesAfter(first) <= most);
    CHECK(sizes.BytesAfter(first - 1) > most);
  }
  CHECK(sizes.FirstWithin(Index{250}, 200000) == Index{50});
  // The end is not the last entry here.
  CHECK(sizes.FirstWithin(Index{150}, 300) == Index{120});
}

}  // namespace
}  // namespace quorate::consensus
