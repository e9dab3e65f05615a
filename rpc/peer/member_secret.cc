// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/member_secret.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::rpc {
namespace {

// Returns the HMAC of the greeting behind `role`, and of `more`. Each part is preceded by its
// length, so that no two different greetings have the same bytes.
std::string Authenticate(std::string_view secret, std::string_view role, const Greeting& greeting,
                         std::string_view more) {
  std::string text;
  LittleEndianWriter writer(&text);
  writer.String(role);
  writer.Int(greeting.hello.protocol_version);
  writer.Int(greeting.hello.from.value());
  writer.Int(greeting.hello.to.value());
  writer.String(greeting.hello.cluster_id);
  writer.Int(greeting.hello.newest_version);
  writer.Int(greeting.hello.process);
  writer.String(greeting.hello.nonce);
  writer.String(greeting.nonce);
  writer.String(greeting.binding);
  writer.String(more);
  std::string proof(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &size);
  ASSERT(made != nullptr && size == kProofBytes);
  proof.resize(size);
  return proof;
}

}  // namespace

std::string ConnectingProof(std::string_view secret, const Greeting& greeting) {
  return Authenticate(secret, "Quorate member, connecting", greeting, "");
}

std::string AcceptingProof(std::string_view secret, const Greeting& greeting,
                           const HelloAnswer& answer) {
  HelloAnswer unproved = answer;
  unproved.proof.clear();
  std::string text;
  AppendAnswerFrame(unproved, &text);
  return Authenticate(secret, "Quorate member, accepting", greeting, text);
}

}  // namespace quorate::rpc
