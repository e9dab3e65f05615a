// SPDX-License-Identifier: Apache-2.0

#include "tree/znode.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "tree/sequence.h"

namespace quorate::tree {
namespace {

std::string Sequence(int32_t sequence) {
  std::string path = "/n-";
  AppendSequence(sequence, &path);
  return path;
}

TEST_CASE("sequence numbers have ten characters, including the sign") {
  CHECK(Sequence(0) == "/n-0000000000");
  CHECK(Sequence(42) == "/n-0000000042");
  CHECK(Sequence(2147483647) == "/n-2147483647");
  CHECK(Sequence(-2147483647 - 1) == "/n--2147483648");
  CHECK(Sequence(-1) == "/n--000000001");
  CHECK(Sequence(-123456789) == "/n--123456789");
}

TEST_CASE("cversion is creates plus deletes, and wraps around") {
  NodeMemory memory;
  Znode* parent = Znode::New(&memory, nullptr, "", kNoSession);
  Znode* child = Znode::New(&memory, parent, "c", kNoSession);
  ZnodeExtra& extra = parent->Extend(&memory);
  extra.children.Insert(child);
  extra.created_children = 5;
  CHECK(parent->ToStat().cversion == 9);
  CHECK(parent->ToStat().num_children == 1);
  extra.created_children = std::numeric_limits<int32_t>::max();
  CHECK(parent->ToStat().cversion == -3);
  extra.created_children = std::numeric_limits<int32_t>::min();
  CHECK(parent->ToStat().cversion == -1);
  Znode::Delete(child);
  Znode::Delete(parent);
}

TEST_CASE("the path of a node consists of the names from the root to it") {
  NodeMemory memory;
  Znode* root = Znode::New(&memory, nullptr, "", kNoSession);
  Znode* a = Znode::New(&memory, root, "a", kNoSession);
  Znode* leaf = Znode::New(&memory, a, "leaf", SessionId(7));
  CHECK(root->Path() == "/");
  CHECK(a->Path() == "/a");
  CHECK(leaf->Path() == "/a/leaf");
  CHECK(leaf->is_ephemeral());
  CHECK(leaf->children().empty());
  CHECK(leaf->ToStat().ephemeral_owner == SessionId(7));
  for (Znode* node : {leaf, a, root}) Znode::Delete(node);
}

TEST_CASE("null data and empty data differ") {
  NodeMemory memory;
  ZnodeData data;
  CHECK_FALSE(data.has_data());
  data.Set(&memory, true, "");
  CHECK(data.has_data());
  CHECK(data.size() == 0);
  data.Set(&memory, true, "abc");
  CHECK(data.view() == "abc");
  ZnodeData other;
  data.Swap(&other);
  CHECK_FALSE(data.has_data());
  CHECK(other.view() == "abc");
  other.Clear();
  CHECK_FALSE(other.has_data());
}

}  // namespace
}  // namespace quorate::tree
