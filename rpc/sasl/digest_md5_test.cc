// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/digest_md5.h"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/manual_clock.h"

namespace quorate::rpc::sasl {
namespace {

TEST_CASE("the examples of RFC 2831") {
  DigestInput imap{.user = "chris",
                   .realm = "elwood.innosoft.com",
                   .password = "secret",
                   .nonce = "OA6MG9tEQGm2hh",
                   .client_nonce = "OA6MHXh6VqTrRk",
                   .digest_uri = "imap/elwood.innosoft.com"};
  CHECK(ClientResponse(imap) == "d388dad90d4bbd760a152321f2143af7");
  CHECK(ServerResponse(imap) == "ea40f60335c427b5527b84dbabcdfffd");
  DigestInput acap = imap;
  acap.nonce = "OA9BSXrbuRhWay";
  acap.client_nonce = "OA9BSuZWMSpW8m";
  acap.digest_uri = "acap/elwood.innosoft.com";
  CHECK(ClientResponse(acap) == "6084c6db3fede7352c551284490fd0fc");
  CHECK(ServerResponse(acap) == "2f0b3d7c3c2e486600ef710726aa2eae");
}

TEST_CASE("names and passwords are hashed in ISO 8859-1 if it has all their characters") {
  DigestInput utf8{.user = "j\xC3\xBCrgen",
                   .realm = "zk-sasl-md5",
                   .password = "\xC3\xA4",
                   .nonce = "n",
                   .client_nonce = "c",
                   .digest_uri = "zookeeper/zk-sasl-md5"};
  // Computed with Python's hashlib from the bytes b"j\xfcrgen", b"\xe4".
  CHECK(ClientResponse(utf8) == "bdb267bc5f9cc4eb24d9b9edc650b84c");
  utf8.password = "\xE2\x82\xAC";  // the euro sign, which is not in it
  CHECK(ClientResponse(utf8) == "12eb6208f71714a0805b29845d969a79");
  utf8.password = "\xC3";  // no UTF-8
  CHECK(ClientResponse(utf8).size() == 32);
}

TEST_CASE("directives are keys and values between commas, in any order and with any space") {
  const auto parsed = ParseDirectives(
      " ,username=\"bob \\\"b\\\" \\\\\" ,\r\n NC = 00000001,digest-uri=zookeeper/zk-sasl-md5,"
      "empty=\"\",,qop=auth,");
  REQUIRE(parsed.ok());
  CHECK(*parsed == Directives{{"username", "bob \"b\" \\"},
                              {"nc", "00000001"},
                              {"digest-uri", "zookeeper/zk-sasl-md5"},
                              {"empty", ""},
                              {"qop", "auth"}});
  CHECK(ParseDirectives("")->empty());
  for (const std::string text :
       {"a", "=b", "a=", "a=\"b", "a=\"b\\", "a=b,a=c", "A=b,a=c", "a=\"b\"c=d", "a=b c=d", "a b=c",
        "\"a\"=b", "a=b\"c\"", "a=\"b\"\"c\""}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDirectives(text).ok());
  }
  CHECK_FALSE(ParseDirectives("a=" + std::string(5000, 'x')).ok());
  std::string many;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&many, "k", i, "=v,");
  CHECK_FALSE(ParseDirectives(many).ok());
}

class CountingRandom : public RandomBytes {
 public:
  void Fill(char* bytes, size_t size) override {
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(++count_);
  }

 private:
  int count_ = 0;
};

// A server with the users bob, super, eve@OTHER and super/host@R.
struct Server {
  explicit Server(bool removes = false) {
    auto made = DigestMd5::Create({{"bob", "secret"},
                                   {"super", "admin"},
                                   {"eve@OTHER", "evil"},
                                   {"super@R", "trick"},
                                   {"j\xC3\xBCrgen", "p"}},
                                  IdMapping(*NameRules::Parse("DEFAULT", "R"), removes, removes),
                                  &random, &clock);
    REQUIRE(made.ok());
    digest = *std::move(made);
  }

  CountingRandom random;
  ManualClock clock{1000};
  std::unique_ptr<DigestMd5> digest;
};

