// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/cipher_suites.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

namespace quorate::rpc {
namespace {

constexpr char kVariable[] = "GRPC_SSL_CIPHER_SUITES";

Config ConfigOf(std::vector<std::string> suites) {
  Config config;
  config.file = "zoo.cfg";
  config.grpc_tls = true;
  config.ssl_cipher_suites = std::move(suites);
  return config;
}

std::string ProblemOf(std::vector<std::string> suites) {
  unsetenv(kVariable);
  const absl::Status status = SetGrpcCipherSuites(ConfigOf(std::move(suites)));
  CHECK((status.ok() || getenv(kVariable) == nullptr));
  return std::string(status.message());
}

TEST_CASE("gRPC gets the suites of TLS 1.2 by the names of OpenSSL") {
  CHECK(ProblemOf({"TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                   "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256",
                   "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_UNKNOWN"})
            .empty());
  CHECK(std::string(getenv(kVariable)) ==
        "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384");
}

TEST_CASE("a list that gRPC would exceed is refused") {
  CHECK(ProblemOf({"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384",
                   "TLS_CHACHA20_POLY1305_SHA256"})
            .find("zoo.cfg: ssl.ciphersuites: gRPC offers all of") == 0);
  CHECK(ProblemOf(
            {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
            .find("gRPC offers TLSv1.2 too") != std::string::npos);
}

TEST_CASE("without a list or TLS of gRPC, its own suites stay") {
  CHECK(ProblemOf({}).empty());
  CHECK(getenv(kVariable) == nullptr);
  Config config = ConfigOf({"TLS_AES_256_GCM_SHA384"});
  config.grpc_tls = false;
  CHECK(SetGrpcCipherSuites(config).ok());
  CHECK(getenv(kVariable) == nullptr);
}

}  // namespace
}  // namespace quorate::rpc
