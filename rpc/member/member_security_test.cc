// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/member_security.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <string>

#include "rpc/member/testing/captured_log.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc {
namespace {

using Catch::Contains;
using tls::MakeIdentity;
using tls::TestIdentity;
using tls::ToPem;
using tls::WriteTestFile;

std::string SecretFile(const std::string& content, mode_t mode = 0600) {
  std::string path = WriteTestFile("secret", content);
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

std::string ProblemOf(const std::string& path) {
  const auto secret = ReadMemberSecret(path);
  return secret.ok() ? "" : std::string(secret.status().message());
}

TEST_CASE("a secret is the content of its file without the last newline") {
  CHECK(*ReadMemberSecret(SecretFile("0123456789abcdef\n")) == "0123456789abcdef");
  CHECK(*ReadMemberSecret(SecretFile("0123456789abcdef", 0400)) == "0123456789abcdef");
  const std::string longest(kMemberSecretBytesMax, 'x');
  CHECK(*ReadMemberSecret(SecretFile(longest + "\n")) == longest);
}

TEST_CASE("a file of a secret that others may read, or that holds none, is refused") {
  const std::string path = SecretFile("0123456789abcdef\n", 0640);
  CHECK(ProblemOf(path) ==
        path + ": others than its owner may use it (mode 640); chmod 600 " + path);
  for (const mode_t mode : {0604, 0610, 0602}) {
    CHECK_THAT(ProblemOf(SecretFile("0123456789abcdef\n", mode)), Contains("chmod 600"));
  }
  CHECK_THAT(ProblemOf(SecretFile("0123456789abcde\n")), Contains("has only 15 bytes"));
  CHECK_THAT(ProblemOf(SecretFile(std::string(kMemberSecretBytesMax + 1, 'x'))),
             Contains("has more than 4096 bytes"));
  CHECK_THAT(ProblemOf("/dev/null"), Contains("it is not a file"));
  CHECK_THAT(ProblemOf("/no/such/file"), Contains("cannot be opened: No such file"));
}

// A configuration with a certificate for 127.0.0.1.
Config Sample(const std::string& names = "IP:127.0.0.1") {
  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity own = MakeIdentity({.common_name = "one", .issuer = &ca, .names = names});
  Config config;
  config.file = "zoo.cfg";
  config.servers[1].host = "127.0.0.1";
  config.servers[2].host = "127.0.0.1";
  config.quorum_ssl_key_store =
      WriteTestFile("own.pem", ToPem(own.key.get()) + ToPem(own.certificate.get()));
  config.quorum_ssl_trust_store = WriteTestFile("ca.pem", ToPem(ca.certificate.get()));
  config.quorum_ssl_client_auth = "need";
  return config;
}

TEST_CASE("the four combinations of sslQuorum and portUnification") {
  Config config = Sample();
  for (const bool connects : {false, true}) {
    for (const bool unified : {false, true}) {
      config.ssl_quorum = connects;
      config.peer_port_unification = unified;
      const auto security = MakePeerSecurity(config);
      REQUIRE(security.ok());
      CHECK(security->connects_with_tls == connects);
      CHECK(security->accepts_tls == (connects || unified));
      CHECK(security->accepts_plain == (!connects || unified));
      CHECK((security->tls != nullptr) == (connects || unified));
      CHECK_FALSE(security->requires_proof());
    }
  }
}

TEST_CASE("what cannot be used is an error with the file of the configuration and the key") {
  Config config = Sample();
  config.ssl_quorum = true;
  config.quorum_ssl_key_store = "/no/such/store";
  CHECK_THAT(std::string(MakePeerSecurity(config).status().message()),
             Contains("zoo.cfg: TLS between servers (ssl.quorum.*): cannot read /no/such/store"));
  config.ssl_quorum = false;
  config.member_secret_file = "/no/such/secret";
  CHECK_THAT(std::string(MakePeerSecurity(config).status().message()),
             Contains("zoo.cfg: memberSecretFile: /no/such/secret"));
  config.member_secret_file = SecretFile("0123456789abcdef\n");
  CHECK(MakePeerSecurity(config)->requires_proof());
  config.member_secret_required = false;
  CHECK_FALSE(MakePeerSecurity(config)->requires_proof());
}

TEST_CASE("settings that let others in are logged, and a certificate that others will refuse") {
  Config config = Sample();
  config.ssl_quorum = true;
  {
    const CapturedLog log;
    REQUIRE(MakePeerSecurity(config).ok());
    CHECK(log.Lines("").empty());
  }
  config.quorum_ssl_client_auth = "want";
  {
    const CapturedLog log;
    REQUIRE(MakePeerSecurity(config).ok());
    CHECK(log.Lines("ssl.quorum.clientAuth=want: who reaches").size() == 1);
  }
  config = Sample("DNS:other.example.com");
  config.ssl_quorum = true;
  const CapturedLog log;
  REQUIRE(MakePeerSecurity(config).ok());
  CHECK(log.Lines("other servers will refuse this one: the certificate CN=one").size() == 1);
  config.quorum_ssl_hostname_verification = false;
  REQUIRE(MakePeerSecurity(config).ok());
  CHECK(log.Lines("other servers will refuse this one").size() == 1);
}

}  // namespace
}  // namespace quorate::rpc
