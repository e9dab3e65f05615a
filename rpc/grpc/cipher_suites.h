// SPDX-License-Identifier: Apache-2.0

// The cipher suites of gRPC's TLS, which gRPC takes from the environment alone.
//
// Thread-safety: no other thread may use the environment.
#pragma once

#include "absl/status/status.h"
#include "rpc/config/config.h"

namespace quorate::rpc {

// Makes gRPC offer only the cipher suites of ssl.ciphersuites, if grpcTls is set. Returns
// InvalidArgument, with the key and the reason, if gRPC would offer others: it takes a list for TLS
// 1.2, always offers TLS 1.2, and always offers the three suites of TLS 1.3 that OpenSSL has switched
// on. REQUIRES: gRPC was not used in this process yet.
absl::Status SetGrpcCipherSuites(const Config& config);

}  // namespace quorate::rpc
