// SPDX-License-Identifier: Apache-2.0

// The server of DIGEST-MD5 (RFC 2831) as ZooKeeper speaks it: realm and host "zk-sasl-md5", service
// "zookeeper", authentication only, and no subsequent authentication.
//
// Thread-safety: DigestMd5 may be used by any thread; the functions have no state.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/failure_limit.h"
#include "base/random.h"
#include "rpc/sasl/exchange.h"
#include "rpc/sasl/names.h"

namespace quorate::rpc::sasl {

// The directives of a client's response, by their names in lower case.
using Directives = std::map<std::string, std::string, std::less<>>;

// Parses `text`: key=value, with values that are tokens or in quotes, between commas. Returns
// InvalidArgument if it is malformed, too long, or has a directive twice.
absl::StatusOr<Directives> ParseDirectives(std::string_view text);

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

class DigestMd5 : public Authenticator {
 public:
  using Users = std::map<std::string, std::string, std::less<>>;  // passwords

  // `random` and `clock` must outlive the object. Returns FailedPrecondition if this machine's
  // OpenSSL has no MD5.
  static absl::StatusOr<std::unique_ptr<DigestMd5>> Create(Users users, IdMapping ids,
                                                           RandomBytes* random, const Clock* clock);

  std::unique_ptr<ServerExchange> Begin(std::string_view address) override;

 private:
  class Exchange;

  DigestMd5(Users users, IdMapping ids, RandomBytes* random, const Clock* clock);

  const Users users_;
  const IdMapping ids_;
  RandomBytes* const random_;
  FailureLimit limit_;
};

}  // namespace quorate::rpc::sasl
