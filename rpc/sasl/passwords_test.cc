// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/passwords.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/manual_clock.h"
#include "rpc/sasl/testing/digest_md5_client.h"

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
  explicit Server(bool removes = false, const std::string& bobs_password = "secret") {
    auto made = Passwords::Create({{"bob", bobs_password},
                                   {"super", "admin"},
                                   {"eve@OTHER", "evil"},
                                   {"super@R", "trick"},
                                   {"j\xC3\xBCrgen", "p"}},
                                  IdMapping(*NameRules::Parse("DEFAULT", "R"), removes, removes),
                                  &random, &clock);
    REQUIRE(made.ok());
    passwords = *std::move(made);
  }

  CountingRandom random;
  ManualClock clock{1000};
  std::unique_ptr<Passwords> passwords;
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
  auto exchange = server->passwords->Begin("10.0.0.1");
  const auto challenge = exchange->OnToken(first_token);
  REQUIRE(challenge.ok());
  CHECK_FALSE(challenge->is_done);
  const std::string text = challenge->token.value();
  client->nonce = NonceOf(text);
  CHECK(client->nonce.size() >= 40);
  CHECK(text == absl::StrCat("nonce=\"", client->nonce,
                             "\",realm=\"zk-sasl-md5\",qop=\"auth\",charset=utf-8,"
                             "algorithm=md5-sess"));
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
  client.more = ",nc=00000001";  // no charset, qop or maxbuf
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
  client.more = ",nc=00000001";
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
  CHECK(fails([](Client* c) { c->user = " bob"; }));
  CHECK(fails([](Client* c) { c->user = "bob@zk-sasl-md5"; }));
  CHECK(fails([](Client* c) { c->user = "nobody"; }));
  CHECK(fails([](Client* c) {
    c->user = "nobody";
    c->password = c->nonce;
  }));
  CHECK(fails([](Client* c) { c->user = ""; }));
  CHECK(fails([](Client* c) { c->user = std::string(2000, 'b'); }));
  CHECK(fails([](Client* c) { c->realm = "other"; }));
  CHECK(fails([](Client* c) { c->nonce = "AAAA"; }));
  CHECK(fails([](Client* c) { c->uri = "other/zk-sasl-md5"; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,qop=auth-conf"; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,qop=auth-int"; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000002"; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,charset=utf-16"; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,authzid=\"\""; }));
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,authzid=bob"; }));  // not hashed
  CHECK(fails([](Client* c) { c->more = ",nc=00000001,nonce=again"; }));
  CHECK_FALSE(fails([](Client*) {}));
  for (const char* key : {"username", "realm", "nonce", "cnonce", "digest-uri", "response", "nc"}) {
    CAPTURE(key);
    Client client;
    auto exchange = Begin(&server, &client);
    const std::string without = absl::StrReplaceAll(absl::StrCat(",", client.Response()),
                                                    {{absl::StrCat(",", key, "="), ",x-other="}});
    CHECK(absl::IsUnauthenticated(exchange->OnToken(without).status()));
  }
}

TEST_CASE("tokens that are no response are refused") {
  Server server;
  for (const std::string& token :
       {std::string(), std::string("="), std::string("a"), std::string("username=\"bob"),
        std::string("\0username=bob", 13), std::string(4000, '"'), std::string(4096, ','),
        std::string(4097, 'a'), std::string(kTokenBytesMax, 'a'), std::string("maxbuf=1"),
        std::string("maxbuf=99999999999999999999"), std::string("nc=x"),
        std::string("\xff\xfe=\x80")}) {
    Client client;
    auto exchange = Begin(&server, &client);
    CAPTURE(token.substr(0, 20), token.size());
    const auto reply = exchange->OnToken(token);
    CHECK(absl::IsUnauthenticated(reply.status()));
    CHECK_FALSE(reply.status().message().empty());
  }
}

