// SPDX-License-Identifier: Apache-2.0

// TLS of a client: whether to use it, and the files with certificates.
//
// Thread-safety: plain values.
#pragma once

#include <string>

namespace quorate {

// How a client encrypts its connections and checks the servers.
struct TlsOptions {
  // Connects with TLS 1.2 or 1.3, and to no server whose certificate is not valid. The other fields
  // have no effect without it.
  bool enabled = false;
  // A file in PEM with the certificates of the authorities that the servers' certificates come from.
  // Empty: those of this machine.
  std::string ca_file{};
  // Files in PEM with this client's certificate, followed by those of the authorities above it, and
  // with its private key, which is not encrypted. Both may be one file. Empty: no certificate.
  std::string certificate_file{};
  std::string key_file{};
  // The name that servers' certificates must have; empty: the host of each address.
  std::string server_name{};
};

}  // namespace quorate
