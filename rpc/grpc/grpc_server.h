// The gRPC server of one member: its port, its limits, and the standard services (health and
// reflection) beside the given ones.
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
  // REQUIRES: Stop was called, or Start never was.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens on `address` ("host:port") without TLS, and serves `services`, given with their full
  // names, all for the callback API; they must outlive Stop. Returns Unavailable, with the address,
  // if it is in use or not of this machine; ResourceExhausted if there are too few threads or file
  // descriptors. To be called by the program's main thread: if gRPC aborts the process meanwhile,
  // that is reported as fatal.
  absl::Status Start(const std::string& address,
                     const std::vector<std::pair<std::string, grpc::Service*>>& services);
  // Returns the port that it listens on, also if port 0 left the choice to the system.
  int port() const { return port_; }
  // Cancels all calls and waits until they have ended.
  void Stop();

  // Sets the health status of the server as a whole ("") and of each service.
  void SetServing(bool serving);

 private:
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> names_;
  int port_ = 0;
};

}  // namespace quorate::rpc
