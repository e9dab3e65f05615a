// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <string_view>

namespace quorate::rpc {
namespace {

void LogLine(gpr_log_func_args* line) {
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

}  // namespace quorate::rpc
