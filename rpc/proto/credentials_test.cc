// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/credentials.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "rpc/proto/errors.h"

namespace quorate::v1 {
namespace {

absl::StatusOr<std::vector<Credential>> Parse(const std::vector<std::string>& values) {
  const std::vector<std::string_view> views(values.begin(), values.end());
  return ParseCredentials(views);
}

ErrorCode CodeOfParse(const std::vector<std::string>& values) {
  const auto parsed = Parse(values);
  REQUIRE_FALSE(parsed.ok());
  const auto detail = DetailOf(parsed.status());
  REQUIRE(detail.has_value());
  return detail->code();
}

TEST_CASE("a credential is a scheme and a secret in base64") {
  const auto parsed = Parse({"digest dXNlcjpwYXNz", "digest YTpi", "x "});
  REQUIRE(parsed.ok());
  REQUIRE(parsed->size() == 3);
  CHECK((*parsed)[0].scheme() == "digest");
  CHECK((*parsed)[0].secret() == "user:pass");
  CHECK((*parsed)[1].secret() == "a:b");
  CHECK((*parsed)[2].secret().empty());
  CHECK(Parse({})->empty());
  const std::string bytes("\0\xFF:\n", 4);
  CHECK((*Parse({CredentialText("digest", bytes)}))[0].secret() == bytes);
}

TEST_CASE("a credential of another form is refused, and the message has nothing of it") {
  for (const char* value :
       {"", "digest", "digestdXNlcjpwYXNz", " dXNlcjpwYXNz", "digest  dXNlcjpwYXNz",
        "digest dXNlcjpwYXNz ", "digest dXNlcjpwYXN", "digest dXNlcjpwYX N", "digest YTpi\n",
        "digest dXNlcjpwYQ", "digest dXNlcjpwYR==", "digest user:pass", "Digest dXNlcjpwYXNz",
        "di-gest dXNlcjpwYXNz", "digest _-8="}) {
    CAPTURE(value);
    const auto parsed = Parse({"digest YTpi", value});
    REQUIRE_FALSE(parsed.ok());
    CHECK(DetailOf(parsed.status())->code() == ERROR_CODE_BAD_ARGUMENTS);
    CHECK(absl::StrContains(parsed.status().message(), "the value 2 of the metadata"));
    CHECK_FALSE(absl::StrContains(parsed.status().message(), "dXNl"));
    CHECK_FALSE(absl::StrContains(parsed.status().message(), "user"));
  }
  CHECK(CodeOfParse({std::string(33, 'a') + " YTpi"}) == ERROR_CODE_BAD_ARGUMENTS);
  CHECK(Parse({std::string(32, 'a') + " YTpi"}).ok());
}

TEST_CASE("values that were joined with commas count one by one") {
  const auto parsed = Parse({"digest dXNlcjpwYXNz,digest YTpi, x ,x ", "digest YTpi"});
  REQUIRE(parsed.ok());
  REQUIRE(parsed->size() == 5);
  CHECK((*parsed)[0].secret() == "user:pass");
  CHECK((*parsed)[1].secret() == "a:b");
  CHECK((*parsed)[2].scheme() == "x");
  CHECK((*parsed)[4].secret() == "a:b");
  for (const char* wrong : {",", "digest YTpi,", ",digest YTpi", "digest YTpi,  x ", "x , ,x "}) {
    CAPTURE(wrong);
    CHECK(CodeOfParse({wrong}) == ERROR_CODE_BAD_ARGUMENTS);
  }
  CHECK(absl::StrContains(Parse({"x ,x ,dXNl"}).status().message(), "the value 3"));
  std::string many = "x ";
  for (size_t i = 1; i < kCredentialsMax; ++i) many += ",x ";
  CHECK(Parse({many})->size() == kCredentialsMax);
  CHECK(CodeOfParse({many, "x "}) == ERROR_CODE_AUTH_FAILED);
  CHECK(CodeOfParse({many + ",x "}) == ERROR_CODE_AUTH_FAILED);
}

TEST_CASE("the credentials of a call are limited in number and in bytes") {
  std::vector<std::string> many(kCredentialsMax, "digest YTpi");
  CHECK(Parse(many).ok());
  many.emplace_back("digest YTpi");
  CHECK(CodeOfParse(many) == ERROR_CODE_AUTH_FAILED);
  // "digest " and 16,376 characters of base64.
  std::string long_text = CredentialText("digest", std::string(12'282, 'x'));
  REQUIRE(long_text.size() == kCredentialBytesMax - 1);
  CHECK(Parse({long_text}).ok());
  CHECK(CodeOfParse({long_text, "a "}) == ERROR_CODE_AUTH_FAILED);
}

}  // namespace
}  // namespace quorate::v1
