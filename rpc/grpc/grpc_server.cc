#include "rpc/grpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/listen/listen.h"

namespace quorate::rpc {
namespace {

// The largest message that is taken: a write of a large value, and what goes with it.
constexpr int kMessageBytesMax = 8 << 20;
// Of buffers for all connections; beyond it gRPC slows them down and then refuses.
constexpr size_t kMemoryBytesMax = size_t{256} << 20;
// Reflection is not of the callback kind: a stream of it holds a thread.
constexpr int kThreadsMax = 8;
constexpr int kStreamsPerConnectionMax = 1000;
// A client that is gone without a word is noticed within twice this time.
constexpr int kKeepaliveMs = 10'000;
// Clients may ask at such intervals whether the server lives.
constexpr int kClientPingMs = 500;

void EnablePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// Why nothing can listen on `address`, which gRPC does not tell: another attempt does.
std::string WhyNotListening(const std::string& address) {
  using boost::asio::ip::tcp;
  const size_t colon = address.rfind(':');
  ASSERT(colon != std::string::npos);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  boost::asio::io_context context;
  boost::system::error_code error;
  const auto found = tcp::resolver(context).resolve(host, address.substr(colon + 1),
                                                    tcp::resolver::passive, error);
  for (auto at = found.begin(); !error && at != found.end(); ++at) {
    tcp::acceptor acceptor(context);
    error = ListenOn(at->endpoint(), Families::kBoth, &acceptor);
  }
  return error ? error.message() : "an attempt right after that succeeded; start the server again";
}

}  // namespace

GrpcServer::~GrpcServer() { ASSERT(server_ == nullptr, "it was stopped"); }

absl::Status GrpcServer::Start(
    const std::string& address,
    const std::vector<std::pair<std::string, grpc::Service*>>& services) {
  EnablePlugins();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
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
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kClientPingMs);
  server_ = builder.BuildAndStart();
  if (server_ != nullptr && port_ != 0) {
    SetServing(false);  // until someone says otherwise
    return absl::OkStatus();
  }
  Stop();
  return absl::UnavailableError(absl::StrCat("cannot listen for gRPC clients (grpcPort) on ",
                                             address, ": ", WhyNotListening(address)));
}

void GrpcServer::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(serving);
  // It knows of those alone that it was told of.
  for (const std::string& name : names_) health->SetServingStatus(name, serving);
}

}  // namespace quorate::rpc
