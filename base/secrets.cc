// SPDX-License-Identifier: Apache-2.0

#include "base/secrets.h"

#include <openssl/crypto.h>

namespace quorate {

bool SecretsEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace quorate
