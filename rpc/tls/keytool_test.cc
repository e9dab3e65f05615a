// SPDX-License-Identifier: Apache-2.0

// Reads stores that keytool has made. Does nothing where there is no keytool.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/strings.h"
#include "rpc/tls/stores.h"
#include "rpc/tls/subject.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc::tls {
namespace {

bool Succeeds(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1 </dev/null").c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool HasKeytool() {
  if (Succeeds("command -v keytool")) return true;
  WARN("there is no keytool; nothing is tested");
  return false;
}

// A store with a password; keytool makes the file.
class KeytoolStore {
 public:
  // `flags` are for each call of keytool, such as "-J-Dname=value".
  KeytoolStore(const std::string& name, const std::string& type, std::string flags = "")
      : flags_(std::move(flags)) {
    options_.location = TestPath(name);
    // Java allows only ASCII in the passwords of PKCS12.
    options_.password = type == "JKS" ? "chang\u00E9it" : "changeit";
    password_file_ = WriteTestFile(name + ".password", options_.password);
    std::filesystem::remove(options_.location);
    store_ = " -keystore " + options_.location + " -storepass:file " + password_file_ +
             " -storetype " + type;
  }

  void GenerateKey(const std::string& subject) {
    REQUIRE(Keytool("-genkeypair -alias key -keyalg RSA -keysize 2048 -dname '" + subject +
                    "' -keypass:file " + password_file_));
  }
  void Import(const TestIdentity& identity) {
    const std::string file = WriteTestFile("import.pem", ToPem(identity.certificate.get()));
    REQUIRE(Keytool("-importcert -noprompt -alias ca -file " + file));
  }
  const StoreOptions& options() const { return options_; }

 private:
  // UTF-8 passwords need a UTF-8 default character set.
  bool Keytool(const std::string& arguments) const {
    return Succeeds("keytool -J-Dfile.encoding=UTF-8 " + flags_ + " " + arguments + store_);
  }

  const std::string flags_;
  StoreOptions options_;
  std::string password_file_;
  std::string store_;
};

void CheckKeytoolStores(const std::string& name, const std::string& type,
                        const std::string& flags = "") {
  INFO(name);
  KeytoolStore keys("key." + name, type, flags);
  keys.GenerateKey("CN=a\\,b+UID=7, OU=dev, O=Example, EMAILADDRESS=a@b.example, C=US");
  const auto key_store = ReadKeyStore(keys.options());
  if (!key_store.ok()) FAIL(key_store.status().ToString());
  CHECK(EVP_PKEY_get_bits(key_store->key.get()) == 2048);
  CHECK(SubjectOf(key_store->certificate.get()) ==
        "CN=a\\,b+UID=7,OU=dev,O=Example,1.2.840.113549.1.9.1=#160b6140622e6578616d706c65,C=US");

  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  KeytoolStore trust("trust." + name, type, flags);
  trust.Import(ca);
  const auto trust_store = ReadTrustStore(trust.options());
  if (!trust_store.ok()) FAIL(trust_store.status().ToString());
  REQUIRE(trust_store->certificates.size() == 1);
  CHECK(X509_cmp(trust_store->certificates[0].get(), ca.certificate.get()) == 0);

  // A store with a key and a CA trusts both.
  keys.Import(ca);
  const auto both = ReadTrustStore(keys.options());
  if (!both.ok()) FAIL(both.status().ToString());
  CHECK(both->certificates.size() == 2);
  CHECK(ReadKeyStore(keys.options()).ok());

  StoreOptions wrong = keys.options();
  wrong.password = "wrong";
  CHECK_THAT(std::string(ToStd(ReadKeyStore(wrong).status().message())),
             Catch::Matchers::Contains("the password is wrong"));
}

TEST_CASE("stores of keytool are read in JKS") {
  if (HasKeytool()) CheckKeytoolStores("jks", "JKS");
}

TEST_CASE("stores of keytool are read in PKCS12") {
  if (HasKeytool()) CheckKeytoolStores("p12", "PKCS12");
}

TEST_CASE("stores of keytool before Java 16 are read in PKCS12, with RC2 and 3DES") {
  if (HasKeytool()) CheckKeytoolStores("old.p12", "PKCS12", "-J-Dkeystore.pkcs12.legacy=true");
}

}  // namespace
}  // namespace quorate::rpc::tls
