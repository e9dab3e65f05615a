// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/grpc/grpc_resources.h"
#include "rpc/listen/listen.h"
#include "rpc/listen/lookup.h"
#include "rpc/member/fatal_error.h"

namespace quorate::rpc {
namespace {

// The maximum size of a received message in bytes: a write of a large value, with its overhead.
constexpr int kMessageBytesMax = 8 << 20;
// The maximum size of a call's metadata in bytes. gRPC ends calls with more; credentials have a lower
// limit (rpc/proto/credentials.h), which is explained to the caller.
constexpr int kMetadataBytesMax = 32 << 10;
// The limit for gRPC's buffers of all connections, in bytes. Beyond it, gRPC first slows
// connections down and then rejects them.
constexpr size_t kMemoryBytesMax = size_t{256} << 20;
// The maximum number of gRPC's threads. Reflection needs them: it does not use the callback API,
// and each of its streams holds a thread.
constexpr int kThreadsMax = 8;
constexpr int kStreamsPerConnectionMax = 1000;
// The keepalive interval. A client that disappears without closing its connection is detected
// within twice this time.
constexpr int kKeepaliveMs = 10'000;
// The minimum interval of keepalive pings from clients.
constexpr int kClientPingMs = 500;
// The time that a new connection has for the handshakes of TLS and HTTP/2.
constexpr int kHandshakeMs = 20'000;
// A connection without a call for this time is ended; clients connect again with their next call.
constexpr int kIdleMs = 15 * 60'000;

void EnablePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr char kAborted[] =
    "cannot start gRPC (grpcPort): its library gave up, as it does when it gets no thread, memory "
    "or file descriptor; raise the limits of open files (ulimit -n, LimitNOFILE= in the systemd "
    "unit), of processes and threads (ulimit -u, TasksMax=, pids.max of the container) and of "
    "memory, or remove grpcPort from the configuration";

// Returns the endpoints of `address` ("host:port") that this machine has. If it has none, returns
// an empty set and sets `*error`.
std::set<tcp::endpoint> EndpointsOf(const std::string& address, error_code* error) {
  const size_t colon = address.rfind(':');
  ASSERT(colon != std::string::npos);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(colon + 1)));
  const std::vector<tcp::endpoint> found = LookUpOwnName("grpcPortAddress", host, port, error);
  if (found.size() == 1) return {found.front()};
  // This machine may lack some addresses of a name. gRPC would fail to start because of one missing
  // address.
  std::set<tcp::endpoint> own;
  boost::asio::io_context context;
  for (const tcp::endpoint& endpoint : found) {
    tcp::acceptor acceptor(context);
    const error_code problem = ListenOn({endpoint.address(), 0}, Families::kOwn, &acceptor);
    if (problem) {
      *error = problem;
    } else {
      own.insert(endpoint);
    }
  }
  return own;
}

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen for gRPC clients (grpcPort) on ", address, ": ", why));
}

}  // namespace

GrpcServer::~GrpcServer() { ASSERT(server_ == nullptr, "Stop was called"); }

absl::Status GrpcServer::Start(
    const GrpcEndpoints& where,
    const std::vector<std::pair<std::string, grpc::Service*>>& services) {
  error_code error;
  std::set<tcp::endpoint> endpoints;
  if (!where.address.empty()) {
    endpoints = EndpointsOf(where.address, &error);
    if (endpoints.empty()) return CannotListen(where.address, error.message());
  }
  if (absl::Status s = CheckGrpcResources(); !s.ok()) return s;
  const ReportedAborts reported_aborts(kAborted);
  EnablePlugins();
  grpc::ServerBuilder builder;
  if (!endpoints.empty()) {
    if ((error = acceptor_.Listen(endpoints))) return CannotListen(where.address, error.message());
    port_ = acceptor_.port();
    credentials_ = where.certificates == nullptr ? grpc::InsecureServerCredentials()
                                                 : where.certificates->NewCredentials();
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials_);
  }
  int socket_port = 1;
  if (!where.unix_socket.empty()) {
    auto file = UnixSocketFile::Create(where.unix_socket);
    if (!file.ok()) return file.status();
    socket_file_ = *std::move(file);
    builder.AddListeningPort("unix:" + socket_file_->listen_path(),
                             grpc::InsecureServerCredentials(), &socket_port);
  }
  names_.clear();
  for (const auto& [name, service] : services) {
    builder.RegisterService(service);
    names_.push_back(name);
  }
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetResourceQuota(
      grpc::ResourceQuota("clients").Resize(kMemoryBytesMax).SetMaxThreads(kThreadsMax));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kClientPingMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  server_ = builder.BuildAndStart();
  absl::Status status;
  if (server_ == nullptr && where.unix_socket.empty()) {
    status = CannotListen(where.address, "the line of gRPC before this one has the reason");
  } else if (server_ == nullptr || socket_port == 0) {
    status = absl::UnavailableError(
        absl::StrCat("cannot listen for gRPC clients on the Unix socket ", where.unix_socket,
                     "; the line of gRPC before this one has the reason"));
  } else if (socket_file_ != nullptr) {
    status = socket_file_->Publish();
  }
  if (status.ok()) {
    SetServing(false);  // until the front end sets it
    if (connections_ != nullptr) {
      if (where.counters != nullptr) acceptor_.SetCounters(where.counters);
      acceptor_.Start(where.memory_bytes_max, [this](int listener, int descriptor) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
        accepted.listener_fd = listener;
        accepted.fd = descriptor;
        connections_->HandleNewConnection(&accepted);
      });
    }
  } else {
    Stop();
  }
  return status;
}

void GrpcServer::Stop() {
  acceptor_.Stop();
  socket_file_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  connections_.reset();
  credentials_.reset();
}

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(serving);
  // The health service knows only the services whose status was set.
  for (const std::string& name : names_) health->SetServingStatus(name, serving);
}

}  // namespace quorate::rpc
