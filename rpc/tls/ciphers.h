// SPDX-License-Identifier: Apache-2.0

// Protocol versions and cipher suites of a context, from the names that ZooKeeper's configuration
// has.
//
// Thread-safety: functions without state.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::tls {

// Sets the protocol versions and cipher suites of `context`, and appends a sentence to `warnings`
// for each name that has no effect. Returns an error if no version or no suite is left.
absl::Status SetProtocolsAndCiphers(const Options& options, SSL_CTX* context,
                                    std::vector<std::string>* warnings);

}  // namespace quorate::rpc::tls
