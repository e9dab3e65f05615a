// SPDX-License-Identifier: Apache-2.0

// Makes keys, certificates and stores for tests.
//
// Thread-safety: functions without state. They end the process if OpenSSL fails.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/tls/openssl.h"

namespace quorate::rpc::tls {

struct TestIdentity {
  KeyPtr key;
  CertificatePtr certificate;
};

struct TestIdentityOptions {
  std::string common_name;
  // nullptr: the certificate signs itself.
  const TestIdentity* issuer = nullptr;
  bool is_ca = false;
  // The subjectAltName and the extendedKeyUsage, such as "DNS:a.example,IP:10.0.0.1" and
  // "serverAuth,clientAuth"; empty: there is none.
  std::string names = {};
  std::string usage = {};
  // The crlDistributionPoints, such as "URI:file:///etc/pki/ca.crl"; empty: there are none.
  std::string distribution_points = {};
  // Seconds from now.
  long starts_s = -3600;
  long ends_s = 86400;
};

// Makes a key on the curve P-256 and its certificate, whose subject is
// C=US,O=Example,CN=<common_name>.
TestIdentity MakeIdentity(const TestIdentityOptions& options);

// Makes the list of the certificates that `issuer` has revoked, valid until `ends_s` seconds from
// now.
CrlPtr MakeRevocationList(const TestIdentity& issuer, const std::vector<const X509*>& revoked,
                          long ends_s = 86400);

std::string ToPem(const X509* certificate);
std::string ToPem(const X509_CRL* list);
// In PKCS#8, encrypted if there is a password.
std::string ToPem(const EVP_PKEY* key, const std::string& password = "");
std::string ToDer(const X509* certificate);
std::string ToDer(const EVP_PKEY* key);

// Returns a PKCS12 store; `key` may be nullptr.
std::string MakePkcs12(const TestIdentity* key, const std::vector<const X509*>& others,
                       const std::string& password);

// Returns a JKS store with an entry for `key`, unless that is nullptr, followed by the entries of
// trusted certificates. REQUIRES: `password` is ASCII.
std::string MakeJks(const TestIdentity* key, const std::vector<const X509*>& chain,
                    const std::vector<const X509*>& trusted, std::string_view password);

// Returns the path of a file in the directory for the files of the test; WriteTestFile writes it.
std::string TestPath(const std::string& name);
std::string WriteTestFile(const std::string& name, std::string_view content);

}  // namespace quorate::rpc::tls
