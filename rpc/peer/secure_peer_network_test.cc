// SPDX-License-Identifier: Apache-2.0

// PeerNetwork with TLS and with a secret: what members can do, and what others cannot.

#include <openssl/ssl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/member_secret.h"
#include "rpc/peer/peer_network.h"
#include "rpc/peer/peer_stream.h"
#include "rpc/peer/testing/pair.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using Catch::Contains;
using consensus::MemberId;
using peer_testing::HeartbeatOf;
using peer_testing::HeartbeatTo;
using peer_testing::kCluster;
using peer_testing::Loopback;
using peer_testing::Pair;
using tls::MakeIdentity;
using tls::TestIdentity;
using tls::ToPem;
using tls::WriteTestFile;

constexpr char kBothRoles[] = "serverAuth,clientAuth";
constexpr char kOwnNames[] = "IP:127.0.0.1,DNS:localhost";

// Makes the settings of members whose certificates come from one CA.
class Authority {
 public:
  explicit Authority(std::string name) : name_(std::move(name)) {}

  TestIdentity Issue(const std::string& names = kOwnNames, long ends_s = 86400) const {
    return MakeIdentity({.common_name = "member",
                         .issuer = &ca_,
                         .names = names,
                         .usage = kBothRoles,
                         .ends_s = ends_s});
  }
  // Returns settings for TLS only, with `identity`, which trust this CA.
  PeerSecurity Secure(const TestIdentity& identity) const {
    static int count = 0;
    tls::Options options;
    options.connects = true;
    options.key_store.location =
        WriteTestFile("member" + std::to_string(++count) + ".pem",
                      ToPem(identity.key.get()) + ToPem(identity.certificate.get()));
    options.trust_store.location =
        WriteTestFile(name_ + std::to_string(count), ToPem(ca_.certificate.get()));
    auto context = tls::CurrentContext::Create(options, /*reloads=*/false);
    REQUIRE(context.ok());
    PeerSecurity security;
    security.tls = *std::move(context);
    security.connects_with_tls = true;
    security.accepts_tls = true;
    security.accepts_plain = false;
    return security;
  }
  PeerSecurity Secure() const { return Secure(Issue()); }
  const X509* certificate() const { return ca_.certificate.get(); }

 private:
  const std::string name_;
  const TestIdentity ca_ = MakeIdentity({.common_name = name_, .is_ca = true});
};

PeerSecurity WithSecret(const std::string& secret, PeerSecurity security = {},
                        bool is_required = true) {
  security.secret = secret;
  security.secret_required = is_required;
  return security;
}

const std::string kSecret = "a secret of some length";

// Starts both members, with these settings, and waits until each is connected to the other.
void Connect(Pair* pair, const PeerSecurity& first, const PeerSecurity& second) {
  pair->Secure(1, first);
  pair->Secure(2, second);
  pair->Start(1, kCluster);
  pair->Start(2, kCluster);
  pair->Await([&] { return pair->end(1).ups == 1 && pair->end(2).ups == 1; });
}

// Waits until member `id` knows a reason with `text` why it is not connected to the other one.
void AwaitProblem(Pair* pair, uint32_t id, const std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string problem;
  while ((problem = pair->network(id).ProblemOf(MemberId(3 - id))).find(text) == problem.npos) {
    if (std::chrono::steady_clock::now() > end) FAIL("it is \"" << problem << "\", not " << text);
    std::this_thread::yield();
  }
}

// Starts both members, and checks that neither reaches the other, for these reasons.
void CheckRefused(const PeerSecurity& first, const PeerSecurity& second,
                  const std::string& at_first, const std::string& at_second) {
  Pair pair;
  pair.Secure(1, first);
  pair.Secure(2, second);
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  AwaitProblem(&pair, 1, at_first);
  AwaitProblem(&pair, 2, at_second);
  CHECK(pair.Locked(pair.end(1).ups) == 0);
  CHECK(pair.Locked(pair.end(2).ups) == 0);
}

// --- TLS -----------------------------------------------------------------------------------------

