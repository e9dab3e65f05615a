// SPDX-License-Identifier: Apache-2.0

// Makes the keys and certificates of a cluster: its CA, and what the CA signs for members and
// clients.
//
// Keys are on the curve P-256. A certificate is valid from five minutes ago, as clocks differ.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/tls/openssl.h"

namespace quorate::tools::certs {

struct Identity {
  rpc::tls::KeyPtr key;
  rpc::tls::CertificatePtr certificate;
};

// Returns whether `text` is an IPv4 or IPv6 address, which a certificate has in another form than a
// name.
bool IsAddress(const std::string& text);

// InvalidArgument if `text` is neither an address nor a DNS name. A name may begin with "*.".
absl::Status CheckHost(const std::string& text);

// InvalidArgument unless `name` has 1 to 64 letters, digits and "._@-", and begins with a letter or
// digit: it is part of a subject, of an id in access control lists, and of the name of a file.
absl::Status CheckClientName(const std::string& name);

// Makes the key of a CA and its certificate, which signs certificates of members and clients but
// not of other CAs. Its subject is another one in each call.
absl::StatusOr<Identity> MakeAuthority(int days);

// Makes a key and a certificate for a member that is reached by `hosts`: for the side that accepts
// a connection and the side that connects, because a member is both. Its subject has the first
// host. InvalidArgument if `authority` ends earlier than the new certificate would.
// REQUIRES: CheckHost accepts all hosts, and there is at least one.
absl::StatusOr<Identity> MakeMember(const Identity& authority,
                                    const std::vector<std::string>& hosts, int days);

// Makes a key and a certificate with the subject CN=<name>, for the side that connects.
// InvalidArgument if `authority` ends earlier than the new certificate would.
// REQUIRES: CheckClientName accepts the name.
absl::StatusOr<Identity> MakeClient(const Identity& authority, const std::string& name, int days);

// Return PEM: a certificate, and a private key in PKCS#8, which is not encrypted.
absl::StatusOr<std::string> CertificatePem(const X509* certificate);
absl::StatusOr<std::string> KeyPem(const EVP_PKEY* key);

// Returns a PKCS12 store with the key, its certificate and that of the CA.
absl::StatusOr<std::string> KeyStorePkcs12(const Identity& identity, const X509* authority,
                                           const std::string& password);
// Returns a PKCS12 store with the certificate of the CA, marked as trusted in the way that Java
// requires.
absl::StatusOr<std::string> TrustStorePkcs12(const X509* authority, const std::string& password);

}  // namespace quorate::tools::certs
