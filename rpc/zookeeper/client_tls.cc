// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/client_tls.h"

#include "base/assert.h"

namespace quorate::rpc::zk {

tls::Options ClientTlsOptions(const Config& config) {
  ASSERT(config.has_client_tls());
  tls::Options options;
  options.key_store = {config.ssl_key_store, config.ssl_key_store_password,
                       config.ssl_key_store_password_file, config.ssl_key_store_type};
  options.trust_store = {config.ssl_trust_store, config.ssl_trust_store_password,
                         config.ssl_trust_store_password_file, config.ssl_trust_store_type};
  options.protocols = config.ssl_enabled_protocols;
  options.cipher_suites = config.ssl_cipher_suites;
  options.client_auth = config.ssl_client_auth == "none"   ? tls::ClientAuth::kNone
                        : config.ssl_client_auth == "want" ? tls::ClientAuth::kWant
                                                           : tls::ClientAuth::kNeed;
  options.check_revocation = config.ssl_crl;
  return options;
}

}  // namespace quorate::rpc::zk
