// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/cluster_client.h"

#include <future>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::tools {
namespace {

constexpr auto kAnswerTimeout = std::chrono::seconds(3);
constexpr int kMessageBytesMax = 160 << 20;
// A member that hangs is noticed within twice this time.
constexpr int kKeepaliveMs = 5000;
constexpr int kReconnectMs = 1000;

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const Access& access) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A member that comes back is noticed soon.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  // Each client has its own connections, so that it does not wait for the backoff of another
  // client.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Connects to the member directly, even if the environment names proxies.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return access.channels().NewChannel(address, arguments);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseServers(const std::string& text) {
  std::vector<std::string> servers;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    const size_t colon = part.rfind(':');
    if (absl::StartsWith(part, "unix:/")) {
      servers.emplace_back(part);
      continue;
    }
    if (colon == absl::string_view::npos || colon == 0 || colon + 1 == part.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--server: \"", part, "\" is not host:port; the port is the gRPC port"));
    }
    servers.emplace_back(part);
  }
  if (servers.empty()) {
    return absl::InvalidArgumentError(
        "--server is missing: name members by their gRPC ports, host:port[,host:port]");
  }
  return servers;
}

std::string RoleName(v1::Role role) {
  switch (role) {
    case v1::ROLE_LOOKING:
      return "looking";
    case v1::ROLE_FOLLOWER:
      return "follower";
    case v1::ROLE_LEADER:
      return "leader";
    case v1::ROLE_OBSERVER:
      return "observer";
    default:
      return "unknown";
  }
}

int64_t UptimeMsOf(const v1::StatusResponse& status) {
  return v1::ToMs(status.uptime()).value_or(0);
}

ClusterClient::ClusterClient(std::string address, const Access& access)
    : address_(std::move(address)),
      access_(access),
      stub_(v1::ClusterService::NewStub(MakeChannel(address_, access_))) {}

absl::StatusOr<v1::StatusResponse> ClusterClient::Status() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  Authorize(&context);
  v1::StatusResponse response;
  const grpc::Status status = stub_->Status(&context, {}, &response);
  if (!status.ok()) return v1::FromGrpc(status);
  return response;
}

absl::StatusOr<v1::MembersResponse> ClusterClient::Members() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  Authorize(&context);
  v1::MembersResponse response;
  const grpc::Status status = stub_->Members(&context, {}, &response);
  if (!status.ok()) return v1::FromGrpc(status);
  return response;
}

absl::StatusOr<std::string> ClusterClient::Metrics() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  Authorize(&context);
  v1::MetricsResponse response;
  const grpc::Status status = stub_->Metrics(&context, {}, &response);
  if (!status.ok()) return v1::FromGrpc(status);
  return std::move(*response.mutable_text());
}

absl::StatusOr<v1::SlowRequestsResponse> ClusterClient::SlowRequests(uint32_t count_max) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  Authorize(&context);
  v1::SlowRequestsRequest request;
  request.set_count_max(count_max);
  v1::SlowRequestsResponse response;
  const grpc::Status status = stub_->SlowRequests(&context, request, &response);
  if (!status.ok()) return v1::FromGrpc(status);
  return response;
}

absl::StatusOr<v1::TopRequestsResponse> ClusterClient::TopRequests(uint32_t count_max) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerTimeout);
  Authorize(&context);
  v1::TopRequestsRequest request;
  request.set_count_max(count_max);
  v1::TopRequestsResponse response;
  const grpc::Status status = stub_->TopRequests(&context, request, &response);
  if (!status.ok()) return v1::FromGrpc(status);
  return response;
}

std::vector<StatusAnswer> AskAll(const std::vector<std::string>& addresses, const Access& access) {
  std::vector<std::future<absl::StatusOr<v1::StatusResponse>>> questions;
  questions.reserve(addresses.size());
  for (const std::string& address : addresses) {
    questions.push_back(std::async(std::launch::async, [address, &access] {
      return ClusterClient(address, access).Status();
    }));
  }
  std::vector<StatusAnswer> answers;
  for (size_t i = 0; i < addresses.size(); ++i) {
    answers.push_back({addresses[i], questions[i].get()});
  }
  return answers;
}

}  // namespace quorate::tools
