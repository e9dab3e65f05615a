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

// Names of OpenSSL, for the two kinds of suites that it sets apart.
struct CipherSuites {
  std::vector<std::string> tls12;
  std::vector<std::string> tls13;
};

// Returns the suites with these names of IANA, in the same order, and appends a sentence to `warnings`
// for each name that OpenSSL does not know.
CipherSuites ParseCipherSuites(const std::vector<std::string>& names,
                               std::vector<std::string>* warnings);

// Sets the protocol versions and cipher suites of `context`, and appends a sentence to `warnings`
// for each name that has no effect. Returns an error if no version or no suite is left.
absl::Status SetProtocolsAndCiphers(const Options& options, SSL_CTX* context,
                                    std::vector<std::string>* warnings);

}  // namespace quorate::rpc::tls
