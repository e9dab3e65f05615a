// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/entry_cache.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

Entry Make(Index index, size_t payload_bytes) {
  return {index, Term{1}, EntryKind::kCommand, Slice(std::string(payload_bytes, 'x'))};
}

TEST_CASE("an entry cache returns the same as a list of entries") {
  TestRandom random(2);
  for (int run = 0; run < 100; ++run) {
    EntryCache cache(Index{10});
    Index first{11};
    std::vector<Entry> model;
    for (int step = 0; step < 60; ++step) {
      const Index last = first + model.size() - 1;
      switch (random.Below(4)) {
        case 0:
        case 1:
          model.push_back(Make(last + 1, random.Below(50)));
          cache.Append(model.back());
          break;
        case 2: {
          const Index to = last - random.Below(std::min<uint64_t>(last.value(), 5));
          cache.TruncateAfter(to);
          if (to < first) first = to + 1;
          model.resize(to + 1 - first);
          break;
        }
        case 3: {
          const size_t bytes_max = random.Below(400);
          const Index limit{random.Below(last.value() + 2)};
          cache.Trim(limit, bytes_max);
          size_t bytes = 0;
          for (const Entry& entry : model) bytes += entry.ByteSize();
          while (!model.empty() && first <= limit && bytes > bytes_max) {
            bytes -= model.front().ByteSize();
            model.erase(model.begin());
            ++first;
          }
          break;
        }
      }
      REQUIRE(cache.first_index() == first);
      REQUIRE(cache.last_index() == first + model.size() - 1);
      size_t bytes = 0;
      for (size_t i = model.size(); i > 0; --i) {
        REQUIRE(cache.BytesAfter(first + (i - 1)) == bytes);
        REQUIRE(cache.At(first + (i - 1)) == model[i - 1]);
        bytes += model[i - 1].ByteSize();
      }
      REQUIRE(cache.ByteSize() == bytes);
      REQUIRE_FALSE(cache.Has(first - 1));
    }
  }
}

TEST_CASE("Collect returns as many entries as fit, at least one, and shares the payloads") {
  EntryCache cache(Index{0});
  for (uint64_t i = 1; i <= 4; ++i) cache.Append(Make(Index{i}, 60));  // 100 bytes each
  auto count = [&](uint64_t first, uint64_t last, size_t bytes_max) {
    return cache.Collect(Index{first}, Index{last}, bytes_max).size();
  };
  CHECK(count(1, 4, 1) == 1);
  CHECK(count(1, 4, 199) == 1);
  CHECK(count(1, 4, 200) == 2);
  CHECK(count(2, 4, 1000) == 3);
  CHECK(count(2, 3, 1000) == 2);
  CHECK(cache.Collect(Index{3}, Index{3}, 1)[0].payload.data() ==
        cache.At(Index{3}).payload.data());
}

}  // namespace
}  // namespace quorate::consensus
