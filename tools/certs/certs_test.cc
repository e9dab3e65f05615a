// SPDX-License-Identifier: Apache-2.0

#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "rpc/tls/stores.h"
#include "tools/certs/certificate_facts.h"
#include "tools/certs/directory.h"
#include "tools/certs/issuing.h"

namespace quorate::tools::certs {
namespace {

using rpc::tls::OpensslDeleter;

std::string TestPath(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// Returns OpenSSL's verdict on a certificate, for connections to which it is shown by the side
// `purpose`; X509_V_OK if it is good.
int Verify(const X509* certificate, const Identity& authority, int purpose,
           const X509* between = nullptr) {
  const std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>> store(X509_STORE_new());
  REQUIRE(X509_STORE_add_cert(store.get(), authority.certificate.get()) == 1);
  STACK_OF(X509)* chain = sk_X509_new_null();
  if (between != nullptr) sk_X509_push(chain, const_cast<X509*>(between));
  const std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  REQUIRE(X509_STORE_CTX_init(context.get(), store.get(), const_cast<X509*>(certificate), chain) ==
          1);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context.get()), X509_V_FLAG_X509_STRICT);
  X509_verify_cert(context.get());
  const int verdict = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(chain);
  return verdict;
}

Identity Authority(int days = 10) {
  auto made = MakeAuthority(days);
  REQUIRE(made.ok());
  return *std::move(made);
}

TEST_CASE("a member's certificate is good for both sides, and for its names alone") {
  const Identity authority = Authority();
  const auto member =
      MakeMember(authority, {"zk1.example.com", "10.0.0.1", "fd00::1", "*.example.org"}, 5);
  REQUIRE(member.ok());
  X509* certificate = member->certificate.get();
  CHECK(Verify(certificate, authority, X509_PURPOSE_SSL_SERVER) == X509_V_OK);
  CHECK(Verify(certificate, authority, X509_PURPOSE_SSL_CLIENT) == X509_V_OK);
  CHECK(X509_check_private_key(certificate, member->key.get()) == 1);
  CHECK(X509_check_host(certificate, "zk1.example.com", 0, 0, nullptr) == 1);
  CHECK(X509_check_host(certificate, "any.example.org", 0, 0, nullptr) == 1);
  CHECK(X509_check_host(certificate, "zk2.example.com", 0, 0, nullptr) == 0);
  CHECK(X509_check_ip_asc(certificate, "10.0.0.1", 0) == 1);
  CHECK(X509_check_ip_asc(certificate, "fd00:0::1", 0) == 1);
  CHECK(X509_check_ip_asc(certificate, "10.0.0.2", 0) == 0);

  const CertificateFacts facts = FactsOf(certificate);
  CHECK(facts.subject == "CN=zk1.example.com");
  CHECK(facts.names == std::vector<std::string>{"DNS:zk1.example.com", "IP:10.0.0.1", "IP:fd00::1",
                                                "DNS:*.example.org"});
  CHECK(facts.uses == std::vector<std::string>{"server", "client"});
  CHECK(facts.key == "EC P-256");
  const int64_t end_s = std::time(nullptr) + int64_t{5} * 86400;
  CHECK(facts.ends_s <= end_s);
  CHECK(facts.ends_s > end_s - 60);
  CHECK(facts.starts_s < std::time(nullptr) - 200);
  // The certificate of another CA is not good, although it looks alike.
  CHECK(Verify(certificate, Authority(), X509_PURPOSE_SSL_SERVER) != X509_V_OK);
}

TEST_CASE("a client's certificate is not that of a server") {
  const Identity authority = Authority();
  const auto client = MakeClient(authority, "alice@example.com", 5);
  REQUIRE(client.ok());
  CHECK(Verify(client->certificate.get(), authority, X509_PURPOSE_SSL_CLIENT) == X509_V_OK);
  CHECK(Verify(client->certificate.get(), authority, X509_PURPOSE_SSL_SERVER) ==
        X509_V_ERR_INVALID_PURPOSE);
  CHECK(FactsOf(client->certificate.get()).subject == "CN=alice@example.com");
  CHECK(FactsOf(client->certificate.get()).uses == std::vector<std::string>{"client"});
}

TEST_CASE("nothing that the CA signs can sign, and the CA makes no other CA") {
  const Identity authority = Authority();
  CHECK(FactsOf(authority.certificate.get()).uses == std::vector<std::string>{"CA"});
  CHECK(X509_get_pathlen(authority.certificate.get()) == 0);
  const auto member = MakeMember(authority, {"zk1"}, 5);
  REQUIRE(member.ok());
  const auto forged = MakeClient(*member, "forged", 1);
  REQUIRE(forged.ok());
  CHECK(Verify(forged->certificate.get(), authority, X509_PURPOSE_SSL_CLIENT,
               member->certificate.get()) != X509_V_OK);
}

TEST_CASE("a certificate does not outlive its CA") {
  const Identity authority = Authority(3);
  CHECK(MakeClient(authority, "a", 2).ok());
  const auto late = MakeClient(authority, "a", 4);
  REQUIRE(!late.ok());
  CHECK(late.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(late.status().message().find("--days") != std::string::npos);
}

TEST_CASE("a host name that is too long for a subject is in the list of names") {
  const Identity authority = Authority();
  const std::string name = "zk1." + std::string(60, 'a') + ".example.com";
  REQUIRE(CheckHost(name).ok());
  const auto member = MakeMember(authority, {name}, 1);
  REQUIRE(member.ok());
  CHECK(FactsOf(member->certificate.get()).subject == "CN=zk1");
  CHECK(X509_check_host(member->certificate.get(), name.c_str(), 0, 0, nullptr) == 1);
}

TEST_CASE("only hosts and plain names of clients are accepted") {
  for (const char* good : {"localhost", "zk-1.example.com", "10.0.0.1", "::1", "*.example.com",
                           "zk_1", "1host", "3.zk"}) {
    CHECK(CheckHost(good).ok());
  }
  for (const char* bad : {"", "zk1:2181", "a..b", ".a", "a.", "-a", "a b", "a,DNS:b", "10.0.0.256",
                          "10.0.0.1.1", "1", "[::1]", "a\nb", "*", "a.*", "URI:x", "../x"}) {
    CAPTURE(bad);
    CHECK(!CheckHost(bad).ok());
  }
  CHECK(!CheckHost(std::string(64, 'a')).ok());
  for (const char* good : {"admin", "a.b_c@d-e", "1"}) CHECK(CheckClientName(good).ok());
  for (const char* bad : {"", ".a", "-a", "a/b", "a,b", "CN=a", "\xc3\xa4"}) {
    CAPTURE(bad);
    CHECK(!CheckClientName(bad).ok());
  }
  CHECK(!CheckClientName(std::string(65, 'a')).ok());
}

TEST_CASE("PEM and PKCS12 can be read as a server and Java read them") {
  const Identity authority = Authority();
  const auto member = MakeMember(authority, {"zk1"}, 5);
  REQUIRE(member.ok());
  const std::string pem = *KeyPem(member->key.get()) + *CertificatePem(member->certificate.get());
  CHECK(pem.find("-----BEGIN PRIVATE KEY-----") == 0);  // PKCS#8, as Java requires
  const auto from_pem = rpc::tls::ParseKeyStore("pem", pem, "");
  REQUIRE(from_pem.ok());
  CHECK(X509_cmp(from_pem->certificate.get(), member->certificate.get()) == 0);

  const auto key_store = KeyStorePkcs12(*member, authority.certificate.get(), "password");
  REQUIRE(key_store.ok());
  const auto from_pkcs12 = rpc::tls::ParseKeyStore("p12", *key_store, "password");
  REQUIRE(from_pkcs12.ok());
  CHECK(X509_cmp(from_pkcs12->certificate.get(), member->certificate.get()) == 0);
  REQUIRE(from_pkcs12->chain.size() == 1);
  CHECK(!rpc::tls::ParseKeyStore("p12", *key_store, "wrong").ok());

  const auto trust_store = TrustStorePkcs12(authority.certificate.get(), "password");
  REQUIRE(trust_store.ok());
  const auto trusted = rpc::tls::ParseTrustStore("p12", *trust_store, "password");
  REQUIRE(trusted.ok());
  REQUIRE(trusted->certificates.size() == 1);
  CHECK(X509_cmp(trusted->certificates[0].get(), authority.certificate.get()) == 0);
  CHECK(!rpc::tls::ParseTrustStore("p12", *trust_store, "wrong").ok());
}

TEST_CASE("files are the owner's alone, and are never replaced") {
  const mode_t old_mask = umask(0);
  const std::string directory = TestPath("certs");
  REQUIRE(MakeDirectory(directory).ok());
  CHECK(ModeOf(directory) == 0700);
  const std::string path = directory + "/a.pem";
  REQUIRE(WriteNewFile(path, "first").ok());
  CHECK(ModeOf(path) == 0600);
  CHECK(WriteNewFile(path, "second").code() == absl::StatusCode::kAlreadyExists);
  CHECK(*ReadFile(path, 100) == "first");
  CHECK(!ReadFile(path, 4).ok());
  // Nor is a link followed, or taken for nothing.
  const std::string link = directory + "/link.pem";
  REQUIRE(symlink((directory + "/missing").c_str(), link.c_str()) == 0);
  CHECK(IsThere(link));
  CHECK(!WriteNewFile(link, "x").ok());
  CHECK(!IsThere(directory + "/missing"));

  CHECK(MakeDirectory(directory).ok());
  REQUIRE(chmod(directory.c_str(), 0755) == 0);
  CHECK(MakeDirectory(directory).ok());
  REQUIRE(chmod(directory.c_str(), 0770) == 0);
  const absl::Status open_to_others = MakeDirectory(directory);
  CHECK(open_to_others.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(open_to_others.message().find("chmod 700 " + directory) != std::string::npos);
  CHECK(!MakeDirectory(path).ok());
  umask(old_mask);
}

TEST_CASE("a directory that others can write to is found, and so is one that is not there") {
  const std::string directory = TestPath("checked");
  CHECK(CheckDirectory(directory).code() == absl::StatusCode::kNotFound);
  CHECK(!IsThere(directory));
  REQUIRE(MakeDirectory(directory).ok());
  CHECK(CheckDirectory(directory).ok());
  REQUIRE(chmod(directory.c_str(), 0720) == 0);
  CHECK(CheckDirectory(directory).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a client cannot have the name of a member of the same directory") {
  const std::string directory = TestPath("members");
  REQUIRE(MakeDirectory(directory).ok());
  const Identity authority = Authority();
  const auto write = [&](const std::string& name, const absl::StatusOr<Identity>& made) {
    REQUIRE(made.ok());
    const std::string pem = *KeyPem(made->key.get()) + *CertificatePem(made->certificate.get());
    REQUIRE(WriteNewFile(directory + "/" + name, pem).ok());
  };
  const std::string long_name = "zk9." + std::string(60, 'a') + ".example.com";
  REQUIRE(WriteNewFile(directory + "/ca.pem", *CertificatePem(authority.certificate.get())).ok());
  write("zk1.pem", MakeMember(authority, {"zk1", "zk1.example.com", "10.0.0.1"}, 5));
  write(long_name + ".pem", MakeMember(authority, {long_name}, 5));
  write("client-app.pem", MakeClient(authority, "app", 5));
  REQUIRE(WriteNewFile(directory + "/other.pem", "no certificate").ok());
  for (const char* name : {"zk1", "zk1.example.com", "10.0.0.1", "zk9"}) {
    CAPTURE(name);
    const absl::Status status = CheckNoMember(directory, name);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  }
  for (const char* name : {"app", "ca", "zk2", "client-app", "other"}) {
    CAPTURE(name);
    CHECK(CheckNoMember(directory, name).ok());
  }
}

TEST_CASE("the CA of a directory is read again, and half of one is not replaced") {
  const std::string directory = TestPath("authority");
  REQUIRE(MakeDirectory(directory).ok());
  CHECK(ReadAuthority(directory).status().code() == absl::StatusCode::kNotFound);
  const Identity authority = Authority();
  REQUIRE(WriteNewFile(directory + "/ca.pem", *CertificatePem(authority.certificate.get())).ok());
  const auto without_key = ReadAuthority(directory);
  REQUIRE(!without_key.ok());
  CHECK(without_key.status().message().find("ca.key") != std::string::npos);
  CHECK(without_key.status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(WriteNewFile(directory + "/ca.key", *KeyPem(authority.key.get())).ok());
  const auto read = ReadAuthority(directory);
  REQUIRE(read.ok());
  CHECK(X509_cmp(read->certificate.get(), authority.certificate.get()) == 0);
  const auto member = MakeMember(*read, {"zk1"}, 1);
  REQUIRE(member.ok());
  CHECK(Verify(member->certificate.get(), authority, X509_PURPOSE_SSL_SERVER) == X509_V_OK);
}

}  // namespace
}  // namespace quorate::tools::certs