// Clients of ZooKeeper send none of these; Java's server refuses them.
TEST_CASE("Cyrus SASL accepts another host, a charset in capitals, and its own realm or none") {
  Server server;
  Client client;
  client.uri = "zookeeper/other";
  CHECK(Try(&server, client)->user == "bob");
  client = {};
  client.more = ",nc=00000001,charset=UTF-8";
  CHECK(Try(&server, client)->user == "bob");
  // The user is then the one with the realm in the name, with the password of that user.
  client = {};
  client.user = "eve";
  client.realm = "OTHER";
  client.password = "evil";
  CHECK(Try(&server, client)->user == "eve@OTHER");
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

TEST_CASE("a response cannot be the first token, also after an exchange has succeeded with it") {
  Server server;
  Client client;
  auto first = Begin(&server, &client);
  const std::string response = client.Response();
  REQUIRE(first->OnToken(response)->is_done);
  first.reset();
  auto second = Begin(&server, &client, response);
  CHECK(absl::IsUnauthenticated(second->OnToken(response).status()));
}

TEST_CASE("servers of one process have their own users, and exchanges may overlap") {
  Server here(/*removes=*/false, "secret");
  Server there(/*removes=*/false, "other");
  Client first;
  Client second;
  Client wrong;
  auto to_here = Begin(&here, &first);
  auto to_there = Begin(&there, &second);
  auto to_there_too = Begin(&there, &wrong);
  second.password = "other";
  CHECK(absl::IsUnauthenticated(to_there_too->OnToken(wrong.Response()).status()));
  CHECK(to_there->OnToken(second.Response())->user == "bob");
  CHECK(to_here->OnToken(first.Response())->user == "bob");
}

TEST_CASE("threads run exchanges at once") {
  constexpr int kThreads = 8;
  constexpr int kExchanges = 100;
  Server server;
  std::vector<int> right(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&server, &right, number] {
      for (int i = 0; i < kExchanges; ++i) {
        const std::string address = absl::StrCat("10.0.0.", number);
        auto exchange = server.passwords->Begin(address);
        const auto challenge = exchange->OnToken("");
        if (!challenge.ok()) return;
        Client client;
        client.nonce = NonceOf(*challenge->token);
        const bool knows = i % 20 != 0;  // within the limit of failures
        if (!knows) client.password = "wrong";
        const auto reply = exchange->OnToken(client.Response());
        if (reply.ok() == knows && (!knows || reply->user == "bob")) ++right[number];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(kThreads, kExchanges));
}

// Returns the bytes that malloc has given out; 0 with a sanitizer.
size_t AllocatedBytes() { return mallinfo2().uordblks; }

TEST_CASE("an exchange in progress takes no more than what is counted for it") {
  constexpr size_t kCount = 1000;
  Server server;
  Client client;
  std::vector<std::unique_ptr<ServerExchange>> open;
  open.reserve(kCount + 1);
  open.push_back(Begin(&server, &client));
  const size_t before = AllocatedBytes();
  for (size_t i = 0; i < kCount; ++i) {
    open.push_back(server.passwords->Begin("10.0.0.1"));
    REQUIRE(open.back()->OnToken("").ok());
  }
  const size_t each = (AllocatedBytes() - before) / kCount;
  CHECK(each <= kExchangeBytes);
  // The count is not far too high either.
  if (AllocatedBytes() != 0) CHECK(each >= kExchangeBytes / 4);
  const size_t with_all = AllocatedBytes();
  open.clear();
  CHECK(AllocatedBytes() + kCount * each / 2 <= with_all + 1);
}

TEST_CASE("keys that a client sends many times do not fill the memory") {
  constexpr int kExchanges = 300;
  Server server;
  std::string many;
  while (many.size() < 4000)
    absl::StrAppend(&many, "username=bob,nonce=x,charset=utf-8,authzid=a,");
  const auto attempt = [&server, &many] {
    Client client;
    auto exchange = Begin(&server, &client);
    CHECK(absl::IsUnauthenticated(exchange->OnToken(many.substr(0, 4000)).status()));
  };
  attempt();
  const size_t before = AllocatedBytes();
  for (int i = 0; i < kExchanges; ++i) attempt();
  CHECK(AllocatedBytes() <= before + size_t{kExchanges} * 100);
}

}  // namespace
}  // namespace quorate::rpc::sasl
