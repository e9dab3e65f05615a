// SPDX-License-Identifier: Apache-2.0

// The server's side of SASL (RFC 4422), without the protocol that carries the tokens.
//
// Thread-safety: an Authenticator may be used by any thread, an exchange by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quorate::rpc::sasl {

// The longest token of a client. The ticket in a token of Kerberos may carry the groups of a user.
inline constexpr size_t kTokenBytesMax = 64u << 10;
// The most tokens of one exchange. DIGEST-MD5 takes two, GSSAPI with Kerberos two or three.
inline constexpr int kRoundsMax = 10;
// How much memory an exchange in progress takes, at the most: a connection of Cyrus SASL, and for
// Kerberos its context.
inline constexpr size_t kExchangeBytes = 16u << 10;

// The answer to a token of the client.
struct Reply {
  std::optional<std::string> token;  // nullopt: null, which clients tell from an empty token
  bool is_done = false;              // the client has proved to be `user`
  std::string user;                  // the id for access control lists; empty unless `is_done`
};

// The authentication of one client. It does not block, apart from the reading of small local files.
class ServerExchange {
 public:
  virtual ~ServerExchange() = default;

  // Takes the client's next token. Returns Unauthenticated if the client has not proved who it is,
  // and ResourceExhausted if its proof was not looked at because there were too many failures. The
  // message may have bytes that the client sent. REQUIRES: the last call, if there was one, returned
  // a reply that is not done; the token is at most kTokenBytesMax long.
  virtual absl::StatusOr<Reply> OnToken(std::string_view token) = 0;
};

// One mechanism with what it needs to know of its users.
class Authenticator {
 public:
  virtual ~Authenticator() = default;

  // Begins the authentication of a client with this address. The Authenticator must outlive the
  // exchange.
  virtual std::unique_ptr<ServerExchange> Begin(std::string_view address) = 0;
};

}  // namespace quorate::rpc::sasl
