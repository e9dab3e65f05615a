// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/server.h"

#include <krb5.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/sasl/testing/digest_md5_client.h"

namespace quorate::rpc::sasl {
namespace {

std::optional<std::string> NoProperty(std::string_view) { return std::nullopt; }

Options TestOptions() {
  Options options;
  options.file = "jaas.conf";
  options.section = "Server";
  options.default_realm = "R";
  return options;
}

std::string Problem(const std::string& text, const Options& options = TestOptions()) {
  std::vector<std::string> warnings;
  const auto made = MakeAuthenticator(options, text, NoProperty, &warnings);
  CHECK_FALSE(made.ok());
  return std::string(made.status().message());
}

std::string Digest(const std::string& module_options) {
  return "Server { org.apache.zookeeper.server.auth.DigestLoginModule required " + module_options +
         "; };";
}

std::string Kerberos(const std::string& module_options) {
  return "Server { com.sun.security.auth.module.Krb5LoginModule required " + module_options +
         "; };";
}

// Returns the id of a client that knows `password`; empty if it is refused.
std::string IdOf(Authenticator* authenticator, const std::string& user,
                 const std::string& password) {
  auto exchange = authenticator->Begin("10.0.0.1");
  const std::string challenge = exchange->OnToken("")->token.value();
  const std::string nonce = NonceOf(challenge);
  const std::string response = ClientResponse({.user = user,
                                               .realm = "zk-sasl-md5",
                                               .password = password,
                                               .nonce = nonce,
                                               .client_nonce = "c",
                                               .digest_uri = "zookeeper/zk-sasl-md5"});
  const auto reply = exchange->OnToken(absl::StrCat(
      "username=\"", user, "\",realm=zk-sasl-md5,nonce=\"", nonce,
      "\",cnonce=c,nc=00000001,digest-uri=\"zookeeper/zk-sasl-md5\",charset=utf-8,response=",
      response));
  return reply.ok() ? reply->user : "";
}

TEST_CASE("the users of all modules of the section can authenticate") {
  std::vector<std::string> warnings;
  const auto made = MakeAuthenticator(
      TestOptions(),
      "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"1\";\n"
      "org.apache.zookeeper.server.auth.DigestLoginModule required user_b=\"2\" debug=\"x\"; };\n"
      "Client { org.apache.zookeeper.server.auth.DigestLoginModule required user_c=\"3\"; };",
      NoProperty, &warnings);
  REQUIRE(made.ok());
  CHECK(warnings.empty());
  CHECK(IdOf(made->get(), "a", "1") == "a");
  CHECK(IdOf(made->get(), "b", "2") == "b");
  CHECK(IdOf(made->get(), "a", "2").empty());
  CHECK(IdOf(made->get(), "c", "3").empty());
}

TEST_CASE("the password of super can be configured, and only for a user of the file") {
  Options options = TestOptions();
  options.super_password = "other";
  std::vector<std::string> warnings;
  const auto made =
      MakeAuthenticator(options, Digest("user_super=\"file\""), NoProperty, &warnings);
  REQUIRE(made.ok());
  CHECK(warnings.empty());
  CHECK(IdOf(made->get(), "super", "other") == "super");
  CHECK(IdOf(made->get(), "super", "file").empty());
  const auto none = MakeAuthenticator(options, Digest("user_bob=\"1\""), NoProperty, &warnings);
  REQUIRE(none.ok());
  CHECK(IdOf(none->get(), "super", "other").empty());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("there is no user_super") != std::string::npos);
}

TEST_CASE("a file without the section means that there is no SASL") {
  std::vector<std::string> warnings;
  const auto made =
      MakeAuthenticator(TestOptions(), "Client { a.B required; };", NoProperty, &warnings);
  REQUIRE(made.ok());
  CHECK(*made == nullptr);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("jaas.conf: there is no section Server") == 0);
}

