// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_receiver.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;

// Records the calls of a receiver, and answers them as the test says.
struct TestOwner : PeerReceiver::Owner, PeerHandler {
  bool MayHandshake() override { return may_handshake; }
  void OnHandshakeTime(PeerReceiver::Clock::duration) override { ++steps; }
  std::string CertificateProblem(const Hello&, const X509*) override { return ""; }
  HelloAnswer OnHello(const Hello&, const std::string&) override {
    return {accepts, accepts ? "" : "refused", ""};
  }
  void OnAccepted(PeerReceiver*) override { calls.push_back("accepted"); }
  void OnRefused(const std::string&, const std::string& why) override { calls.push_back(why); }
  void OnUnproved(MemberId, const std::string&) override { calls.push_back("unproved"); }
  void OnEnd(PeerReceiver*) override { calls.push_back("end"); }

  absl::Status OnPeerBatch(MemberId, PeerBatch) override { return absl::OkStatus(); }
  void OnPeerUp(MemberId) override {}
  void OnPeerDown(MemberId) override {}
  void OnOtherCluster(MemberId, const std::string&) override {}

  bool may_handshake = true;
  bool accepts = true;
  int steps = 0;
  std::vector<std::string> calls;
};

// A receiver, and the other end of its connection.
struct Connection {
  explicit Connection(PeerSecurity of_receiver) : security(std::move(of_receiver)) {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
    client = std::make_unique<PeerStream>(Descriptor(sockets[0]));
    receiver = std::make_shared<PeerReceiver>(&poller, Descriptor(sockets[1]), "host", "host:1",
                                              &security, &owner, &owner);
    receiver->Start();
  }
  void Poll() { poller.Poll(Poller::Clock::now() + std::chrono::milliseconds(1)); }
  void SendHello() {
    std::string frames;
    AppendHelloFrame({kPeerProtocolVersion, MemberId(2), MemberId(1), std::string(16, 'c')},
                     &frames);
    SealFrames(&frames);
    std::string length(kBatchLengthBytes, '\0');
    StoreInt<std::endian::little>(length.data(), static_cast<uint32_t>(frames.size()));
    const std::string_view parts[] = {length, frames};
    REQUIRE(client->Send(parts).bytes == length.size() + frames.size());
  }

  Poller poller;
  TestOwner owner;
  PeerSecurity security;
  std::unique_ptr<PeerStream> client;
  std::shared_ptr<PeerReceiver> receiver;
};

PeerSecurity WithTls() {
  const tls::TestIdentity ca = tls::MakeIdentity({.common_name = "ca", .is_ca = true});
  const tls::TestIdentity own = tls::MakeIdentity({.common_name = "own", .issuer = &ca});
  tls::Options options;
  options.connects = true;
  options.key_store.location =
      tls::WriteTestFile("own.pem", tls::ToPem(own.key.get()) + tls::ToPem(own.certificate.get()));
  options.trust_store.location = tls::WriteTestFile("ca.pem", tls::ToPem(ca.certificate.get()));
  auto context = tls::CurrentContext::Create(options, /*reloads=*/false);
  REQUIRE(context.ok());
  PeerSecurity security;
  security.tls = *std::move(context);
  security.accepts_tls = true;
  return security;
}

TEST_CASE("a greeting over TLS waits for time as the handshake does, and its time counts") {
  Connection connection(WithTls());
  connection.client->StartTls(connection.security.tls->Get()->NewClient("localhost"));
  PeerStream::Progress progress = PeerStream::Progress::kBlocked;
  for (int round = 0; round < 50 && progress == PeerStream::Progress::kBlocked; ++round) {
    progress = connection.client->Handshake();
    connection.Poll();
  }
  REQUIRE(progress == PeerStream::Progress::kDone);
  connection.Poll();
  const int steps = connection.owner.steps;
  connection.owner.may_handshake = false;
  connection.SendHello();
  connection.Poll();
  CHECK(connection.receiver->waits_for_time());
  CHECK(connection.owner.calls.empty());
  connection.Poll();
  CHECK(connection.owner.steps == steps);
  connection.owner.may_handshake = true;
  connection.receiver->ContinueHandshake();
  CHECK_FALSE(connection.receiver->waits_for_time());
  CHECK(connection.owner.steps == steps + 1);
  CHECK(connection.receiver->from() == MemberId(2));
  // The socket is waited for again, and without the budget.
  connection.owner.may_handshake = false;
  connection.client->Shutdown();
  connection.Poll();
  CHECK(connection.owner.calls == std::vector<std::string>{"accepted", "end"});
}

TEST_CASE("a server that proves no secret is reported once it is accepted") {
  PeerSecurity security;
  security.secret = "a secret of some length";
  security.secret_required = false;
  Connection accepted(security);
  accepted.SendHello();
  accepted.Poll();
  CHECK(accepted.owner.calls == std::vector<std::string>{"accepted", "unproved"});
  Connection refused(security);
  refused.owner.accepts = false;
  refused.SendHello();
  refused.Poll();
  CHECK(refused.owner.calls == std::vector<std::string>{"refused", "end"});
}

}  // namespace
}  // namespace quorate::rpc
