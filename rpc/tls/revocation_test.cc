// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/revocation.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

using Catch::Matchers::Contains;

TestIdentity WithPoints(const std::string& points) {
  return MakeIdentity({.common_name = "app", .distribution_points = points});
}

TEST_CASE("files that certificates name as distribution points are found, each once") {
  const TestIdentity plain = MakeIdentity({.common_name = "plain"});
  const TestIdentity one = WithPoints(
      "URI:http://ca.example/ca.crl,URI:file:///etc/pki/ca.crl,URI:FILE:/etc/pki/b.crl,"
      "DNS:ca.example");
  const TestIdentity two =
      WithPoints("URI:file://localhost/etc/pki/c.crl,URI:file:///etc/pki/ca.crl");
  std::vector<std::string> warnings;
  CHECK(ListFilesOf({plain.certificate.get(), one.certificate.get(), two.certificate.get()},
                    &warnings) ==
        std::vector<std::string>{"/etc/pki/ca.crl", "/etc/pki/b.crl", "/etc/pki/c.crl"});
  CHECK(warnings.empty());
}

TEST_CASE("URLs of files that are not understood are skipped with a warning") {
  const std::string url =
      GENERATE(as<std::string>{}, "file://ca.example/ca.crl", "file:ca.crl", "file:///a%20b.crl",
               "file:////ca.example/ca.crl", "file:///a.crl?b", "file:");
  const TestIdentity identity = WithPoints("URI:" + url);
  std::vector<std::string> warnings;
  CHECK(ListFilesOf({identity.certificate.get()}, &warnings).empty());
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains(url));
}

TEST_CASE("certificates cannot make the server read any number of files") {
  std::string points;
  for (size_t i = 0; i <= kListFilesMax; ++i) {
    absl::StrAppend(&points, i == 0 ? "" : ",", "URI:file:///", i);
  }
  const TestIdentity identity = WithPoints(points);
  std::vector<std::string> warnings;
  CHECK(ListFilesOf({identity.certificate.get()}, &warnings).size() == kListFilesMax);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("65 files"));
}

}  // namespace
}  // namespace quorate::rpc::tls
