// SPDX-License-Identifier: Apache-2.0

#include "tree/node_paths.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::tree {
namespace {

NodeRecord Record(int64_t czxid, int64_t parent, std::string_view name, uint32_t children) {
  NodeRecord record;
  record.key = {Zxid(czxid), 0};
  record.parent = {Zxid(parent), 0};
  record.name = name;
  record.children = children;
  return record;
}

// Returns the path, or the error.
std::string Add(NodePaths* paths, const NodeRecord& record) {
  std::string path;
  const absl::Status status = paths->Add(record, &path);
  return status.ok() ? path : std::string(status.message());
}

}  // namespace

TEST_CASE("each znode has its path") {
  NodePaths paths;
  CHECK(Add(&paths, Record(0, 0, "", 2)) == "/");
  CHECK(Add(&paths, Record(1, 0, "a", 2)) == "/a");
  CHECK(Add(&paths, Record(2, 1, "b", 1)) == "/a/b");
  CHECK(Add(&paths, Record(3, 2, "c", 0)) == "/a/b/c");
  CHECK(Add(&paths, Record(4, 0, "d", 0)) == "/d");
  CHECK(Add(&paths, Record(5, 1, "e", 0)) == "/a/e");
}

TEST_CASE("only what later znodes need is kept") {
  NodePaths paths;
  Add(&paths, Record(0, 0, "", 1));
  // A chain: the names of all znodes above the last one are kept, and no path.
  constexpr int64_t kDepth = 1000;
  for (int64_t i = 1; i < kDepth; ++i) Add(&paths, Record(i, i - 1, "n", 1));
  CHECK(paths.kept() == kDepth);
  CHECK(Add(&paths, Record(kDepth, kDepth - 1, "n", 0)).size() == 2 * kDepth);
  CHECK(paths.kept() == 0);
}

TEST_CASE("a znode without a parent is refused") {
  NodePaths paths;
  Add(&paths, Record(0, 0, "", 1));
  CHECK_THAT(Add(&paths, Record(2, 1, "b", 0)), Catch::Contains("named b has no parent"));
  Add(&paths, Record(3, 0, "c", 1));
  // The root has one child, as its record says, although its name is still needed.
  CHECK_THAT(Add(&paths, Record(4, 0, "d", 0)), Catch::Contains("named d has no parent"));
}

}  // namespace quorate::tree