// A client's half, with what a test may replace.
struct Client {
  std::string user = "bob", password = "secret", realm = "zk-sasl-md5", nonce;
  std::string uri = "zookeeper/zk-sasl-md5",
              more = ",charset=utf-8,qop=auth,maxbuf=65536,nc=00000001";
  std::string authzid;

  DigestInput Input() const {
    return {.user = user,
            .realm = realm,
            .password = password,
            .nonce = nonce,
            .client_nonce = "cn",
            .digest_uri = uri,
            .authorization_id = authzid.empty() ? nullptr : &authzid};
  }
  std::string Response() const {
    return absl::StrCat("username=\"", user, "\",realm=\"", realm, "\",nonce=\"", nonce,
                        "\",cnonce=\"cn\",digest-uri=\"", uri,
                        "\",response=", ClientResponse(Input()),
                        authzid.empty() ? "" : ",authzid=", authzid, more);
  }
};

// Begins an exchange and gives the client the nonce of the challenge.
std::unique_ptr<ServerExchange> Begin(Server* server, Client* client,
                                      const std::string& first_token = "") {
  auto exchange = server->digest->Begin("10.0.0.1");
  const auto challenge = exchange->OnToken(first_token);
  REQUIRE(challenge.ok());
  CHECK_FALSE(challenge->is_done);
  const std::string text = challenge->token.value();
  const std::string before = "realm=\"zk-sasl-md5\",nonce=\"";
  const std::string after = "\",charset=utf-8,algorithm=md5-sess";
  REQUIRE(text.find(before) == 0);
  REQUIRE(text.size() == before.size() + 40 + after.size());
  CHECK(text.substr(before.size() + 40) == after);
  client->nonce = text.substr(before.size(), 40);
  return exchange;
}

absl::StatusOr<Reply> Try(Server* server, Client client) {
  auto exchange = Begin(server, &client);
  return exchange->OnToken(client.Response());
}

TEST_CASE("a client with the right password has its id, and can check the server") {
  Server server;
  Client client;
  auto exchange = Begin(&server, &client);
  const auto reply = exchange->OnToken(client.Response());
  INFO(reply.status().message());
  REQUIRE(reply.ok());
  CHECK(reply->is_done);
  CHECK(reply->user == "bob");
  CHECK(reply->token == "rspauth=" + ServerResponse(client.Input()));
}

TEST_CASE("each exchange has a nonce of its own, and a response is good for one") {
  Server server;
  Client client;
  auto first = Begin(&server, &client);
  const std::string response = client.Response();
  std::set<std::string> nonces = {client.nonce};
  auto second = Begin(&server, &client);
  CHECK(nonces.insert(client.nonce).second);
  CHECK(first->OnToken(response).ok());
  CHECK(absl::IsUnauthenticated(second->OnToken(response).status()));
}

TEST_CASE("a first token of the client is ignored, as Java's server does") {
  Server server;
  Client client;
  auto exchange = Begin(&server, &client, "username=\"bob\"");
  CHECK(exchange->OnToken(client.Response()).ok());
}

TEST_CASE("variations that clients make are accepted") {
  Server server;
  Client client;
  client.uri = "ZooKeeper/ZK-sasl-md5";
  CHECK(Try(&server, client).ok());
  client = {};
  client.more = "";  // no charset, qop, nc or maxbuf
  CHECK(Try(&server, client).ok());
  client = {};
  client.authzid = "bob";
  CHECK(Try(&server, client)->user == "bob");
  client.authzid = "super";  // authorised, but the id is that of the user
  CHECK(Try(&server, client)->user == "bob");
  client = {};
  client.user = "j\xC3\xBCrgen";
  client.password = "p";
  CHECK(Try(&server, client)->user == "j\xC3\xBCrgen");
  auto exchange = Begin(&server, &client);
  client.more = "";
  const std::string latin1 =
      absl::StrReplaceAll(client.Response(), {{"j\xC3\xBCrgen", "j\xFCrgen"}});
  CHECK(exchange->OnToken(latin1)->user == "j\xC3\xBCrgen");
}

