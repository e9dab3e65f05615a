// SPDX-License-Identifier: Apache-2.0

// Reads key stores and trust stores: PEM, PKCS12 and JKS, told apart by their first bytes.
//
// Each error names the file, the reason and what to do. No content makes a function fail in another
// way; the time for the key derivations that a file asks for is bounded.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::tls {

// The limits of the sizes of a store, and of a file with a password.
inline constexpr size_t kStoreBytesMax = 16u << 20;
inline constexpr size_t kPasswordBytesMax = 64u << 10;

struct KeyStore {
  KeyPtr key;
  // The certificate of `key`, and the certificates of the CAs above it in ascending order.
  CertificatePtr certificate;
  std::vector<CertificatePtr> chain;
};

struct TrustStore {
  std::vector<CertificatePtr> certificates;
  std::vector<CrlPtr> revocation_lists;
};

// Returns the password of the store: the content of `password_file`, or `password`.
absl::StatusOr<std::string> PasswordOf(const StoreOptions& options);

// Returns the first key of the store and its certificates.
absl::StatusOr<KeyStore> ReadKeyStore(const StoreOptions& options);

// Returns the certificates that the store trusts, at least one. As in Java, a certificate of a key
// is trusted, too, but not the CAs above it; in PKCS12, certificates without the attribute of
// trusted ones are ignored, unless the store has neither the attribute nor a key.
absl::StatusOr<TrustStore> ReadTrustStore(const StoreOptions& options);

// Returns the certificate revocation lists of a file, in PEM or DER. It is an error if there is no
// list in the file; NotFound if there is no file.
absl::StatusOr<std::vector<CrlPtr>> ReadRevocationLists(const std::string& path);

// The parts of ReadKeyStore and ReadTrustStore behind the reading of files. `name` is the store's
// name in errors.
absl::StatusOr<KeyStore> ParseKeyStore(std::string_view name, std::string_view bytes,
                                       std::string_view password);
absl::StatusOr<TrustStore> ParseTrustStore(std::string_view name, std::string_view bytes,
                                           std::string_view password);

}  // namespace quorate::rpc::tls
