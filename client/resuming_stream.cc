// SPDX-License-Identifier: Apache-2.0

#include "client/resuming_stream.h"

#include <optional>

namespace quorate::internal {
namespace {

// A member that has vanished without closing its connection is noticed within twice this time.
constexpr int kKeepaliveMs = 5000;
// The time that a connection to a member may take.
constexpr int kConnectMs = 5000;

}  // namespace

bool MayContinue(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  if (!detail.has_value()) {
    // The connection is broken, or the server has ended.
    return status.code() == absl::StatusCode::kUnavailable ||
           status.code() == absl::StatusCode::kInternal ||
           status.code() == absl::StatusCode::kUnknown ||
           status.code() == absl::StatusCode::kCancelled;
  }
  return detail->code() == v1::ERROR_CODE_UNAVAILABLE ||
         detail->code() == v1::ERROR_CODE_TOO_SLOW ||
         detail->code() == v1::ERROR_CODE_TOO_MANY_STREAMS ||
         detail->code() == v1::ERROR_CODE_NO_REQUEST;
}

std::shared_ptr<grpc::Channel> NewStreamChannel(const Access& access, const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  // A watch may send nothing for an hour.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  // The servers' limit of the data of one znode can be configured to any size.
  arguments.SetMaxReceiveMessageSize(-1);
  return access.channels().NewChannel(address, arguments);
}

}  // namespace quorate::internal
