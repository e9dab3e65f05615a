// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/request_target.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::rpc::admin {
namespace {

TEST_CASE("a target is taken apart into its decoded path and parameters") {
  const auto target =
      ParseRequestTarget("/commands/a%20b+c?name[]=x&name%5B%5D=%C3%A4+y&flag&=empty&&k=v=w#frag");
  REQUIRE(target.ok());
  CHECK(target->path == "/commands/a b+c");
  REQUIRE(target->parameters.size() == 5);
  CHECK(target->parameters[0] == std::pair<std::string, std::string>("name[]", "x"));
  CHECK(target->parameters[1] == std::pair<std::string, std::string>("name[]", "\u00e4 y"));
  CHECK(target->parameters[2] == std::pair<std::string, std::string>("flag", ""));
  CHECK(target->parameters[3] == std::pair<std::string, std::string>("", "empty"));
  CHECK(target->Find("k") == "v=w");
  CHECK(target->Find("name[]") == "x");
  CHECK_FALSE(target->Find("none").has_value());
}

TEST_CASE("a target that could mean another path, or that cannot be shown, is refused") {
  for (const char* text : {"",        "commands", "http://host/commands",
                           "*",       "/a/../b",  "/a/%2e%2E/b",
                           "/./a",    "/..",      "/a/.",
                           "/%",      "/%1",      "/%g1",
                           "/%00",    "/a%0ab",   "/a\nb",
                           "/%ff",    "/?a=%",    "/?a=%zz",
                           "/?%00=a", "/?a=%c3"}) {
    INFO(text);
    CHECK_FALSE(ParseRequestTarget(text).ok());
  }
  for (const char* text : {"/", "/..a", "/a..", "/a.b", "/?", "/?..", "//a"}) {
    INFO(text);
    CHECK(ParseRequestTarget(text).ok());
  }
}

TEST_CASE("the length of a target and the number of its parameters are limited") {
  CHECK(ParseRequestTarget("/" + std::string(kTargetBytesMax - 1, 'a')).ok());
  CHECK_FALSE(ParseRequestTarget("/" + std::string(kTargetBytesMax, 'a')).ok());
  std::string text = "/?";
  for (size_t i = 0; i < kParametersMax; ++i) text += "a&";
  CHECK(ParseRequestTarget(text).ok());
  CHECK_FALSE(ParseRequestTarget(text + "a").ok());
}

}  // namespace
}  // namespace quorate::rpc::admin
