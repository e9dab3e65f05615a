// SPDX-License-Identifier: Apache-2.0

#include "tree/path.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::tree {
namespace {

TEST_CASE("legal paths") {
  for (std::string_view path :
       {"/", "/a", "/a/b", "/...", "/.a", "/a.", "/a/..b", "/ ", "/\xC2\xA0", "/\xC3\xA9",
        "/\xEF\xA4\x80", "/\xEF\xBF\xAF", "/\xE2\x82\xAC/x"}) {
    CAPTURE(path);
    CHECK(IsValidPath(path));
    CHECK(IsValidPath(path, /*sequential=*/true));
  }
}

TEST_CASE("illegal paths") {
  for (std::string_view path : {"",
                                "a",
                                "a/b",
                                "//",
                                "//a",
                                "/a//b",
                                "/./a",
                                "/../a",
                                "/a/./b",
                                "/a/../b",
                                "/\x01",
                                "/a\x1F",
                                "/\x7F",
                                "/\xC2\x80",          // U+0080
                                "/\xC2\x9F",          // U+009F
                                "/\xED\xA0\x80",      // a surrogate
                                "/\xEE\x80\x80",      // U+E000, private use
                                "/\xEF\xA3\xBF",      // U+F8FF
                                "/\xEF\xBF\xB0",      // U+FFF0
                                "/\xEF\xBF\xBF",      // U+FFFF
                                "/\xF0\x9F\x98\x80",  // above U+FFFF: surrogates in ZooKeeper
                                "/\x80",
                                "/\xC0\xAF",
                                "/\xC3",
                                "/\xE2\x82",
                                "/\xE0\x80\xAF",
                                "/\xFF"}) {
    CAPTURE(path);
    CHECK_FALSE(IsValidPath(path));
    CHECK_FALSE(IsValidPath(path, /*sequential=*/true));
  }
  CHECK_FALSE(IsValidPath(std::string_view("/a\0b", 4)));
}

TEST_CASE("a sequential path may end in a segment that the number makes legal") {
  for (std::string_view path : {"/a/", "/.", "/..", "/a/.", "/a/.."}) {
    CAPTURE(path);
    CHECK_FALSE(IsValidPath(path));
    CHECK(IsValidPath(path, /*sequential=*/true));
  }
}

TEST_CASE("ParentPath and LastSegment split a path") {
  CHECK(ParentPath("/a") == "/");
  CHECK(ParentPath("/a/b") == "/a");
  CHECK(ParentPath("/a/b/c") == "/a/b");
  CHECK(LastSegment("/a") == "a");
  CHECK(LastSegment("/a/bc") == "bc");
  CHECK(LastSegment("/") == "");
}

}  // namespace
}  // namespace quorate::tree
