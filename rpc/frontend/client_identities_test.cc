// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/client_identities.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/testing/manual_clock.h"

namespace quorate::rpc {
namespace {

std::string UserOf(size_t i) { return "user" + std::to_string(i) + ":x"; }

TEST_CASE(
    "a client may prove so many identities besides its address and those of the configuration") {
  Config config;
  ManualClock clock;
  FailureLimit failures(&clock, std::chrono::seconds(2));
  config.super_digest = DigestId("super:secret");
  for (const bool skip_acl : {false, true}) {
    config.skip_acl = skip_acl;
    ClientIdentities identities(config, "10.0.0.1");
    // The credentials of superDigest are one of them.
    REQUIRE(identities.AddDigest("super:secret", &failures).ok());
    for (size_t i = 1; i < ClientIdentities::kCountMax; ++i) {
      REQUIRE(identities.AddDigest(UserOf(i), &failures).ok());
    }
    CHECK(absl::IsResourceExhausted(identities.AddDigest(UserOf(0), &failures)));
    CHECK(identities.AddDigest(UserOf(1), &failures).ok());
    CHECK(identities.shown().size() == ClientIdentities::kCountMax + 2);
  }
}

TEST_CASE("credentials of the super user that were not looked at may be shown again") {
  Config config;
  ManualClock clock;
  FailureLimit failures(&clock, std::chrono::seconds(2));
  config.super_digest = DigestId("super:secret");
  ClientIdentities identities(config, "10.0.0.1");
  absl::Status added;
  for (int i = 0; i <= FailureLimit::kBurst; ++i)
    added = identities.AddDigest("super:guess", &failures);
  CHECK(absl::IsUnavailable(added));
  CHECK(absl::IsUnavailable(identities.AddDigest("super:secret", &failures)));
  clock.Advance(2000);
  CHECK(identities.AddDigest("super:secret", &failures).ok());
}

TEST_CASE("the events of one command share the copy of a list") {
  const std::vector<tree::Acl> a = {{31, {"digest", "a:x"}}};
  const std::vector<tree::Acl> b = {{31, {"digest", "b:x"}}};
  CommandReaders readers;
  const Readers first = readers.Of(tree::Zxid(5), a);
  REQUIRE(first != nullptr);
  CHECK(*first == a);
  const Readers second = readers.Of(tree::Zxid(5), b);
  CHECK(*second == b);
  CHECK(readers.Of(tree::Zxid(5), a) == first);
  CHECK(readers.Of(tree::Zxid(5), b) == second);
  CHECK(readers.Of(tree::Zxid(5), tree::OpenAcl()) == nullptr);
  // The tree may have freed the list, and another one may have its address.
  CHECK(readers.Of(tree::Zxid(6), b) != second);
  // No list admits nobody; so do none at all.
  CHECK((readers.Of(tree::Zxid(7), {}) == nullptr) == (ReadersOf({}) == nullptr));
}

}  // namespace
}  // namespace quorate::rpc
