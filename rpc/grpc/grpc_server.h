// The gRPC server of one member: its port, its limits, and the services that everyone expects of
// one (health and reflection) beside those that it is given.
//
// Thread-safety: Start and Stop from one thread; SetServing from any, between them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace quorate::rpc {

class GrpcServer {
 public:
  GrpcServer() = default;
  // REQUIRES: it was stopped, or never started.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens on `address` ("host:port") without TLS, for `services`, by their full names, all of the
  // callback kind; they must outlive Stop. Unavailable, naming the address, if it is not free or
  // not of this machine; ResourceExhausted if there are too few threads or file descriptors. Called
  // by the program's main thread: if gRPC aborts the process meanwhile, that is reported as fatal.
  absl::Status Start(const std::string& address,
                     const std::vector<std::pair<std::string, grpc::Service*>>& services);
  // What it listens on: also if that was left to the system, by port 0.
  int port() const { return port_; }
  // Cancels all calls and waits until they have ended.
  void Stop();

  // What the health service says of the server as a whole ("") and of each service by its name.
  void SetServing(bool serving);

 private:
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> names_;
  int port_ = 0;
};

}  // namespace quorate::rpc