TEST_CASE("messages and large writes pass through TLS in order, from several threads") {
  const Authority authority("ca");
  Pair pair;
  Connect(&pair, authority.Secure(), authority.Secure());
  const std::string large(20u << 20, 'x');
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&] {
      pair.network(1).Forward(MemberId(2), {large});
      for (int small = 0; small < 100; ++small) pair.network(1).Forward(MemberId(2), {"small"});
    });
  }
  std::vector<uint64_t> sent;
  for (uint64_t round = 1; round <= 500; ++round) {
    pair.network(1).Send({HeartbeatOf(round)});
    sent.push_back(round);
  }
  for (std::thread& writer : writers) writer.join();
  pair.Await([&] { return pair.end(2).commands.size() == 202 && pair.end(2).rounds == sent; });
  const std::vector<std::string>& commands = pair.end(2).commands;
  CHECK(std::count(commands.begin(), commands.end(), "small") == 200);
  CHECK(std::count(commands.begin(), commands.end(), large) == 2);
  CHECK(pair.Locked(pair.end(1).downs) == 0);
}

TEST_CASE("a member with TLS that stops is found again when it is back") {
  const Authority authority("ca");
  Pair pair;
  Connect(&pair, authority.Secure(), authority.Secure());
  pair.Stop(2);
  pair.Await([&] { return pair.end(1).downs == 2; });
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 2; });
  pair.network(1).Send({HeartbeatOf(2)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
}

TEST_CASE("a certificate of another authority is refused, and both say so") {
  const Authority authority("ca");
  const Authority other("other");
  CheckRefused(authority.Secure(), other.Secure(), "the server's certificate is refused",
               "the server's certificate is refused");
}

TEST_CASE("a certificate that has expired is refused, and both say so") {
  const Authority authority("ca");
  CheckRefused(authority.Secure(), authority.Secure(authority.Issue(kOwnNames, -60)),
               "the server's certificate is refused: certificate has expired",
               "certificate expired");
}

TEST_CASE("a certificate for another host is refused by both ends") {
  const Authority authority("ca");
  const PeerSecurity wrong = authority.Secure(authority.Issue("IP:127.0.0.2,DNS:a.example.com"));
  CheckRefused(
      authority.Secure(), wrong, "is not for the host 127.0.0.1, but for 127.0.0.2, a.example.com",
      "is not for the host 127.0.0.1, but for 127.0.0.2, a.example.com, which server 1 has "
      "in its line server.2");
  // Each of the two checks can be turned off.
  PeerSecurity without = authority.Secure();
  without.checks_names = false;
  Pair pair;
  Connect(&pair, without, wrong);
  PeerSecurity half = authority.Secure();
  half.checks_names_of_connecting = false;
  Pair other;
  other.Secure(1, half);
  other.Secure(2, wrong);
  other.Start(1, kCluster);
  other.Start(2, kCluster);
  other.Await([&] { return other.end(2).ups == 1; });
  AwaitProblem(&other, 1, "is not for the host");
}

TEST_CASE("members by name need that name in their certificates") {
  const Authority authority("ca");
  Pair pair;
  pair.Name(1, "localhost");
  pair.Name(2, "localhost");
  pair.ListenEverywhere();
  Connect(&pair, authority.Secure(authority.Issue("DNS:localhost")),
          authority.Secure(authority.Issue("DNS:LOCALHOST")));
}

TEST_CASE("with and without TLS do not meet, and both say so, also in their logs") {
  const Authority authority("ca");
  std::ostringstream log;
  const spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  spdlog::default_logger()->sinks().push_back(sink);
  CheckRefused(authority.Secure(), PeerSecurity(), "does it take TLS from servers",
               "does it take only TLS from servers");
  std::erase(spdlog::default_logger()->sinks(), sink);
  CHECK_THAT(log.str(), Contains("cannot connect to server 2"));
  CHECK_THAT(log.str(), Contains("cannot connect to server 1"));
}

TEST_CASE("members meet in each step of the switch to TLS") {
  const Authority authority("ca");
  const PeerSecurity plain;
  PeerSecurity both = authority.Secure();
  both.connects_with_tls = false;
  both.accepts_plain = true;
  PeerSecurity switched = authority.Secure();
  switched.accepts_plain = true;
  const PeerSecurity only = authority.Secure();
  for (const auto& [first, second] :
       {std::pair(plain, both), std::pair(both, both), std::pair(both, switched),
        std::pair(switched, switched), std::pair(switched, only), std::pair(only, only)}) {
    Pair pair;
    Connect(&pair, first, second);
    pair.network(1).Send({HeartbeatOf(1)});
    pair.network(2).Send({HeartbeatTo(1)});
    pair.Await([&] { return !pair.end(1).rounds.empty() && !pair.end(2).rounds.empty(); });
  }
}

// --- Others at the port of a member --------------------------------------------------------------

// A socket of a test that acts as a member.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : socket_(context_) { socket_.connect(Loopback(port)); }
  explicit RawPeer(tcp::acceptor* acceptor) : socket_(context_) { acceptor->accept(socket_); }

  void Send(const std::string& bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }
  template <class Append>
  void SendBatch(Append append) {
    std::string frames;
    append(&frames);
    SealFrames(&frames);
    std::string length(kBatchLengthBytes, '\0');
    StoreInt<std::endian::little>(length.data(), static_cast<uint32_t>(frames.size()));
    Send(length + frames);
  }
  // Returns the next batch of a greeting.
  PeerBatch Next() {
    for (;;) {
      auto bytes = reader_.Next();
      REQUIRE(bytes.ok());
      if (*bytes != nullptr) {
        auto batch = FrameDecoder::DecodeGreeting(*std::move(bytes));
        REQUIRE(batch.ok());
        return *std::move(batch);
      }
      const std::span<char> space = reader_.Space();
      reader_.Added(socket_.read_some(boost::asio::buffer(space.data(), space.size())));
    }
  }
  // Returns all that comes until the other end closes the connection.
  std::string Rest() {
    std::string rest;
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(rest), error);
    return rest;
  }
  int descriptor() { return socket_.native_handle(); }

 private:
  boost::asio::io_context context_;
  tcp::socket socket_;
  BatchReader reader_{64u << 10};
};

