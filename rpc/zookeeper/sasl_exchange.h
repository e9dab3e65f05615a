// SPDX-License-Identifier: Apache-2.0

// The authentication of one connection by SASL (operation 102).
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/sasl/exchange.h"

namespace quorate::rpc::zk {

class SaslExchange {
 public:
  // Takes the next token of a client with this address. Returns an error as
  // sasl::ServerExchange::OnToken does, and also for a token that is too long, for too many tokens,
  // and for a token after the end: a connection has one exchange. `authenticator` must outlive the
  // object, and be the same in each call.
  absl::StatusOr<sasl::Reply> OnToken(sasl::Authenticator* authenticator, std::string_view address,
                                      std::string_view token);

  // Returns approximately how many bytes the exchange takes.
  size_t kept_bytes() const { return exchange_ == nullptr ? 0 : sasl::kExchangeBytes; }

 private:
  std::unique_ptr<sasl::ServerExchange>
      exchange_;  // null before the first token, and after the end
  int rounds_ = 0;
  bool has_ended_ = false;
};

}  // namespace quorate::rpc::zk
