// SPDX-License-Identifier: Apache-2.0

// What people want to know about a certificate.
//
// Thread-safety: functions without state.
#pragma once

#include <openssl/x509.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quorate::tools::certs {

struct CertificateFacts {
  // As access control lists and administrator.subjects have it.
  std::string subject;
  std::string issuer;
  // "DNS:zk1" and "IP:10.0.0.1": the names that the certificate is valid for.
  std::vector<std::string> names;
  // "CA", or "server", "client", or both.
  std::vector<std::string> uses;
  std::string key;  // "EC P-256", "RSA 2048"
  int64_t starts_s = 0;
  int64_t ends_s = 0;
  std::string fingerprint;  // SHA-256, "AB:CD:..."
};

// The texts are from the certificate, and may have any characters.
CertificateFacts FactsOf(const X509* certificate);

// Returns "2027-11-26 17:00 UTC".
std::string TimeText(int64_t seconds);

}  // namespace quorate::tools::certs
