// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/member_secret.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace quorate::rpc {
namespace {

using consensus::MemberId;

Greeting Sample() {
  Greeting greeting;
  greeting.hello = {kPeerProtocolVersion,         MemberId(1),         MemberId(2),
                    std::string(16, 'c'),         kPeerProtocolNewest, 7,
                    std::string(kNonceBytes, 'a')};
  greeting.nonce = std::string(kNonceBytes, 'b');
  greeting.binding = std::string(32, 't');
  return greeting;
}

TEST_CASE("a proof depends on the secret and on all that was said") {
  const Greeting sample = Sample();
  const std::string first = ConnectingProof("0123456789abcdef", sample);
  CHECK(first.size() == kProofBytes);
  CHECK(ConnectingProof("0123456789abcdef", sample) == first);
  std::set<std::string> proofs{first, ConnectingProof("0123456789abcdeF", sample)};
  const auto changed = [&](auto change) {
    Greeting greeting = sample;
    change(&greeting);
    proofs.insert(ConnectingProof("0123456789abcdef", greeting));
  };
  changed([](Greeting* g) { g->hello.from = MemberId(3); });
  changed([](Greeting* g) { g->hello.to = MemberId(3); });
  changed([](Greeting* g) { std::swap(g->hello.from, g->hello.to); });
  changed([](Greeting* g) { g->hello.cluster_id = std::string(16, 'd'); });
  changed([](Greeting* g) { g->hello.cluster_id.clear(); });
  changed([](Greeting* g) { ++g->hello.process; });
  changed([](Greeting* g) { ++g->hello.newest_version; });
  changed([](Greeting* g) { g->hello.nonce[0] = 'x'; });
  changed([](Greeting* g) { g->nonce[31] = 'x'; });
  changed([](Greeting* g) { std::swap(g->hello.nonce, g->nonce); });
  changed([](Greeting* g) { g->binding.clear(); });
  // The border between two texts counts.
  changed([](Greeting* g) {
    g->nonce += 't';
    g->binding.pop_back();
  });
  CHECK(proofs.size() == 14);
}

TEST_CASE("the proof of the accepting side is another one, and covers its answer") {
  const std::string secret = "0123456789abcdef";
  const HelloAnswer accepted{true, "", "", kPeerProtocolNewest, 9};
  const HelloAnswer rejected{false, "no", std::string(16, 'd'), kPeerProtocolNewest, 9};
  const std::string proof = AcceptingProof(secret, Sample(), accepted);
  CHECK(proof != ConnectingProof(secret, Sample()));
  CHECK(proof != AcceptingProof(secret, Sample(), rejected));
  HelloAnswer with_proof = accepted;
  with_proof.proof = proof;
  CHECK(AcceptingProof(secret, Sample(), with_proof) == proof);
}

TEST_CASE("a server without a secret sends the bytes of earlier releases") {
  std::string plain;
  AppendHelloFrame({kPeerProtocolVersion, MemberId(1), MemberId(2), "", kPeerProtocolNewest, 7},
                   &plain);
  // The header, four fields of 4 bytes, an empty text, and the number of the process.
  CHECK(plain.size() == kFrameHeaderBytes + 4 * 4 + 4 + 8);
  std::string answer;
  AppendAnswerFrame({true, "", "", kPeerProtocolNewest, 7}, &answer);
  CHECK(answer.size() == kFrameHeaderBytes + 1 + 4 + 4 + 4 + 8);
}

TEST_CASE("the frames of a greeting keep their fields, and others are not decoded") {
  const Greeting sample = Sample();
  std::string frames;
  AppendHelloFrame(sample.hello, &frames);
  AppendChallengeFrame({sample.nonce}, &frames);
  AppendProofFrame({std::string(kProofBytes, 'p')}, &frames);
  AppendAnswerFrame({true, "", "", kPeerProtocolNewest, 7, std::string(kProofBytes, 'q')}, &frames);
  SealFrames(&frames);
  const auto batch = FrameDecoder::DecodeGreeting(std::make_shared<std::string>(frames));
  REQUIRE(batch.ok());
  CHECK(batch->hello->nonce == sample.hello.nonce);
  CHECK(batch->challenge->nonce == sample.nonce);
  CHECK(batch->proof->proof == std::string(kProofBytes, 'p'));
  CHECK(batch->answer->proof == std::string(kProofBytes, 'q'));
  const auto refused = [](auto append) {
    std::string text;
    append(&text);
    SealFrames(&text);
    return absl::IsInvalidArgument(
        FrameDecoder::DecodeGreeting(std::make_shared<std::string>(text)).status());
  };
  CHECK(refused([](std::string* out) { AppendTouchFrame({1}, out); }));
  CHECK(refused([](std::string* out) { AppendForwardFrame({"x"}, out); }));
  CHECK(refused([](std::string* out) { AppendChallengeFrame({"short"}, out); }));
  CHECK(refused([](std::string* out) { AppendProofFrame({"short"}, out); }));
  CHECK(refused([&](std::string* out) {
    Hello hello = sample.hello;
    hello.nonce.pop_back();
    AppendHelloFrame(hello, out);
  }));
}

}  // namespace
}  // namespace quorate::rpc
