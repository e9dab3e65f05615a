// SPDX-License-Identifier: Apache-2.0

// SASL of ZooKeeper clients (operation 102), and required authentication.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/sasl/exchange.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

// A mechanism of one or more rounds: "more" asks for another token, "is NAME" proves to be NAME,
// "limited" is not looked at, and all else fails.
class Words : public sasl::Authenticator {
 public:
  class Exchange : public sasl::ServerExchange {
   public:
    explicit Exchange(Words* words) : words_(words) {}
    absl::StatusOr<sasl::Reply> OnToken(std::string_view token) override {
      // Only a thread that does not hold the lock may ask.
      std::thread([this] { words_->found_locked |= words_->service->is_tree_locked(); }).join();
      if (token == "more") return sasl::Reply{"go on", false, {}};
      if (token == "limited") return absl::ResourceExhaustedError("too many failures");
      if (token.starts_with("is "))
        return sasl::Reply{"welcome", true, std::string(token.substr(3))};
      return absl::UnauthenticatedError("wrong\n password");
    }

   private:
    Words* const words_;
  };
  std::unique_ptr<sasl::ServerExchange> Begin(std::string_view) override {
    return std::make_unique<Exchange>(this);
  }

  FakeService* service = nullptr;
  bool found_locked = false;  // the tree was locked while a token was handled
};

struct SaslFixture : Fixture {
  explicit SaslFixture(Config c = TestConfig()) : Fixture(std::move(c)) {
    words.service = &service;
    frontend.SetAuthenticator(&words);
  }

  Words words;
};

constexpr char kNull[] = "\xff\xff\xff\xff";

// The body of a packet of SASL from either side.
std::string Token(const std::string& token) { return Path(token); }
std::string Null() { return std::string(kNull, 4); }

std::string Strings(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += Path(text);
  return bytes;
}

std::string Auth(const std::string& scheme, const std::string& credentials) {
  return std::string(4, '\0') + Strings({scheme, credentials});
}

std::string CreateWithAcl(const std::string& path, const std::vector<tree::Identity>& identities) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.String("");
  writer.Int(static_cast<int32_t>(identities.size()));
  for (const tree::Identity& identity : identities) {
    writer.Int(tree::permission::kAll);
    writer.String(identity.scheme);
    writer.String(identity.id);
  }
  writer.Int<int32_t>(0);
  return body;
}