Hello HelloOf(uint32_t from, uint32_t to, const std::string& nonce = "") {
  return {
      kPeerProtocolVersion, MemberId(from), MemberId(to), kCluster, kPeerProtocolNewest, 77, nonce};
}

TEST_CASE("who does not use TLS gets no word from a member that takes only TLS") {
  const Authority authority("ca");
  Pair pair;
  pair.Secure(1, authority.Secure());
  pair.Start(1, kCluster);
  RawPeer plain(pair.address(1).port);
  plain.SendBatch([](std::string* out) { AppendHelloFrame(HelloOf(2, 1), out); });
  CHECK(plain.Rest().empty());
  RawPeer garbage(pair.address(1).port);
  garbage.Send("\x16\x03\x01" + std::string(5000, '\xff'));
  CHECK(garbage.Rest().size() < 32);  // an alert
}

TEST_CASE("who has no certificate can send nothing that is decoded") {
  const Authority authority("ca");
  Pair pair;
  pair.Secure(1, authority.Secure());
  pair.Start(1, kCluster);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const std::unique_ptr<SSL_CTX, tls::OpensslDeleter<SSL_CTX_free>> context(
        SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_max_proto_version(context.get(), version);
    const tls::Context::SslPtr ssl(SSL_new(context.get()));
    RawPeer stranger(pair.address(1).port);
    SSL_set_fd(ssl.get(), stranger.descriptor());
    std::string frames;
    AppendHelloFrame(HelloOf(2, 1), &frames);
    SealFrames(&frames);
    frames = std::string{static_cast<char>(frames.size()), 0, 0, 0} + frames;
    const bool is_connected = SSL_connect(ssl.get()) == 1;
    CHECK(is_connected == (version == TLS1_3_VERSION));
    if (is_connected) SSL_write(ssl.get(), frames.data(), static_cast<int>(frames.size()));
    char answer[100];
    CHECK(SSL_read(ssl.get(), answer, sizeof(answer)) <= 0);
  }
  CHECK(pair.Locked(pair.end(1).downs) == 0);
}

TEST_CASE("half handshakes, also many, keep no member out") {
  const Authority authority("ca");
  Pair pair;
  PeerSecurity first = authority.Secure();
  first.accepts_plain = true;
  first.handshake_timeout = std::chrono::milliseconds(300);
  pair.Secure(1, first);
  pair.Secure(2, authority.Secure());
  pair.Start(1, kCluster);
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawPeer>(pair.address(1).port));
    if (i % 2 == 0) idle.back()->Send(std::string("\x16\x03\x01\x40\x00\x01", 6));
  }
  pair.Start(2, kCluster);
  pair.Await([&] { return pair.end(1).ups == 1 && pair.end(2).ups == 1; });
  // Each ends by itself.
  CHECK(idle[198]->Rest().empty());
  CHECK(idle[199]->Rest().empty());
}

