// SPDX-License-Identifier: Apache-2.0

#include "client/presented_credentials.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/proto/credentials.h"

namespace quorate::internal {
namespace {

using Texts = std::vector<std::string>;

std::string Digest(const std::string& secret) { return v1::CredentialText("digest", secret); }

TEST_CASE("only confirmed credentials are presented, once each and in order") {
  PresentedCredentials credentials;
  REQUIRE(credentials.Reserve(Digest("a:b")).ok());
  REQUIRE(credentials.Reserve(Digest("user:pass")).ok());
  REQUIRE(credentials.Reserve(Digest("a:b")).ok());
  CHECK(credentials.Texts().empty());
  credentials.Confirm(Digest("user:pass"));
  CHECK(credentials.Texts() == Texts{"digest dXNlcjpwYXNz"});
  credentials.Confirm(Digest("a:b"));
  credentials.Withdraw(Digest("a:b"));
  CHECK(credentials.Texts() == Texts{"digest YTpi", "digest dXNlcjpwYXNz"});
}

TEST_CASE("a credential takes space until it is withdrawn") {
  PresentedCredentials credentials;
  for (int i = 0; i < 128; ++i) {
    REQUIRE(credentials.Reserve(Digest("user:" + std::to_string(i))).ok());
  }
  CHECK(credentials.Reserve(Digest("user:5")).ok());
  const absl::Status refused = credentials.Reserve(Digest("user:secret"));
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(refused.message().find("secret") == absl::string_view::npos);
  credentials.Withdraw(Digest("user:5"));
  CHECK(credentials.Reserve(Digest("user:secret")).code() == absl::StatusCode::kResourceExhausted);
  credentials.Withdraw(Digest("user:5"));
  CHECK(credentials.Reserve(Digest("user:secret")).ok());

  PresentedCredentials large;
  // 12,282 bytes are 16,376 characters of base64; with "digest ", one fewer than the limit.
  REQUIRE(large.Reserve(Digest(std::string(12'282, 'x'))).ok());
  CHECK(large.Reserve("a ").code() == absl::StatusCode::kResourceExhausted);
  large.Withdraw(Digest(std::string(12'282, 'x')));
  CHECK(large.Reserve("a ").ok());
}

}  // namespace
}  // namespace quorate::internal
