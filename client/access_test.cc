// SPDX-License-Identifier: Apache-2.0

#include "client/access.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace quorate::internal {
namespace {

std::string ProblemOf(const absl::StatusOr<Access>& access) {
  return std::string(access.status().message());
}

TEST_CASE("the first token of a file is taken, without its name") {
  CHECK(*ParseToken("# ours\n\n  ops:0123456789abcdef \nother\n") == "0123456789abcdef");
  CHECK(*ParseToken("0123456789abcdef") == "0123456789abcdef");
  CHECK_FALSE(ParseToken("# none\n").ok());
  CHECK_FALSE(ParseToken("ops:\n").ok());
  const auto bad = ParseToken("secret token\n");
  REQUIRE_FALSE(bad.ok());
  CHECK(std::string(bad.status().message()).find("secret") == std::string::npos);
}

TEST_CASE("servers on this machine are told from others") {
  for (const char* address : {"127.0.0.1:1", "127.3.2.1:1", "localhost:1", "[::1]:1", "unix:/s"}) {
    CHECK(IsOnThisMachine(address));
  }
  for (const char* address : {"10.0.0.1:1", "127.example.org:1", "example:1", "[::2]:1"}) {
    CHECK_FALSE(IsOnThisMachine(address));
  }
}

TEST_CASE("a token is not sent unencrypted to another machine, nor taken from a public file") {
  std::string path = "/tmp/quorate-token-XXXXXX";
  const int descriptor = mkstemp(path.data());
  REQUIRE(descriptor >= 0);
  close(descriptor);
  std::ofstream(path) << "0123456789abcdef\n";
  CHECK(Access::Load({}, {.file = path}, {"127.0.0.1:1", "unix:/s"}).ok());
  CHECK(ProblemOf(Access::Load({}, {.file = path}, {"127.0.0.1:1", "10.0.0.1:1"}))
            .find("unencrypted to 10.0.0.1:1") != std::string::npos);
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK(ProblemOf(Access::Load({}, {.file = path}, {"127.0.0.1:1"})).find("chmod 600") !=
        std::string::npos);
  std::remove(path.c_str());
  CHECK(ProblemOf(Access::Load({}, {.file = path}, {"127.0.0.1:1"})).find("cannot be read") !=
        std::string::npos);
  CHECK(Access::Load({}, {}, {"10.0.0.1:1"}).ok());
}

TEST_CASE("a token that is given itself is checked as one of a file is") {
  const std::vector<std::string> here = {"127.0.0.1:1"};
  CHECK(Access::Load({}, {.token = "0123456789abcdef"}, here).ok());
  CHECK(ProblemOf(Access::Load({}, {.token = "0123456789abcdef"}, {"10.0.0.1:1"}))
            .find("unencrypted to 10.0.0.1:1") != std::string::npos);
  const std::string bad = ProblemOf(Access::Load({}, {.token = "secret\ntoken"}, here));
  CHECK(bad.find("printable") != std::string::npos);
  CHECK(bad.find("secret") == std::string::npos);
  CHECK(ProblemOf(Access::Load({}, {.token = "secret", .file = "/f"}, here)).find("not both") !=
        std::string::npos);
}

}  // namespace
}  // namespace quorate::internal
