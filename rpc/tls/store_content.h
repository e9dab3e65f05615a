// SPDX-License-Identifier: Apache-2.0

// What the readers of the formats of stores have in common.
//
// Thread-safety: see each function.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/tls/openssl.h"

namespace quorate::rpc::tls {

// Which part of a store is wanted. Keys of trust stores are not decrypted.
enum class StoreUse : uint8_t { kKey, kTrust };

struct StoreContent {
  // The first key; empty for StoreUse::kTrust.
  KeyPtr key;
  // Certificates that belong to a key or may do so, in the order of the store.
  std::vector<CertificatePtr> key_certificates;
  // Certificates that the store trusts.
  std::vector<CertificatePtr> trusted;
  std::vector<CrlPtr> revocation_lists;
};

// The iterations of key derivations that the reading of one store may still take. A damaged or
// hostile file can ask for hours of them; keytool and OpenSSL use some ten thousand.
class DerivationBudget {
 public:
  // Takes the iterations that a decryption with `algorithm` needs. Returns an error if these are
  // more than what is left, or if the algorithm's parameters are damaged.
  absl::Status Take(const X509_ALGOR* algorithm);
  absl::Status TakeIterations(const ASN1_INTEGER* iterations);

 private:
  uint64_t left_ = 5'000'000;
};

// Returns the private key in `encrypted`. Thread-safe.
absl::StatusOr<KeyPtr> DecryptKey(const X509_SIG* encrypted, std::string_view password,
                                  DerivationBudget* budget);

// Returns the private key in a PKCS#8 PrivateKeyInfo in DER. Thread-safe.
absl::StatusOr<KeyPtr> ParsePrivateKeyInfo(std::string_view der);

// Returns the certificate in DER, which must fill all of `der`. Thread-safe.
absl::StatusOr<CertificatePtr> ParseCertificate(std::string_view der);

// Returns the OpenSSL context in which stores are decrypted. It has the old ciphers (provider
// "legacy") if they are installed; TLS connections and the rest of the process do not.
OSSL_LIB_CTX* StoreLibrary();

// Returns the error of a decryption that has failed just now on this thread: the cipher is not
// available, or the password is wrong.
absl::Status DecryptionError();

// The readers of each format. Their errors are sentences without the name of the store.
absl::StatusOr<StoreContent> ReadPem(std::string_view bytes, std::string_view password,
                                     StoreUse use);
absl::StatusOr<StoreContent> ReadPkcs12(std::string_view bytes, std::string_view password,
                                        StoreUse use);
absl::StatusOr<StoreContent> ReadJks(std::string_view bytes, std::string_view password,
                                     StoreUse use);

}  // namespace quorate::rpc::tls