TEST_CASE("a message that names another sender than the connection's closes it") {
  Pair pair;
  Connect(&pair, PeerSecurity(), PeerSecurity());
  consensus::Message message = HeartbeatOf(1);
  message.from = MemberId(3);
  pair.network(1).Send({message});
  pair.Await([&] { return pair.end(1).downs > 0 && pair.end(2).downs > 0; });
  pair.Await([&] { return pair.end(1).ups == 2; });
  CHECK(pair.Locked(pair.end(2).rounds).empty());
}

TEST_CASE("a member that is asked by TLS keeps the identity of its certificate") {
  const Authority authority("ca");
  // Member 2 of the test has a certificate for another host than that of member 2.
  Pair pair;
  pair.Name(2, "localhost");
  pair.Secure(1, authority.Secure());
  pair.Secure(2, authority.Secure(authority.Issue("IP:127.0.0.1")));
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  AwaitProblem(&pair, 2, "is not for the host localhost, but for 127.0.0.1, which server 1 has");
}

// --- The secret ----------------------------------------------------------------------------------

TEST_CASE("members with the same secret meet, with and without TLS") {
  const Authority authority("ca");
  {
    Pair pair;
    Connect(&pair, WithSecret(kSecret), WithSecret(kSecret));
    pair.network(1).Send({HeartbeatOf(1)});
    pair.Await([&] { return !pair.end(2).rounds.empty(); });
  }
  Pair pair;
  Connect(&pair, WithSecret(kSecret, authority.Secure()), WithSecret(kSecret, authority.Secure()));
  pair.network(1).Send({HeartbeatOf(1)});
  pair.Await([&] { return !pair.end(2).rounds.empty(); });
}

TEST_CASE("a member with another secret, or none, is refused, and both say so") {
  CheckRefused(WithSecret(kSecret), WithSecret("another secret, as long"),
               "the secret (memberSecretFile) of this server is another one",
               "the secret (memberSecretFile) of this server is another one");
  CheckRefused(WithSecret(kSecret), PeerSecurity(), "it asks for no proof of the secret",
               "servers have to prove a secret here, and this one has none");
}

TEST_CASE("while the secret is not required, members with it, without it, and with another meet") {
  const PeerSecurity optional = WithSecret(kSecret, {}, /*is_required=*/false);
  for (const auto& [first, second] :
       {std::pair(optional, PeerSecurity()), std::pair(optional, optional),
        std::pair(optional, WithSecret(kSecret)),
        std::pair(optional, WithSecret("another secret, as long", {}, false))}) {
    Pair pair;
    Connect(&pair, first, second);
  }
}

TEST_CASE("a required secret is enough: a member with another one stays out of a tolerant one") {
  Pair pair;
  pair.Secure(1, WithSecret(kSecret));
  pair.Secure(2, WithSecret("another secret, as long", {}, /*is_required=*/false));
  pair.Start(1, kCluster);
  pair.Start(2, kCluster);
  AwaitProblem(&pair, 1, "it does not prove the secret");
  AwaitProblem(&pair, 2, "is another one");
  CHECK(pair.Locked(pair.end(1).ups) == 0);
  CHECK(pair.Locked(pair.end(2).ups) == 0);
}

// Returns the challenge of member 1 for a hello of member 2.
std::string ChallengeFor(RawPeer* peer, const Hello& hello) {
  peer->SendBatch([&](std::string* out) { AppendHelloFrame(hello, out); });
  const PeerBatch batch = peer->Next();
  REQUIRE(batch.challenge.has_value());
  CHECK_FALSE(batch.answer.has_value());
  return batch.challenge->nonce;
}

TEST_CASE("without the secret, nothing but a hello is taken, and nothing is told") {
  Pair pair;
  pair.Secure(1, WithSecret(kSecret));
  pair.Start(1, kCluster);
  const std::string nonce(kNonceBytes, 'n');
  const auto refused = [&](auto append) {
    RawPeer stranger(pair.address(1).port);
    ChallengeFor(&stranger, HelloOf(2, 1, nonce));
    stranger.SendBatch(append);
    const PeerBatch batch = stranger.Next();
    REQUIRE(batch.answer.has_value());
    CHECK_FALSE(batch.answer->accepted);
    CHECK(batch.answer->proof.empty());
    CHECK(batch.answer->cluster_id.empty());
    CHECK(stranger.Rest().empty());
    return batch.answer->reason;
  };
  CHECK_THAT(refused([](std::string* out) { AppendProofFrame({std::string(32, 'p')}, out); }),
             Contains("is another one"));
  CHECK_THAT(refused([](std::string* out) { AppendTouchFrame({1}, out); }), Contains("hello"));
  CHECK_THAT(refused([&](std::string* out) { AppendHelloFrame(HelloOf(2, 1, nonce), out); }),
             Contains("hello"));
  // A hello of another cluster, or for another server, learns nothing before the proof.
  RawPeer other(pair.address(1).port);
  Hello hello = HelloOf(2, 9, nonce);
  hello.cluster_id = std::string(16, 'd');
  ChallengeFor(&other, hello);
  CHECK(pair.Locked(pair.end(1).touched).empty());
}

