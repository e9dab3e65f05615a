// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/current_context.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

std::string PemOf(const TestIdentity& identity) {
  return ToPem(identity.key.get()) + ToPem(identity.certificate.get());
}

// Replaces a file at once, as whoever renews a certificate does.
void Replace(const std::string& path, const std::string& content) {
  const std::string made = WriteTestFile("new", content);
  REQUIRE(std::rename(made.c_str(), path.c_str()) == 0);
}

TEST_CASE("changed stores are read again, and unusable ones leave the context as it was") {
  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity first = MakeIdentity({.common_name = "first", .issuer = &ca});
  const TestIdentity second = MakeIdentity({.common_name = "second", .issuer = &ca});
  Options options;
  options.key_store.location = WriteTestFile("server.pem", PemOf(first));
  options.client_auth = ClientAuth::kNone;
  const auto current = CurrentContext::Create(options, /*reloads=*/false);
  REQUIRE(current.ok());
  const std::shared_ptr<const Context> before = (*current)->Get();
  CHECK_FALSE((*current)->Refresh());
  CHECK((*current)->Get() == before);

  Replace(options.key_store.location, "-----BEGIN PRIVATE KEY-----\n");
  CHECK_FALSE((*current)->Refresh());
  CHECK((*current)->Get() == before);
  Replace(options.key_store.location, PemOf(second));
  CHECK((*current)->Refresh());
  const std::shared_ptr<const Context> after = (*current)->Get();
  CHECK(after != before);
  const Context::SslPtr ssl = after->NewServer();
  CHECK(X509_cmp(SSL_get_certificate(ssl.get()), second.certificate.get()) == 0);
  CHECK_FALSE((*current)->Refresh());
}

TEST_CASE("changed stores that could not be read are tried again without another change") {
  Options options;
  options.key_store.location =
      WriteTestFile("tried.pem", PemOf(MakeIdentity({.common_name = "first"})));
  options.client_auth = ClientAuth::kNone;
  const auto current = CurrentContext::Create(options, /*reloads=*/false);
  REQUIRE(current.ok());
  Replace(options.key_store.location, PemOf(MakeIdentity({.common_name = "second"})));
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool is_read = (*current)->Refresh();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK_FALSE(is_read);
  CHECK((*current)->Refresh());
  CHECK_FALSE((*current)->Refresh());
}

TEST_CASE("a symbolic link that leads elsewhere counts as a change") {
  const TestIdentity one = MakeIdentity({.common_name = "one"});
  Options options;
  const std::string first = WriteTestFile("first.pem", PemOf(one));
  const std::string second = WriteTestFile("second.pem", PemOf(one));
  options.key_store.location = TestPath("link.pem");
  options.client_auth = ClientAuth::kNone;
  unlink(options.key_store.location.c_str());
  REQUIRE(symlink(first.c_str(), options.key_store.location.c_str()) == 0);
  const auto current = CurrentContext::Create(options, /*reloads=*/true);
  REQUIRE(current.ok());
  const std::string next = TestPath("next.pem");
  unlink(next.c_str());
  REQUIRE(symlink(second.c_str(), next.c_str()) == 0);
  const std::shared_ptr<const Context> before = (*current)->Get();
  REQUIRE(std::rename(next.c_str(), options.key_store.location.c_str()) == 0);
  // The thread of the object sees it by itself, within seconds.
  while ((*current)->Get() == before) usleep(10'000);
}

TEST_CASE("a list of revoked certificates that a certificate names is read again when it changes") {
  const std::string path = TestPath("named.crl");
  const TestIdentity ca = MakeIdentity(
      {.common_name = "ca", .is_ca = true, .distribution_points = "URI:file://" + path});
  Options options;
  options.key_store.location = WriteTestFile("named.pem", PemOf(ca));
  options.trust_store.location = WriteTestFile("named-ca.pem", ToPem(ca.certificate.get()));
  options.check_revocation = true;
  const std::string list = ToPem(MakeRevocationList(ca, {}).get());
  WriteTestFile("named.crl", list);
  const auto current = CurrentContext::Create(options, /*reloads=*/false);
  REQUIRE(current.ok());
  CHECK_FALSE((*current)->Refresh());
  WriteTestFile("named.crl", list + list);
  CHECK((*current)->Refresh());
  CHECK_FALSE((*current)->Refresh());
  const std::shared_ptr<const Context> before = (*current)->Get();
  WriteTestFile("named.crl", "nothing");
  CHECK_FALSE((*current)->Refresh());
  CHECK((*current)->Get() == before);
  WriteTestFile("named.crl", list);
  CHECK((*current)->Refresh());
  CHECK((*current)->Get() != before);
}

TEST_CASE("without a usable store there is no context") {
  Options options;
  options.key_store.location = TestPath("missing.pem");
  CHECK_FALSE(CurrentContext::Create(options, /*reloads=*/false).ok());
}

}  // namespace
}  // namespace quorate::rpc::tls