TEST_CASE("what does not fit the challenge is refused") {
  Server server;
  const auto fails = [&server](auto change) {
    Client client;
    auto exchange = Begin(&server, &client);
    change(&client);
    return absl::IsUnauthenticated(exchange->OnToken(client.Response()).status());
  };
  CHECK(fails([](Client* c) { c->password = "Secret"; }));
  CHECK(fails([](Client* c) { c->password = ""; }));
  CHECK(fails([](Client* c) { c->user = "Bob"; }));
  CHECK(fails([](Client* c) { c->user = "nobody"; }));
  // What the server hashes in place of the password of an unknown user.
  CHECK(fails([](Client* c) {
    c->user = "nobody";
    c->password = c->nonce;
  }));
  CHECK(fails([](Client* c) { c->user = ""; }));
  CHECK(fails([](Client* c) { c->realm = "other"; }));
  CHECK(fails([](Client* c) { c->nonce = "AAAA"; }));
  CHECK(fails([](Client* c) { c->uri = "zookeeper/other"; }));
  CHECK(fails([](Client* c) { c->more = ",qop=auth-conf"; }));
  CHECK(fails([](Client* c) { c->more = ",charset=UTF-8"; }));
  CHECK(fails([](Client* c) { c->more = ",authzid=\"\""; }));
  CHECK(fails([](Client* c) { c->more = ",authzid=bob"; }));  // not hashed
  CHECK(fails([](Client* c) { c->more = ",nonce=again"; }));
  CHECK_FALSE(fails([](Client*) {}));
  for (const char* key : {"username", "realm", "nonce", "cnonce", "digest-uri", "response"}) {
    CAPTURE(key);
    Client client;
    auto exchange = Begin(&server, &client);
    const std::string without = absl::StrReplaceAll(absl::StrCat(",", client.Response()),
                                                    {{absl::StrCat(",", key, "="), ",x-other="}});
    CHECK(absl::IsUnauthenticated(exchange->OnToken(without).status()));
  }
}

TEST_CASE("a user whose name no rule shortens cannot act as another one") {
  Server server;
  Client client;
  client.user = "eve@OTHER";
  client.password = "evil";
  CHECK(Try(&server, client)->user == "eve@OTHER");
  client.authzid = "super";
  CHECK(absl::IsUnauthenticated(Try(&server, client).status()));
}

TEST_CASE("only the user super gets the id super") {
  Server server(/*removes=*/true);
  Client client;
  client.user = "super";
  client.password = "admin";
  CHECK(Try(&server, client)->user == "super");
  client.user = "super@R";
  client.password = "trick";
  CHECK(absl::IsUnauthenticated(Try(&server, client).status()));
}

TEST_CASE("the limit does not tell whether a user exists") {
  Server server;
  Client guess;
  guess.password = "wrong";
  const std::string known = guess.user;
  for (const std::string& user : {known, std::string("nobody"), std::string("somebody")}) {
    guess.user = user;
    for (int i = 0; i < FailureLimit::kBurst; ++i) {
      CHECK(absl::IsUnauthenticated(Try(&server, guess).status()));
    }
    CHECK(absl::IsResourceExhausted(Try(&server, guess).status()));
  }
}

TEST_CASE("clients with the right password are not limited") {
  Server server;
  for (int i = 0; i < 3 * FailureLimit::kBurst; ++i) REQUIRE(Try(&server, Client{}).ok());
}

TEST_CASE("passwords cannot be guessed fast, and others are not delayed by who tries") {
  Server server;
  Client guess;
  guess.password = "wrong";
  for (int i = 0; i < FailureLimit::kBurst; ++i) {
    CHECK(absl::IsUnauthenticated(Try(&server, guess).status()));
  }
  CHECK(absl::IsResourceExhausted(Try(&server, guess).status()));
  CHECK(absl::IsResourceExhausted(Try(&server, Client{}).status()));  // even with the right one
  Client super;
  super.user = "super";
  super.password = "admin";
  CHECK(Try(&server, super).ok());
  server.clock.Advance(1000);
  CHECK(Try(&server, Client{}).ok());
}

}  // namespace
}  // namespace quorate::rpc::sasl
