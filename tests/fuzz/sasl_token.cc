// SPDX-License-Identifier: Apache-2.0

// Tokens of DIGEST-MD5. The target writes the nonce of the challenge where the input has a byte N, so
// that inputs reach what is behind its check.
#include <string>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/sasl/digest_md5.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

class Zeros : public RandomBytes {
  void Fill(char* bytes, size_t size) override {
    for (size_t i = 0; i < size; ++i) bytes[i] = 0;
  }
};

}  // namespace

void Run(Input input) {
  static Zeros zeros;
  // A new one each time, which has counted no failures.
  const auto server = *rpc::sasl::DigestMd5::Create(
      {{"bob", "secret"}},
      rpc::sasl::IdMapping(*rpc::sasl::NameRules::Parse("DEFAULT", "R"), false, false), &zeros,
      Clock::System());
  const std::unique_ptr<rpc::sasl::ServerExchange> exchange = server->Begin("10.0.0.1");
  const auto challenge = exchange->OnToken(input.TakePiece());
  ASSERT(challenge.ok() && !challenge->is_done);
  std::string token;
  for (char c : input.rest()) {
    token += c == 'N' ? std::string(40, 'A') : std::string(1, c);
    if (token.size() >= rpc::sasl::kTokenBytesMax) break;
  }
  token.resize(std::min(token.size(), rpc::sasl::kTokenBytesMax));
  const auto directives = rpc::sasl::ParseDirectives(token);
  const auto reply = exchange->OnToken(token);
  if (!reply.ok()) {
    ASSERT(!reply.status().message().empty());
    return;
  }
  ASSERT(directives.ok() && reply->is_done && reply->user == "bob");
}

}  // namespace quorate::fuzz
