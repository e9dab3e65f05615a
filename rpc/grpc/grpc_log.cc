// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace quorate::rpc {
namespace {

// The least time between two lines about failed handshakes of TLS, whose rate clients control.
constexpr auto kHandshakeInterval = std::chrono::seconds(5);

std::atomic<int64_t> failed_handshakes{0};

// Logs that a client's handshake of TLS has failed, which gRPC takes for an error of this program.
void LogHandshake(std::string_view message) {
  static std::atomic<std::chrono::steady_clock::rep> next{0};
  static std::atomic<uint64_t> skipped{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::chrono::steady_clock::rep due = next.load();
  if (now.count() < due || !next.compare_exchange_strong(due, (now + kHandshakeInterval).count())) {
    skipped.fetch_add(1);
    return;
  }
  spdlog::info("gRPC: {} not_logged={}", message, skipped.exchange(0));
}

void LogLine(gpr_log_func_args* line) {
  if (std::string_view(line->message).starts_with("Handshake failed")) {
    failed_handshakes.fetch_add(1);
    return LogHandshake(line->message);
  }
  spdlog::level::level_enum level = spdlog::level::err;
  if (line->severity == GPR_LOG_SEVERITY_INFO) level = spdlog::level::info;
  if (line->severity == GPR_LOG_SEVERITY_DEBUG) level = spdlog::level::debug;
  std::string_view file = line->file;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  spdlog::log(level, "gRPC: {} ({}:{})", line->message, file, line->line);
  // After this message gRPC aborts the process.
  if (std::string_view(line->message).starts_with("assertion failed")) {
    spdlog::default_logger_raw()->flush();
  }
}

}  // namespace

void TakeGrpcLog() { gpr_set_log_function(LogLine); }

int64_t FailedGrpcHandshakes() { return failed_handshakes; }

}  // namespace quorate::rpc
