// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "rpc/tls/testing/test_certificates.h"

namespace quorate::rpc {
namespace {

using Progress = PeerStream::Progress;

// The two ends of a connection on this machine.
struct Ends {
  Ends() {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
    first = std::make_unique<PeerStream>(Descriptor(sockets[0]));
    second = std::make_unique<PeerStream>(Descriptor(sockets[1]));
  }
  // Makes the handshake of TLS.
  void Encrypt(const tls::Context& context) {
    first->StartTls(context.NewClient("127.0.0.1"));
    second->StartTls(context.NewServer());
    Progress one = Progress::kBlocked;
    Progress other = Progress::kBlocked;
    for (int round = 0; round < 10; ++round) {
      if (one == Progress::kBlocked) one = first->Handshake();
      if (other == Progress::kBlocked) other = second->Handshake();
    }
    REQUIRE(one == Progress::kDone);
    REQUIRE(other == Progress::kDone);
  }
  std::unique_ptr<PeerStream> first;
  std::unique_ptr<PeerStream> second;
};

std::shared_ptr<const tls::Context> MakeContext() {
  const tls::TestIdentity ca = tls::MakeIdentity({.common_name = "ca", .is_ca = true});
  const tls::TestIdentity own = tls::MakeIdentity({.common_name = "own", .issuer = &ca});
  tls::Options options;
  options.connects = true;
  options.key_store.location =
      tls::WriteTestFile("own.pem", tls::ToPem(own.key.get()) + tls::ToPem(own.certificate.get()));
  options.trust_store.location = tls::WriteTestFile("ca.pem", tls::ToPem(ca.certificate.get()));
  auto context = tls::Context::Create(options);
  REQUIRE(context.ok());
  return *context;
}

// Returns all that `from` sends of `text`, in parts, and `to` receives.
std::string Transfer(PeerStream* from, PeerStream* to, const std::string& text) {
  std::string received;
  std::string_view rest = text;
  bool was_blocked = false;
  while (received.size() < text.size()) {
    PeerStream::Transfer sent;
    do {
      const size_t first = std::min<size_t>(1, rest.size());
      const std::string_view parts[] = {rest.substr(0, first), rest.substr(first)};
      sent = from->Send(parts);
      rest.remove_prefix(sent.bytes);
    } while (sent.progress == Progress::kDone && !rest.empty());
    was_blocked |= sent.progress == Progress::kBlocked;
    char space[5000];
    PeerStream::Transfer got;
    do {
      got = to->Receive(space);
      received.append(space, got.bytes);
    } while (got.progress == Progress::kDone);
    CHECK_FALSE(to->has_received());
    REQUIRE(got.progress == Progress::kBlocked);
  }
  CHECK(was_blocked);  // otherwise there is nothing to test
  CHECK_FALSE(from->has_unsent());
  return received;
}

TEST_CASE("bytes arrive whole and in order, with and without TLS, though the socket is full") {
  std::string text(10u << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 8);
  Ends plain;
  CHECK(Transfer(plain.first.get(), plain.second.get(), text) == text);
  Ends encrypted;
  encrypted.Encrypt(*MakeContext());
  CHECK(Transfer(encrypted.first.get(), encrypted.second.get(), text) == text);
  CHECK(Transfer(encrypted.second.get(), encrypted.first.get(), text) == text);
}

TEST_CASE("little is decrypted at once before bulk is expected") {
  Ends ends;
  ends.Encrypt(*MakeContext());
  const std::string text(100, 'x');
  const std::string_view parts[] = {text};
  for (int i = 0; i < 200; ++i) ends.first->Send(parts);
  std::string space(64u << 10, '\0');
  const PeerStream::Transfer little = ends.second->Receive(space);
  CHECK(little.bytes > 0);
  CHECK(little.bytes <= 2048);
  ends.second->ExpectBulk();
  CHECK(ends.second->Receive(space).bytes > 10'000);
  Ends plain;
  plain.second->ExpectBulk();
  plain.first->Send(parts);
  CHECK(plain.second->Receive(space).bytes == text.size());
}

TEST_CASE("the binding is the same at both ends of a connection, and differs for each") {
  const auto context = MakeContext();
  Ends one;
  one.Encrypt(*context);
  Ends other;
  other.Encrypt(*context);
  CHECK(one.first->ChannelBinding().size() == 32);
  CHECK(one.first->ChannelBinding() == one.second->ChannelBinding());
  CHECK(other.first->ChannelBinding() == other.second->ChannelBinding());
  CHECK(one.first->ChannelBinding() != other.first->ChannelBinding());
  CHECK(Ends().first->ChannelBinding().empty());
}

TEST_CASE("TLS 1.2 needs the extended master secret") {
  const auto context = MakeContext();
  const auto connect = [&](bool has_extended_secret) {
    Ends ends;
    tls::Context::SslPtr client = context->NewClient("127.0.0.1");
    SSL_set_max_proto_version(client.get(), TLS1_2_VERSION);
    if (!has_extended_secret) SSL_set_options(client.get(), SSL_OP_NO_EXTENDED_MASTER_SECRET);
    ends.first->StartTls(std::move(client));
    ends.second->StartTls(context->NewServer());
    Progress one = Progress::kBlocked;
    Progress other = Progress::kBlocked;
    for (int round = 0; round < 10; ++round) {
      if (one == Progress::kBlocked) one = ends.first->Handshake();
      if (other == Progress::kBlocked) other = ends.second->Handshake();
    }
    CHECK(one == other);
    if (other == Progress::kFailed) {
      CHECK_THAT(ends.second->Failure(), Catch::Contains("extended master secret"));
    }
    return other;
  };
  CHECK(connect(true) == Progress::kDone);
  CHECK(connect(false) == Progress::kFailed);
}

TEST_CASE("the end of a connection, and bytes that are no TLS, are reported") {
  char space[100];
  const std::string_view parts[] = {"plain bytes that are no record of TLS"};
  Ends plain;
  plain.first->Close();
  CHECK(plain.second->Receive(space).progress == Progress::kEnded);
  Ends encrypted;
  encrypted.Encrypt(*MakeContext());
  encrypted.first->Shutdown();
  CHECK(encrypted.second->Receive(space).progress == Progress::kEnded);
  Ends mixed;
  mixed.first->StartTls(MakeContext()->NewServer());
  mixed.second->Send(parts);
  CHECK(mixed.first->Handshake() == Progress::kFailed);
  CHECK_FALSE(mixed.first->Failure().empty());
  Ends without_memory;
  without_memory.first->StartTls(nullptr);
  CHECK(without_memory.first->Handshake() == Progress::kFailed);
  CHECK(without_memory.first->Failure() == "there is no memory for TLS");
}

}  // namespace
}  // namespace quorate::rpc
