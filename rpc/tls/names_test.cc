// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/names.h"

#include <catch2/catch.hpp>
#include <string>

#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

// Returns whether a certificate with this subjectAltName, common name and extendedKeyUsage is for
// `host`.
bool Fits(const std::string& names, const std::string& host, const std::string& common_name = "cn",
          const std::string& usage = "") {
  const TestIdentity identity =
      MakeIdentity({.common_name = common_name, .names = names, .usage = usage});
  return NameProblem(identity.certificate.get(), host).empty();
}

TEST_CASE("a certificate is for the names in its subjectAltName") {
  CHECK(Fits("DNS:a.example.com,DNS:b.example.com", "b.example.com"));
  CHECK(Fits("DNS:a.example.com", "A.Example.COM"));
  CHECK(Fits("DNS:a.example.com", "a.example.com."));
  CHECK_FALSE(Fits("DNS:a.example.com", "b.example.com"));
  CHECK_FALSE(Fits("DNS:a.example.com", "example.com"));
  CHECK_FALSE(Fits("DNS:a.example.com", "x.a.example.com"));
  CHECK_FALSE(Fits("DNS:a.example.com", ""));
}

TEST_CASE("an asterisk stands for one whole label") {
  CHECK(Fits("DNS:*.example.com", "a.example.com"));
  CHECK_FALSE(Fits("DNS:*.example.com", "example.com"));
  CHECK_FALSE(Fits("DNS:*.example.com", "a.b.example.com"));
  CHECK_FALSE(Fits("DNS:a*.example.com", "ab.example.com"));
  CHECK_FALSE(Fits("DNS:*", "localhost"));
  // An address is no name.
  CHECK_FALSE(Fits("DNS:*.0.0.1", "127.0.0.1"));
}

TEST_CASE("an address has to be an address of the certificate") {
  CHECK(Fits("IP:10.0.0.1,IP:10.0.0.2", "10.0.0.2"));
  CHECK(Fits("IP:2001:db8::1", "2001:db8:0::1"));
  CHECK_FALSE(Fits("IP:10.0.0.1", "10.0.0.2"));
  CHECK_FALSE(Fits("DNS:10.0.0.1", "10.0.0.1"));
  CHECK_FALSE(Fits("", "10.0.0.1", "10.0.0.1"));
}

TEST_CASE("the common name counts only if there is no subjectAltName") {
  CHECK(Fits("", "a.example.com", "a.example.com"));
  CHECK(Fits("email:a@example.com", "a.example.com", "a.example.com"));
  CHECK_FALSE(Fits("DNS:b.example.com", "a.example.com", "a.example.com"));
  CHECK_FALSE(Fits("IP:10.0.0.1", "a.example.com", "a.example.com"));
}

TEST_CASE("the common name of a client's certificate does not count") {
  const std::string host = "a.example.com";
  CHECK(Fits("", host, host, "serverAuth"));
  CHECK(Fits("", host, host, "serverAuth,clientAuth"));
  CHECK_FALSE(Fits("", host, host, "clientAuth"));
  CHECK(Fits("DNS:a.example.com", host, "cn", "clientAuth"));
}

TEST_CASE("the problem has the subject, the host and the names of the certificate") {
  const TestIdentity identity =
      MakeIdentity({.common_name = "one", .names = "DNS:a.example.com,IP:10.0.0.1,IP:::1"});
  CHECK(NameProblem(identity.certificate.get(), "two") ==
        "the certificate CN=one,O=Example,C=US is not for the host two, but for a.example.com, "
        "10.0.0.1, ::1");
  const TestIdentity without = MakeIdentity({.common_name = "one"});
  CHECK(NameProblem(without.certificate.get(), "two") ==
        "the certificate CN=one,O=Example,C=US is not for the host two, but for no name in its "
        "subjectAltName");
}

}  // namespace
}  // namespace quorate::rpc::tls
