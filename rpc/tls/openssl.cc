// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/openssl.h"

#include <openssl/err.h>

namespace quorate::rpc::tls {

ErrorScope::ErrorScope() { ERR_clear_error(); }
ErrorScope::~ErrorScope() { ERR_clear_error(); }

std::string LatestReason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace quorate::rpc::tls