TEST_CASE("a client that has proved its name by SASL has the identity") {
  SaslFixture f;
  const uint32_t bob = f.ConnectSession();
  const Packet more = f.Call(bob, OpCode::kSasl, Token("more"));
  CHECK(more.error == ErrorCode::kOk);
  CHECK(more.zxid == 0);
  CHECK(more.body == Token("go on"));
  CHECK_FALSE(absl::StrContains(f.Call(bob, OpCode::kWhoAmI, "").body, "sasl"));
  CHECK(f.Call(bob, OpCode::kSasl, Token("is bob")).body == Token("welcome"));
  CHECK(absl::StrContains(f.Call(bob, OpCode::kWhoAmI, "").body, Strings({"sasl", "bob"})));
  REQUIRE(f.Call(bob, OpCode::kCreate, CreateWithAcl("/n", {{"auth", ""}})).error ==
          ErrorCode::kOk);
  CHECK(f.Call(bob, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kOk);
  const uint32_t other = f.ConnectSession();
  CHECK(f.Call(other, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kNoAuth);
  const uint32_t again = f.ConnectSession();
  CHECK(f.Call(again, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(again, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kOk);
}

TEST_CASE("the tree is not locked while a token is handled") {
  SaslFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/", false));
  f.Write(tag, 2, OpCode::kSasl, Token("more"));
  f.Write(tag, 3, OpCode::kCreate, Create("/a", ""));  // the next token waits for its result
  f.Write(tag, 4, OpCode::kExists, PathAndWatch("/a", false));
  f.Write(tag, 5, OpCode::kSasl, Token("is bob"));
  f.Write(tag, 6, OpCode::kExists, PathAndWatch("/a", false));
  f.Settle();
  for (int32_t xid = 1; xid <= 6; ++xid) {
    const Packet reply = f.Next(tag);
    CHECK(reply.xid == xid);
    CHECK(reply.error == ErrorCode::kOk);
  }
  CHECK_FALSE(f.words.found_locked);
}

TEST_CASE("the tree is not locked while a token of a client that has disconnected is handled") {
  SaslFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));  // the token waits for its result
  f.Write(tag, 2, OpCode::kSasl, Token("is bob"));
  f.Write(tag, 3, OpCode::kCreate, CreateWithAcl("/bob", {{"sasl", "bob"}}));
  REQUIRE(f.sockets.HandIn(tag));
  f.loop.LockTree();  // as when another client was just served
  f.sockets.HangUp(tag);
  CHECK_FALSE(f.words.found_locked);
  f.Settle();
  const uint32_t bob = f.ConnectSession();
  CHECK(f.Call(bob, OpCode::kGetData, PathAndWatch("/bob", false)).error == ErrorCode::kNoAuth);
  REQUIRE(f.Call(bob, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(bob, OpCode::kGetData, PathAndWatch("/bob", false)).error == ErrorCode::kOk);
}

TEST_CASE("a client that fails gets AuthFailed and a null token, and is closed") {
  for (const std::string& token :
       {std::string("wrong"), std::string(), std::string(sasl::kTokenBytesMax + 1, 'x')}) {
    SaslFixture f;
    const uint32_t tag = f.ConnectSession();
    f.Write(tag, 5, OpCode::kSasl, Token(token));
    f.Write(tag, 6, OpCode::kCreate, Create("/behind", ""));
    f.Settle();
    const Packet reply = f.Next(tag);
    CHECK(reply.xid == 5);
    CHECK(reply.zxid == 0);
    CHECK(reply.error == ErrorCode::kAuthFailed);
    CHECK(reply.body == Null());
    CHECK(f.sockets.received(tag).empty());
    CHECK_FALSE(f.sockets.open(tag));
    CHECK(f.frontend.statistics().Sum().auth_failures == 1);
    CHECK(f.Call(f.ConnectSession(), OpCode::kExists, PathAndWatch("/behind", false)).error ==
          ErrorCode::kNoNode);
  }
}

TEST_CASE("a null token counts as an empty one, and what does not decode closes the connection") {
  SaslFixture f;
  const uint32_t null = f.ConnectSession();
  CHECK(f.Call(null, OpCode::kSasl, Null()).error == ErrorCode::kAuthFailed);
  const uint32_t cut = f.ConnectSession();
  f.Write(cut, 1, OpCode::kSasl, "?");
  f.Settle();
  CHECK(f.sockets.received(cut).empty());
  CHECK_FALSE(f.sockets.open(cut));
}

TEST_CASE("an attempt that is not looked at closes the connection without an answer") {
  SaslFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kSasl, Token("limited"));
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("a connection has one exchange, of a bounded number of tokens") {
  SaslFixture f;
  const uint32_t twice = f.ConnectSession();
  CHECK(f.Call(twice, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(twice, OpCode::kSasl, Token("is super")).error == ErrorCode::kAuthFailed);
  CHECK_FALSE(f.sockets.open(twice));
  const uint32_t endless = f.ConnectSession();
  for (int i = 0; i < sasl::kRoundsMax; ++i) {
    CHECK(f.Call(endless, OpCode::kSasl, Token("more")).error == ErrorCode::kOk);
  }
  CHECK(f.Call(endless, OpCode::kSasl, Token("more")).error == ErrorCode::kAuthFailed);
  CHECK_FALSE(f.sockets.open(endless));
}

TEST_CASE("with allowSaslFailedClients a client that fails goes on without the identity") {
  Config config = TestConfig();
  config.admits_clients_that_fail_sasl = true;
  SaslFixture f(config);
  const uint32_t tag = f.ConnectSession();
  for (const char* token : {"wrong", "is bob", "limited"}) {  // a failed exchange stays failed
    const Packet reply = f.Call(tag, OpCode::kSasl, Token(token));
    CHECK(reply.error == ErrorCode::kOk);
    CHECK(reply.body == Null());
  }
  CHECK_FALSE(absl::StrContains(f.Call(tag, OpCode::kWhoAmI, "").body, "sasl"));
  CHECK(f.Call(tag, OpCode::kCreate, Create("/n", "")).error == ErrorCode::kOk);
}

TEST_CASE("SASL is answered in its turn, and counts for what was asked behind it") {
  SaslFixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, CreateWithAcl("/n", {{"sasl", "bob"}})).error ==
          ErrorCode::kOk);
  f.Write(tag, 1, OpCode::kCreate, Create("/w", ""));
  f.Write(tag, 2, OpCode::kSetData, SetData("/n", ""));
  f.Write(tag, 3, OpCode::kGetData, PathAndWatch("/n", false));
  f.Write(tag, 4, OpCode::kSasl, Token("is bob"));
  f.Write(tag, 5, OpCode::kSetData, SetData("/n", ""));
  f.Write(tag, 6, OpCode::kGetData, PathAndWatch("/n", false));
  f.Settle();
  std::vector<std::pair<int32_t, ErrorCode>> answers;
  for (int i = 0; i < 6; ++i) {
    const Packet packet = f.Next(tag);
    answers.emplace_back(packet.xid, packet.error);
  }
  CHECK(answers == std::vector<std::pair<int32_t, ErrorCode>>{{1, ErrorCode::kOk},
                                                              {2, ErrorCode::kNoAuth},
                                                              {3, ErrorCode::kNoAuth},
                                                              {4, ErrorCode::kOk},
                                                              {5, ErrorCode::kOk},
                                                              {6, ErrorCode::kOk}});
}

TEST_CASE("writes behind SASL have the identity also if the client does not wait for answers") {
  SaslFixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, CreateWithAcl("/n", {{"sasl", "bob"}})).error ==
          ErrorCode::kOk);
  f.Write(tag, 1, OpCode::kCreate, Create("/w", ""));
  f.Write(tag, 2, OpCode::kSasl, Token("is bob"));
  f.Write(tag, 3, OpCode::kSetData, SetData("/n", "bob's"));
  f.sockets.Break(tag);
  f.Settle();
  f.sockets.HangUp(tag);
  f.Settle();
  const uint32_t bob = f.ConnectSession();
  REQUIRE(f.Call(bob, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(DataOf(f.Call(bob, OpCode::kGetData, PathAndWatch("/n", false))) == "bob's");
}

TEST_CASE("super users of SASL pass every list") {
  Config config = TestConfig();
  config.sasl_super_users = {"admin", "root@R"};
  SaslFixture f(config);
  const uint32_t owner = f.ConnectSession();
  REQUIRE(f.Call(owner, OpCode::kCreate, CreateWithAcl("/n", {{"digest", "u:h"}})).error ==
          ErrorCode::kOk);
  for (const auto& [user, passes] : {std::pair("admin", true), {"root@R", true}, {"root", false}}) {
    const uint32_t tag = f.ConnectSession();
    REQUIRE(f.Call(tag, OpCode::kSasl, Token(absl::StrCat("is ", user))).error == ErrorCode::kOk);
    CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/n", false)).error ==
          (passes ? ErrorCode::kOk : ErrorCode::kNoAuth));
    CHECK(absl::StrContains(f.Call(tag, OpCode::kWhoAmI, "").body, "super") == passes);
  }
}

TEST_CASE(
    "letAnySaslUserDoX names an id for every SASL user, which lists of their own do not get") {
  Config config = TestConfig();
  config.sasl_any_user_id = "anyone";
  SaslFixture f(config);
  const uint32_t bob = f.ConnectSession();
  REQUIRE(f.Call(bob, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK_FALSE(absl::StrContains(f.Call(bob, OpCode::kWhoAmI, "").body, "anyone"));
  REQUIRE(f.Call(bob, OpCode::kCreate, CreateWithAcl("/all", {{"sasl", "anyone"}})).error ==
          ErrorCode::kOk);
  REQUIRE(f.Call(bob, OpCode::kCreate, CreateWithAcl("/own", {{"auth", ""}})).error ==
          ErrorCode::kOk);
  CHECK(f.Call(bob, OpCode::kSetData, SetData("/own", "")).error == ErrorCode::kOk);
  const std::string acl = f.Call(bob, OpCode::kGetAcl, Path("/own")).body;
  CHECK(absl::StrContains(acl, Strings({"sasl", "bob"})));
  CHECK_FALSE(absl::StrContains(acl, "anyone"));
  const uint32_t eve = f.ConnectSession();
  REQUIRE(f.Call(eve, OpCode::kSasl, Token("is eve")).error == ErrorCode::kOk);
  CHECK(f.Call(eve, OpCode::kSetData, SetData("/all", "")).error == ErrorCode::kOk);
  CHECK(f.Call(eve, OpCode::kGetData, PathAndWatch("/all", false)).error == ErrorCode::kOk);
  CHECK(f.Call(eve, OpCode::kSetData, SetData("/own", "")).error == ErrorCode::kNoAuth);
  CHECK(f.Call(eve, OpCode::kGetData, PathAndWatch("/own", false)).error == ErrorCode::kNoAuth);
  const uint32_t plain = f.ConnectSession();
  CHECK(f.Call(plain, OpCode::kGetData, PathAndWatch("/all", false)).error == ErrorCode::kNoAuth);
  CHECK(f.Call(plain, OpCode::kCreate, CreateWithAcl("/none", {{"auth", ""}})).error ==
        ErrorCode::kInvalidAcl);
}

// --- Required authentication ---------------------------------------------------------------------

Config Requires(std::vector<std::string> schemes) {
  Config config = TestConfig();
  config.required_auth_schemes = std::move(schemes);
  return config;
}

TEST_CASE("without the required authentication every request closes the connection") {
  for (const auto& [op, body] : {std::pair(OpCode::kPing, std::string()),
                                 {OpCode::kCreate, Create("/n", "")},
                                 {OpCode::kExists, PathAndWatch("/", false)},
                                 {OpCode::kCloseSession, {}},
                                 {OpCode::kSync, Path("/")},
                                 {OpCode::kWhoAmI, {}},
                                 {OpCode::kSetWatches, {}},
                                 {OpCode{12345}, {}}}) {
    CAPTURE(op);
    SaslFixture f(Requires({"sasl", "digest"}));
    RecordedAudit audit;
    f.frontend.SetRequestAudit(audit.requests());
    const uint32_t tag = f.ConnectSession();
    f.Write(tag, 9, op, body);
    f.Write(tag, 10, OpCode::kSasl, Token("is bob"));
    f.Settle();
    const Packet reply = f.Next(tag);
    CHECK(reply.xid == 9);
    CHECK(reply.zxid == 0);
    CHECK(static_cast<int32_t>(reply.error) == -124);
    CHECK(reply.body.empty());
    CHECK(f.frontend.statistics().Sum().auth_failures == 1);
    const std::vector<std::string> lines = audit.Lines();
    REQUIRE_FALSE(lines.empty());
    CHECK(lines[0].find("operation=authenticate") != std::string::npos);
    CHECK(lines[0].find("required schemes: sasl, digest") != std::string::npos);
    CHECK(f.sockets.received(tag).empty());
    CHECK_FALSE(f.sockets.open(tag));
    CHECK(f.service.ReadTree()->node_count() == SaslFixture().service.ReadTree()->node_count());
  }
}

TEST_CASE("one of the required schemes suffices") {
  SaslFixture f(Requires({"sasl", "digest"}));
  const uint32_t sasl = f.ConnectSession();
  CHECK(f.Call(sasl, OpCode::kSasl, Token("more")).error == ErrorCode::kOk);
  CHECK(f.Call(sasl, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(sasl, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
  const uint32_t digest = f.ConnectSession();
  CHECK(f.Call(digest, OpCode::kAuth, Auth("digest", "u:p")).error == ErrorCode::kOk);
  CHECK(f.Call(digest, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kOk);
  SaslFixture x509(Requires({"x509"}));
  const uint32_t certified = x509.sockets.ConnectWithCertificate("CN=a");
  x509.sockets.Write(certified, ConnectPacket({}));
  x509.Settle();
  x509.Frame(certified);
  CHECK(x509.Call(certified, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
  const uint32_t other = x509.ConnectSession();
  CHECK(x509.Call(other, OpCode::kAuth, Auth("digest", "u:p")).error == ErrorCode::kOk);
  CHECK(x509.Call(other, OpCode::kCreate, Create("/b", "")).error == kRequiredAuthMissing);
  SaslFixture ip(Requires({"ip"}));
  CHECK(ip.Call(ip.ConnectSession(), OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
}

TEST_CASE("who fails at a required SASL gets its error, and never goes on") {
  Config config = Requires({"sasl"});
  config.admits_clients_that_fail_sasl = GENERATE(true, false);
  SaslFixture f(config);
  const uint32_t tag = f.ConnectSession();
  const Packet reply = f.Call(tag, OpCode::kSasl, Token("wrong"));
  CHECK(reply.error == kRequiredAuthMissing);
  CHECK(reply.body == Null());
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("without SASL on the server, an attempt does not count as the required one") {
  Fixture f(Requires({"sasl", "digest"}));
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/n", "")).error == kRequiredAuthMissing);
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("requests of a client that takes no answers need the required authentication too") {
  SaslFixture f(Requires({"sasl"}));
  for (const std::string first : {"more", "is bob"}) {
    CAPTURE(first);
    const uint32_t tag = f.ConnectSession();
    f.sockets.Break(tag);
    f.Write(tag, 1, OpCode::kSasl, Token(first));
    f.Settle();  // the answer cannot be sent
    REQUIRE(f.sockets.open(tag));
    f.Write(tag, 2, OpCode::kCreate, Create("/n", ""));
    f.Settle();
    if (f.sockets.open(tag)) f.sockets.HangUp(tag);
    f.Settle();
    const uint32_t bob = f.ConnectSession();
    REQUIRE(f.Call(bob, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
    CHECK(f.Call(bob, OpCode::kExists, PathAndWatch("/n", false)).error ==
          (first == "is bob" ? ErrorCode::kOk : ErrorCode::kNoNode));
  }
}

TEST_CASE("a session that moves to another connection authenticates there again") {
  SaslFixture f(Requires({"sasl"}));
  ConnectResponse session;
  const uint32_t first = f.ConnectSession(&session);
  REQUIRE(f.Call(first, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  const uint32_t second =
      f.ConnectSession(&session, {.session = session.session_id, .password = session.password});
  CHECK(f.Call(second, OpCode::kCreate, Create("/n", "")).error == kRequiredAuthMissing);
  const uint32_t third =
      f.ConnectSession(&session, {.session = session.session_id, .password = session.password});
  CHECK(f.Call(third, OpCode::kSasl, Token("is bob")).error == ErrorCode::kOk);
  CHECK(f.Call(third, OpCode::kCreate, Create("/n", "")).error == ErrorCode::kOk);
}

}  // namespace
}  // namespace quorate::rpc::zk
