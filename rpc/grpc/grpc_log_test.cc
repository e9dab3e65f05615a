// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "rpc/member/testing/captured_log.h"

namespace quorate::rpc {
namespace {

TEST_CASE("a log line of gRPC is written to the program's log") {
  TakeGrpcLog();
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
  const CapturedLog log;
  gpr_log("src/core/lib/transport.cc", 42, GPR_LOG_SEVERITY_ERROR, "the %s broke", "transport");
  CHECK(log.Lines("") == std::vector<std::string>{"gRPC: the transport broke (transport.cc:42)"});
}

TEST_CASE("failed handshakes of TLS do not flood the log") {
  TakeGrpcLog();
  const CapturedLog log;
  for (int i = 0; i < 100; ++i) {
    gpr_log("x/ssl.cc", 1, GPR_LOG_SEVERITY_ERROR, "Handshake failed with fatal error X");
  }
  CHECK(log.Lines("") ==
        std::vector<std::string>{"gRPC: Handshake failed with fatal error X not_logged=0"});
}

TEST_CASE("each failed handshake of TLS is counted, whether it is logged or not") {
  TakeGrpcLog();
  const int64_t before = FailedGrpcHandshakes();
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) {
    gpr_log("x/ssl.cc", 1, GPR_LOG_SEVERITY_ERROR, "Handshake failed with fatal error X");
  }
  gpr_log("x/ssl.cc", 1, GPR_LOG_SEVERITY_ERROR, "No match found for server name");
  CHECK(FailedGrpcHandshakes() == before + 3);
}

}  // namespace
}  // namespace quorate::rpc
