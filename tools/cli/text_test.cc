// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/text.h"

#include <catch2/catch.hpp>

namespace quorate::tools {
namespace {

TEST_CASE("sizes and times are printed in suitable units") {
  CHECK(Bytes(0) == "0 B");
  CHECK(Bytes(1023) == "1023 B");
  CHECK(Bytes(1536) == "1.5 KiB");
  CHECK(Bytes(1023 * 1024) == "1.0 MiB");
  CHECK(Bytes(uint64_t{200} << 30) == "200 GiB");
  CHECK(Duration(0) == "0 s");
  CHECK(Duration(61'000) == "1 min 1 s");
  CHECK(Duration(3'600'000) == "1 h 0 min");
  CHECK(Duration(90'000'000) == "1 d 1 h");
  CHECK(Hex(255) == "0xff");
  CHECK(HexBytes(std::string("\0\xff", 2)) == "00ff");
}

TEST_CASE("columns are as wide as their widest cell, and no line ends in spaces") {
  CHECK(Table({{"a", "bb"}, {"ccc", "d"}, {"e"}}) == "a    bb\nccc  d\ne\n");
}

TEST_CASE("a cell cannot begin a line, or act on a terminal") {
  CHECK(Table({{"a\nforged", "b\x1b[2J\t"}, {"c", "d"}}) ==
        "a\\nforged  b\\x1b[2J\\t\nc          d\n");
}

}  // namespace
}  // namespace quorate::tools