TEST_CASE("sections for SASL between servers have no effect, and are logged") {
  for (const std::string section : {"QuorumServer", "QuorumLearner"}) {
    const std::string module =
        " { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"secret\"; };";
    for (const std::string& text :
         {section + module, Digest("user_bob=\"secret\"") + "\n" + section + module}) {
      std::vector<std::string> warnings;
      const auto made = MakeAuthenticator(TestOptions(), text, NoProperty, &warnings);
      REQUIRE(made.ok());
      const bool has_users = text != section + module;
      CHECK((*made != nullptr) == has_users);
      REQUIRE(warnings.size() == (has_users ? 1 : 2));
      CHECK(warnings[0].find("jaas.conf: section " + section +
                             ": has no effect: there is no SASL") == 0);
      CHECK(warnings[0].find("memberSecretFile") != std::string::npos);
      CHECK(warnings[0].find("secret\"") == std::string::npos);
    }
  }
}

TEST_CASE("a section that cannot be used is refused with the reason, and without passwords") {
  CHECK(Problem(Digest("")).find("section Server: it has no user") != std::string::npos);
  CHECK(Problem(Digest("user_=\"secret\"")).find("no name of a user") != std::string::npos);
  CHECK(Problem(Digest("user_bob=\"\"")).find("the password of user bob is empty") !=
        std::string::npos);
  CHECK(Problem(Digest("user_bob=\"sec\\000ret\"")).find("user bob has a zero byte") !=
        std::string::npos);
  CHECK(Problem("Server { a.B required user_bob=\"secret\"; };").find("the module a.B is not") !=
        std::string::npos);
  CHECK(Problem(Kerberos("useKeyTab=true keyTab=\"/k\"")).find("needs principal=") !=
        std::string::npos);
  CHECK(Problem(Kerberos("principal=\"*\" useKeyTab=true")).find("needs principal=") !=
        std::string::npos);
  CHECK(Problem(Kerberos("principal=\"zookeeper/h@R\" useTicketCache=true"))
            .find("needs useKeyTab=true") != std::string::npos);
  Options options = TestOptions();
  options.auth_to_local_rules = "nonsense";
  CHECK(Problem(Digest("user_bob=\"secret\""), options).find("security.auth_to_local: ") == 0);
  CHECK(Problem("Server {").find("jaas.conf:1: ") == 0);
}

// Makes a keytab with a key of `principal`.
void MakeKeytab(const std::string& path, const std::string& principal) {
  krb5_context context = nullptr;
  REQUIRE(krb5_init_context(&context) == 0);
  krb5_keytab keytab = nullptr;
  REQUIRE(krb5_kt_resolve(context, ("WRFILE:" + path).c_str(), &keytab) == 0);
  krb5_keytab_entry entry{};
  entry.vno = 1;
  REQUIRE(krb5_parse_name(context, principal.c_str(), &entry.principal) == 0);
  REQUIRE(krb5_c_make_random_key(context, ENCTYPE_AES256_CTS_HMAC_SHA1_96, &entry.key) == 0);
  REQUIRE(krb5_kt_add_entry(context, keytab, &entry) == 0);
  krb5_free_keytab_entry_contents(context, &entry);
  krb5_kt_close(context, keytab);
  krb5_free_context(context);
}

TEST_CASE("with a keytab, tokens that are none of Kerberos are refused") {
  const std::string directory =
      (std::filesystem::temp_directory_path() / absl::StrCat("sasl-server-test-", getpid()))
          .string();
  std::filesystem::create_directories(directory);
  const std::string path = directory + "/keytab";
  MakeKeytab(path, "zookeeper/h@R");
  std::vector<std::string> warnings;
  const std::string section =
      Kerberos("principal=\"zookeeper/h@R\" useKeyTab=true keyTab=\"file:" + path + "\"");
  const auto made = MakeAuthenticator(TestOptions(), section, NoProperty, &warnings);
  INFO(made.status().message());
  REQUIRE(made.ok());
  CHECK(warnings.empty());
  const std::string header("\x60\x23\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00", 15);
  for (const std::string& token :
       {std::string("x"), header + std::string(22, 'x'), std::string(60'000, '\x60'), header}) {
    auto exchange = (*made)->Begin("10.0.0.1");
    CHECK(exchange->OnToken("")->token == "");
    CHECK(absl::IsUnauthenticated(exchange->OnToken(token).status()));
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace quorate::rpc::sasl
