// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/cipher_suites.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/tls/ciphers.h"

namespace quorate::rpc {
namespace {

// OpenSSL's default for TLS 1.3.
constexpr const char* kTls13Suites[] = {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
                                        "TLS_AES_128_GCM_SHA256"};

absl::Status Refused(const Config& config, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(config.file, ": ssl.ciphersuites: ", why,
                                                 ", or take grpcTls or ssl.ciphersuites out"));
}

}  // namespace

absl::Status SetGrpcCipherSuites(const Config& config) {
  if (!config.grpc_tls || config.ssl_cipher_suites.empty()) return absl::OkStatus();
  std::vector<std::string> warnings;
  const tls::CipherSuites suites = tls::ParseCipherSuites(config.ssl_cipher_suites, &warnings);
  for (const std::string& warning : warnings) spdlog::warn("TLS: {}", warning);
  for (const char* name : kTls13Suites) {
    if (std::ranges::find(suites.tls13, name) != suites.tls13.end()) continue;
    return Refused(config,
                   absl::StrCat("gRPC offers all of ", absl::StrJoin(kTls13Suites, ", "),
                                " with TLSv1.3, and ", name, " is not in the list; add it"));
  }
  if (suites.tls12.empty()) {
    return Refused(config,
                   "gRPC offers TLSv1.2 too, for which the list has no suite; add one, such as "
                   "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
  }
  setenv("GRPC_SSL_CIPHER_SUITES", absl::StrJoin(suites.tls12, ":").c_str(), /*overwrite=*/1);
  return absl::OkStatus();
}

}  // namespace quorate::rpc
