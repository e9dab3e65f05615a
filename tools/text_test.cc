#include "tools/text.h"

#include <catch2/catch.hpp>

namespace quorate::tools {
namespace {

TEST_CASE("sizes and times are short") {
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

TEST_CASE("names that are meant are those with two letters changed, or that begin so") {
  const std::vector<std::string> names = {"status", "stat", "snapshot", "lock"};
  CHECK(SimilarNames("statsu", names) == std::vector<std::string>{"status", "stat"});
  CHECK(SimilarNames("snap", names) == std::vector<std::string>{"stat", "snapshot"});
  CHECK(SimilarNames("LOCK", names) == std::vector<std::string>{"lock"});
  CHECK(SimilarNames("backup", names).empty());
}

}  // namespace
}  // namespace quorate::tools
