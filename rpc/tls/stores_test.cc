// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/stores.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

using Catch::Matchers::Contains;

const std::string kPassword = "changeit";

// A CA, another one below it, and a key below that.
struct Chain {
  const TestIdentity root = MakeIdentity({.common_name = "root", .is_ca = true});
  const TestIdentity middle =
      MakeIdentity({.common_name = "middle", .issuer = &root, .is_ca = true});
  const TestIdentity server = MakeIdentity({.common_name = "server", .issuer = &middle});
  const TestIdentity other = MakeIdentity({.common_name = "other"});

  std::string Key(const std::string& password = "") const {
    return ToPem(server.key.get(), password);
  }
  std::string Certificates() const {
    return ToPem(server.certificate.get()) + ToPem(middle.certificate.get()) +
           ToPem(root.certificate.get());
  }
};

StoreOptions Store(std::string location, std::string type = "") {
  StoreOptions options;
  options.location = std::move(location);
  options.type = std::move(type);
  return options;
}

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  CHECK(ERR_peek_error() == 0);
  return result.ok() ? "no error" : std::string(ToStd(result.status().message()));
}

void CheckKeyStore(const absl::StatusOr<KeyStore>& store, const Chain& chain) {
  REQUIRE(ErrorOf(store) == "no error");
  CHECK(EVP_PKEY_eq(store->key.get(), chain.server.key.get()) == 1);
  CHECK(X509_cmp(store->certificate.get(), chain.server.certificate.get()) == 0);
  REQUIRE(store->chain.size() == 2);
  CHECK(X509_cmp(store->chain[0].get(), chain.middle.certificate.get()) == 0);
  CHECK(X509_cmp(store->chain[1].get(), chain.root.certificate.get()) == 0);
}

void CheckTrusted(const absl::StatusOr<TrustStore>& store,
                  const std::vector<const X509*>& certificates) {
  REQUIRE(ErrorOf(store) == "no error");
  REQUIRE(store->certificates.size() == certificates.size());
  for (size_t i = 0; i < certificates.size(); ++i) {
    CHECK(X509_cmp(store->certificates[i].get(), certificates[i]) == 0);
  }
}

TEST_CASE("a PEM key store has a key and certificates in any order, and other text") {
  const Chain chain;
  CheckKeyStore(ParseKeyStore("k", chain.Key() + chain.Certificates(), ""), chain);
  CheckKeyStore(
      ParseKeyStore("k", "Some text\n" + chain.Certificates() + "more\n" + chain.Key(), kPassword),
      chain);
  CheckKeyStore(
      ParseKeyStore("k",
                    ToPem(chain.root.certificate.get()) + ToPem(chain.other.certificate.get()) +
                        ToPem(chain.middle.certificate.get()) + chain.Key() +
                        ToPem(chain.server.certificate.get()),
                    ""),
      chain);
  // The first key counts.
  CheckKeyStore(
      ParseKeyStore("k", chain.Key() + ToPem(chain.other.key.get()) + chain.Certificates(), ""),
      chain);
}

