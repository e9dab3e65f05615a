// SPDX-License-Identifier: Apache-2.0

// Key stores and trust stores of any format, with the password "pw" or none.
#include <string_view>

#include "base/assert.h"
#include "rpc/tls/stores.h"
#include "rpc/tls/subject.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

void Run(Input input) {
  const std::string_view password = input.Take<uint8_t>() % 2 == 1 ? "pw" : "";
  const auto keys = rpc::tls::ParseKeyStore("store", input.rest(), password);
  if (keys.ok()) {
    ASSERT(X509_check_private_key(keys->certificate.get(), keys->key.get()) == 1);
  } else {
    ASSERT(!keys.status().message().empty());
  }
  const auto trusted = rpc::tls::ParseTrustStore("store", input.rest(), password);
  if (!trusted.ok()) return;
  ASSERT(!trusted->certificates.empty());
  for (const auto& certificate : trusted->certificates) rpc::tls::SubjectOf(certificate.get());
}

}  // namespace quorate::fuzz
