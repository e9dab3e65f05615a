// SPDX-License-Identifier: Apache-2.0

// Tokens of DIGEST-MD5. The target writes the nonce of the challenge where the input has a byte N, and the
// right response where it has a byte R, so that inputs reach what is behind the checks.
#include <string>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/sasl/passwords.h"
#include "rpc/sasl/testing/digest_md5_client.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  // A new one each time, which has counted no failures.
  const auto server = *rpc::sasl::Passwords::Create(
      {{"bob", "secret"}},
      rpc::sasl::IdMapping(*rpc::sasl::NameRules::Parse("DEFAULT", "R"), false, false),
      RandomBytes::System(), Clock::System());
  const std::unique_ptr<rpc::sasl::ServerExchange> exchange = server->Begin("10.0.0.1");
  const auto challenge = exchange->OnToken(input.TakePiece());
  ASSERT(challenge.ok() && !challenge->is_done);
  const std::string nonce = rpc::sasl::NonceOf(*challenge->token);
  const std::string right = rpc::sasl::ClientResponse({.user = "bob",
                                                       .realm = "zk-sasl-md5",
                                                       .password = "secret",
                                                       .nonce = nonce,
                                                       .client_nonce = "c",
                                                       .digest_uri = "zookeeper/zk-sasl-md5"});
  std::string token;
  for (char c : input.rest()) {
    token += c == 'N' ? nonce : c == 'R' ? right : std::string(1, c);
    if (token.size() >= rpc::sasl::kTokenBytesMax) break;
  }
  token.resize(std::min(token.size(), rpc::sasl::kTokenBytesMax));
  const auto reply = exchange->OnToken(token);
  if (!reply.ok()) {
    ASSERT(!reply.status().message().empty());
    return;
  }
  ASSERT(reply->is_done && reply->user == "bob");
  ASSERT(token.find(right) != std::string::npos, "only the password makes the right response");
}

}  // namespace quorate::fuzz
