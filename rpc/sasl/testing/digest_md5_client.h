// SPDX-License-Identifier: Apache-2.0

// A client's half of DIGEST-MD5 (RFC 2831) for tests, which does not use Cyrus SASL.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

namespace quorate::rpc::sasl {

// What a response is computed from. Texts are UTF-8; user, realm and password are hashed in ISO
// 8859-1 if all their characters are in it.
struct DigestInput {
  std::string_view user;
  std::string_view realm;
  std::string_view password;
  std::string_view nonce;
  std::string_view client_nonce;
  std::string_view digest_uri;
  const std::string* authorization_id = nullptr;  // nullptr: the client sent none
};

// Returns the response of a client that knows the password, in hexadecimal digits.
std::string ClientResponse(const DigestInput& input);
// Returns the answer by which a server proves to know the password too ("rspauth").
std::string ServerResponse(const DigestInput& input);

// Returns the nonce of a server's challenge; empty if it has none.
std::string NonceOf(std::string_view challenge);

}  // namespace quorate::rpc::sasl
