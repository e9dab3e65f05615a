// SPDX-License-Identifier: Apache-2.0

// Key stores and trust stores in JKS. The target writes the magic number and the hash at the end,
// so that inputs reach what is between them.
#include <openssl/sha.h>

#include <string>

#include "base/assert.h"
#include "rpc/tls/stores.h"
#include "rpc/tls/subject.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

// Appends the hash of a store whose password is "pw".
void AppendHash(std::string* store) {
  using std::string_literals::operator""s;
  const std::string hashed = "\0p\0wMighty Aphrodite"s + *store;
  unsigned char hash[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(hashed.data()), hashed.size(), hash);
  store->append(reinterpret_cast<const char*>(hash), sizeof(hash));
}

}  // namespace

void Run(Input input) {
  std::string store = "\xFE\xED\xFE\xED";
  store.append(input.rest());
  AppendHash(&store);
  const auto keys = rpc::tls::ParseKeyStore("store", store, "pw");
  if (keys.ok()) {
    ASSERT(X509_check_private_key(keys->certificate.get(), keys->key.get()) == 1);
  } else {
    ASSERT(!keys.status().message().empty());
  }
  const auto trusted = rpc::tls::ParseTrustStore("store", store, "pw");
  if (!trusted.ok()) return;
  ASSERT(!trusted->certificates.empty());
  for (const auto& certificate : trusted->certificates) rpc::tls::SubjectOf(certificate.get());
}

}  // namespace quorate::fuzz