TEST_CASE("an encrypted PEM key needs its password") {
  const Chain chain;
  const std::string store = chain.Key(kPassword) + chain.Certificates();
  CheckKeyStore(ParseKeyStore("k", store, kPassword), chain);
  CHECK_THAT(ErrorOf(ParseKeyStore("k.pem", store, "")),
             Contains("k.pem: its private key is encrypted, and no password is set"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k.pem", store, "wrong")),
             Contains("k.pem: the password is wrong"));
}

TEST_CASE("a PEM key may have the format that was usual before PKCS#8") {
  const Chain chain;
  for (const std::string& password : {std::string(), kPassword}) {
    const BioPtr bio(BIO_new(BIO_s_mem()));
    REQUIRE(PEM_write_bio_PrivateKey_traditional(
                bio.get(), chain.server.key.get(), password.empty() ? nullptr : EVP_aes_128_cbc(),
                reinterpret_cast<const unsigned char*>(password.data()),
                static_cast<int>(password.size()), nullptr, nullptr) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    const std::string store = std::string(data, static_cast<size_t>(size)) + chain.Certificates();
    CHECK_THAT(store, Contains("BEGIN EC PRIVATE KEY"));
    CheckKeyStore(ParseKeyStore("k", store, password), chain);
    if (password.empty()) continue;
    CHECK_THAT(ErrorOf(ParseKeyStore("k", store, "")), Contains("no password is set"));
    CHECK_THAT(ErrorOf(ParseKeyStore("k", store, "wrong")), Contains("the password is wrong"));
  }
}

TEST_CASE("a key whose encryption asks for too many iterations is refused at once") {
  X509_SIG* encrypted = X509_SIG_new();
  X509_ALGOR* unused = nullptr;
  ASN1_OCTET_STRING* octets = nullptr;
  X509_SIG_getm(encrypted, &unused, &octets);
  ASN1_OCTET_STRING_set(octets, reinterpret_cast<const unsigned char*>("0123456789abcdef"), 16);
  X509_ALGOR* algorithm = PKCS5_pbe2_set(EVP_aes_256_cbc(), 2'000'000'000, nullptr, 0);
  REQUIRE(algorithm != nullptr);
  X509_ALGOR_copy(unused, algorithm);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  REQUIRE(PEM_write_bio_PKCS8(bio.get(), encrypted) == 1);
  X509_ALGOR_free(algorithm);
  X509_SIG_free(encrypted);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  const std::string store(data, static_cast<size_t>(size));
  CHECK_THAT(ErrorOf(ParseKeyStore("k", store, kPassword)), Contains("too many iterations"));
}

TEST_CASE("a key store without a key, a certificate, or the key's certificate is refused") {
  const Chain chain;
  CHECK_THAT(ErrorOf(ParseKeyStore("k", chain.Certificates(), "")), Contains("no private key"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k", chain.Key(), "")), Contains("no certificate"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k", ToPem(chain.other.key.get()) + chain.Certificates(), "")),
             Contains("none of its certificates belongs to its first private key"));
  CHECK_THAT(
      ErrorOf(ParseKeyStore("k", MakePkcs12(nullptr, {chain.root.certificate.get()}, "p"), "p")),
      Contains("no private key"));
  CHECK_THAT(
      ErrorOf(ParseKeyStore("k", MakeJks(nullptr, {}, {chain.root.certificate.get()}, "p"), "p")),
      Contains("no private key"));
}

TEST_CASE("damaged PEM blocks are refused") {
  const Chain chain;
  std::string cut = chain.Key() + chain.Certificates();
  cut.resize(cut.size() - 30);
  CHECK_THAT(ErrorOf(ParseKeyStore("k", cut, "")), Contains("damaged"));
  const std::string no_certificate =
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  CHECK_THAT(ErrorOf(ParseTrustStore("t", no_certificate, "")),
             Contains("one of its certificates cannot be read"));
}

TEST_CASE("a PEM trust store has all its certificates and revocation lists") {
  const Chain chain;
  const CrlPtr list = MakeRevocationList(chain.root, {});
  const auto store =
      ParseTrustStore("t", chain.Key() + ToPem(list.get()) + chain.Certificates(), "");
  CheckTrusted(store, {chain.server.certificate.get(), chain.middle.certificate.get(),
                       chain.root.certificate.get()});
  CHECK(store->revocation_lists.size() == 1);
  CHECK_THAT(ErrorOf(ParseTrustStore("t.pem", chain.Key(), "")),
             Contains("t.pem: it has no certificate that is trusted"));
}

TEST_CASE("a PKCS12 key store needs its password") {
  const Chain chain;
  const std::vector<const X509*> others = {chain.root.certificate.get(),
                                           chain.middle.certificate.get()};
  const std::string store = MakePkcs12(&chain.server, others, kPassword);
  CheckKeyStore(ParseKeyStore("k", store, kPassword), chain);
  CHECK_THAT(ErrorOf(ParseKeyStore("k.p12", store, "wrong")),
             Contains("k.p12: the password is wrong"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k.p12", store, "")), Contains("k.p12: the password is wrong"));
  CheckKeyStore(ParseKeyStore("k", MakePkcs12(&chain.server, others, ""), ""), chain);
}

TEST_CASE("a PKCS12 trust store of openssl has bare certificates, or trusts that of its key") {
  const Chain chain;
  const X509* root = chain.root.certificate.get();
  CheckTrusted(ParseTrustStore("t", MakePkcs12(nullptr, {root}, kPassword), kPassword), {root});
  CheckTrusted(ParseTrustStore("t", MakePkcs12(&chain.server, {root}, kPassword), kPassword),
               {chain.server.certificate.get()});
}

TEST_CASE("a JKS key store needs its password") {
  const Chain chain;
  const std::string store =
      MakeJks(&chain.server, {chain.middle.certificate.get(), chain.root.certificate.get()},
              {chain.other.certificate.get()}, kPassword);
  CheckKeyStore(ParseKeyStore("k", store, kPassword), chain);
  CHECK_THAT(ErrorOf(ParseKeyStore("k.jks", store, "wrong")),
             Contains("k.jks: the password is wrong"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k.jks", store, "")), Contains("k.jks: the password is wrong"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k.jks", store, "\xFF")), Contains("not UTF-8"));
}

TEST_CASE("a JKS trust store has trusted certificates and those of keys") {
  const Chain chain;
  const X509* root = chain.root.certificate.get();
  const std::string store = MakeJks(&chain.server, {chain.middle.certificate.get()}, {root}, "pw");
  CheckTrusted(ParseTrustStore("t", store, "pw"), {chain.server.certificate.get(), root});
  CHECK_THAT(ErrorOf(ParseTrustStore("t", store, "no")), Contains("the password is wrong"));
  // As in Java, the password of a trust store only protects it against changes.
  CheckTrusted(ParseTrustStore("t", store, ""), {chain.server.certificate.get(), root});
}

TEST_CASE("a JKS or PKCS12 store that is cut or changed anywhere is an error or another store") {
  const Chain chain;
  const std::string store =
      GENERATE_REF(MakeJks(&chain.server, {}, {chain.root.certificate.get()}, "pw"),
                   MakePkcs12(&chain.server, {chain.root.certificate.get()}, "pw"));
  for (size_t size = 0; size < store.size(); size += 7) {
    CHECK(!ParseTrustStore("t", store.substr(0, size), "pw").ok());
    CHECK(!ParseKeyStore("k", store.substr(0, size), "pw").ok());
  }
  // Without a password nothing protects JKS against changes, so that the reader sees them.
  for (size_t at = 0; at < store.size(); ++at) {
    std::string changed = store;
    changed[at] = static_cast<char>(changed[at] ^ 0x81);
    (void)ParseTrustStore("t", changed, "");
  }
}

TEST_CASE("other files are refused with what to do") {
  CHECK_THAT(ErrorOf(ParseKeyStore("k", "", "")), Contains("k: the file is empty"));
  CHECK_THAT(ErrorOf(ParseKeyStore("k", "hello", "")),
             Contains("neither PEM nor PKCS12 nor JKS") &&
                 Contains("keytool -importkeystore -srckeystore k -srcstoretype BCFKS"));
  for (const std::string_view bytes : {"0", "0\x84",
                                       "0\x84"
                                       "abc",
                                       "0\xFF"
                                       "abcdef"}) {
    CHECK_THAT(ErrorOf(ParseTrustStore("t", bytes, "")), Contains("neither PEM"));
  }
  CHECK_THAT(ErrorOf(ParseKeyStore("k", "\xCE\xCE\xCE\xCE....", "")),
             Contains("JCEKS are not supported") && Contains("keytool -importkeystore"));
  CHECK_THAT(ErrorOf(ReadKeyStore(Store("k.bcfks"))),
             Contains("k.bcfks: stores of the type BCFKS are not supported"));
  CHECK_THAT(ErrorOf(ReadKeyStore(Store("k", "bcfks"))), Contains("BCFKS"));
  CHECK_THAT(ErrorOf(ReadKeyStore(Store("k", "ZIP"))), Contains("\"ZIP\" is no type of a store"));
}

TEST_CASE("the content decides the format, whatever type and name say") {
  const Chain chain;
  StoreOptions options = Store("", "pkcs12");
  options.password = kPassword;
  options.location =
      WriteTestFile("store.p12", MakeJks(nullptr, {}, {chain.root.certificate.get()}, kPassword));
  CheckTrusted(ReadTrustStore(options), {chain.root.certificate.get()});
  options.type = "Jks";
  options.location =
      WriteTestFile("store.jks", MakePkcs12(nullptr, {chain.root.certificate.get()}, kPassword));
  CheckTrusted(ReadTrustStore(options), {chain.root.certificate.get()});
}

TEST_CASE("a password comes from a file, without one newline at the end") {
  StoreOptions options;
  options.password = "other";
  options.password_file = WriteTestFile("password", "a b\n\n");
  CHECK(*PasswordOf(options) == "a b\n");
  WriteTestFile("password", "x\n");
  CHECK(*PasswordOf(options) == "x");
  WriteTestFile("password", "x");
  CHECK(*PasswordOf(options) == "x");
  options.password_file = TestPath("no_such_file");
  CHECK_THAT(ErrorOf(PasswordOf(options)),
             Contains("no_such_file: No such file or directory; check"));
  options.password_file.clear();
  CHECK(*PasswordOf(options) == "other");
}

TEST_CASE("a file that is too large or no file is refused") {
  StoreOptions options = Store(WriteTestFile("large", std::string(kStoreBytesMax + 1, 'x')));
  CHECK_THAT(ErrorOf(ReadKeyStore(options)), Contains("larger than 16777216 bytes"));
  options.location = TestPath("");
  CHECK_THAT(ErrorOf(ReadKeyStore(options)), Contains("not a regular file"));
}

TEST_CASE("revocation lists are read in PEM and DER") {
  const Chain chain;
  const CrlPtr list = MakeRevocationList(chain.root, {});
  unsigned char* der = nullptr;
  const int size = i2d_X509_CRL(list.get(), &der);
  const std::string bytes(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  CHECK(ReadRevocationLists(WriteTestFile("a.crl", bytes))->size() == 1);
  const std::string pem = ToPem(list.get()) + ToPem(list.get());
  CHECK(ReadRevocationLists(WriteTestFile("a.crl", pem))->size() == 2);
  CHECK_THAT(ErrorOf(ReadRevocationLists(WriteTestFile("a.crl", "nothing"))),
             Contains("no certificate revocation list"));
}

}  // namespace
}  // namespace quorate::rpc::tls