TEST_CASE("a proof is good for one connection") {
  Pair pair;
  pair.Secure(1, WithSecret(kSecret));
  pair.Start(1, kCluster);
  Greeting greeting{HelloOf(2, 1, std::string(kNonceBytes, 'n')), "", ""};
  std::string proof;
  {
    RawPeer member(pair.address(1).port);
    greeting.nonce = ChallengeFor(&member, greeting.hello);
    proof = ConnectingProof(kSecret, greeting);
    member.SendBatch([&](std::string* out) { AppendProofFrame({proof}, out); });
    const PeerBatch batch = member.Next();
    REQUIRE(batch.answer.has_value());
    CHECK(batch.answer->accepted);
    CHECK(batch.answer->proof == AcceptingProof(kSecret, greeting, *batch.answer));
  }
  RawPeer replay(pair.address(1).port);
  CHECK(ChallengeFor(&replay, greeting.hello) != greeting.nonce);
  replay.SendBatch([&](std::string* out) { AppendProofFrame({proof}, out); });
  CHECK_FALSE(replay.Next().answer->accepted);
}

TEST_CASE("a proof that a member made for another server, or for itself, is refused") {
  Pair pair;
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, Loopback(pair.address(2).port));
  pair.Secure(1, WithSecret(kSecret));
  pair.Start(1, kCluster);
  // The test is at the address of member 2, has no secret, and has member 1 answer its challenges.
  const auto attack = [&](Hello (*change)(Hello)) {
    RawPeer from_member(&acceptor);
    const Hello hello = *from_member.Next().hello;
    REQUIRE(hello.nonce.size() == kNonceBytes);
    RawPeer to_member(pair.address(1).port);
    const std::string nonce = ChallengeFor(&to_member, change(hello));
    from_member.SendBatch([&](std::string* out) { AppendChallengeFrame({nonce}, out); });
    const std::string proof = from_member.Next().proof->proof;
    to_member.SendBatch([&](std::string* out) { AppendProofFrame({proof}, out); });
    const PeerBatch answer = to_member.Next();
    REQUIRE(answer.answer.has_value());
    CHECK_FALSE(answer.answer->accepted);
    CHECK_THAT(answer.answer->reason, !Contains("server 1"));
    // Nor is an answer without a proof, or with the proof of the member itself.
    from_member.SendBatch([&](std::string* out) {
      AppendAnswerFrame({true, "", "", kPeerProtocolNewest, 5, proof}, out);
    });
    CHECK(from_member.Rest().empty());
  };
  attack([](Hello hello) {
    std::swap(hello.from, hello.to);
    return hello;
  });
  attack([](Hello hello) {
    hello.from = MemberId(2);
    return hello;
  });
  CHECK(pair.Locked(pair.end(1).ups) == 0);
}

TEST_CASE("who has no proof cannot make a member believe that it is of another cluster") {
  Pair pair;
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, Loopback(pair.address(2).port));
  pair.Secure(1, WithSecret(kSecret));
  pair.Start(1, kCluster);
  for (int attempt = 0; attempt < 2; ++attempt) {
    RawPeer from_member(&acceptor);
    from_member.Next();
    from_member.SendBatch([&](std::string* out) {
      AppendAnswerFrame({false, "reason\nof somebody", std::string(16, 'd')}, out);
    });
    CHECK(from_member.Rest().empty());
  }
  CHECK(pair.Locked(pair.end(1).other_cluster).empty());
  AwaitProblem(&pair, 1, "reason?of somebody");
}

TEST_CASE("members of two clusters with one secret are told whose cluster it is") {
  Pair pair;
  pair.Secure(1, WithSecret(kSecret));
  pair.Secure(2, WithSecret(kSecret));
  pair.Start(1, kCluster);
  pair.Start(2, std::string(16, 'd'));
  pair.Await([&] { return !pair.end(1).other_cluster.empty(); });
  CHECK(pair.Locked(pair.end(1).other_cluster) == std::string(16, 'd'));
}

}  // namespace
}  // namespace quorate::rpc
