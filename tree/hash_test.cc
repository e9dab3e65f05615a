// SPDX-License-Identifier: Apache-2.0

// Tests the hash of names that clients choose.
#include "tree/hash.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::tree {
namespace {

TEST_CASE("HashName depends on the key, which clients do not know") {
  const uint64_t fixed = HashName("/locks/a");
  CHECK(HashName("/locks/a") == fixed);
  CHECK(HashName("/locks/b") != fixed);
  const TableKey before = table_key;
  std::string key(TableKey::kBytes, 'k');
  SetTableKey(key);
  const uint64_t first = HashName("/locks/a");
  CHECK(first != fixed);
  key.front() = 'l';
  key.back() = 'l';
  key[TableKey::kBytes / 2] = 'l';
  SetTableKey(key);
  CHECK(HashName("/locks/a") != fixed);
  table_key = before;
  CHECK(HashName("/locks/a") == fixed);
}

}  // namespace
}  // namespace quorate::tree
