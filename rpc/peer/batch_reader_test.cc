// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/batch_reader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace quorate::rpc {
namespace {

std::string OnTheWire(std::string_view batch) {
  std::string bytes(kBatchLengthBytes, '\0');
  StoreInt<std::endian::little>(bytes.data(), static_cast<uint32_t>(batch.size()));
  return bytes.append(batch);
}

// Gives `bytes` to `reader`, at most `step` at once. Returns the batches that it read.
std::vector<std::string> Feed(BatchReader* reader, std::string_view bytes, size_t step) {
  std::vector<std::string> batches;
  while (!bytes.empty()) {
    const std::span<char> space = reader->Space();
    REQUIRE(!space.empty());
    const size_t count = std::min({step, space.size(), bytes.size()});
    std::copy_n(bytes.data(), count, space.data());
    reader->Added(count);
    bytes.remove_prefix(count);
    for (;;) {
      auto batch = reader->Next();
      REQUIRE(batch.ok());
      if (*batch == nullptr) break;
      batches.push_back(**batch);
    }
  }
  return batches;
}

TEST_CASE("batches of all sizes come out however the bytes come") {
  std::vector<std::string> sent;
  std::string bytes;
  // The sizes include some around the size of the buffer.
  for (size_t size : {0u, 1u, 3u, 100u, 65530u, 65531u, 65532u, 65533u, 65536u, 200'000u, 5u, 0u}) {
    sent.emplace_back(size, static_cast<char>('a' + sent.size()));
    bytes += OnTheWire(sent.back());
  }
  const size_t step = GENERATE(1u, 2u, 5u, 1000u, 65536u, 1'000'000u);
  BatchReader reader(1u << 20);
  CHECK(Feed(&reader, bytes, step) == sent);
}

TEST_CASE("a batch that is too long is refused at its length") {
  BatchReader reader(10);
  CHECK(Feed(&reader, OnTheWire("0123456789"), 100) == std::vector<std::string>{"0123456789"});
  const std::string bytes = OnTheWire("0123456789a").substr(0, kBatchLengthBytes);
  std::copy(bytes.begin(), bytes.end(), reader.Space().data());
  reader.Added(bytes.size());
  const auto refused = reader.Next();
  CHECK(absl::IsInvalidArgument(refused.status()));
  CHECK(refused.status().ToString().find("11 bytes") != std::string::npos);
}

}  // namespace
}  // namespace quorate::rpc
