// SPDX-License-Identifier: Apache-2.0

// The gRPC server of one member: its port, its limits, and the standard services (health and
// reflection) in addition to the given ones.
//
// Thread-safety: one thread calls Start and Stop; between these calls any thread may call
// OnAdmitted and SetServing.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/connection_counters.h"
#include "rpc/grpc/connection_acceptor.h"
#include "rpc/grpc/server_certificates.h"
#include "rpc/grpc/unix_socket.h"

namespace quorate::rpc {

// Where a server listens: at one of the two or both.
struct GrpcEndpoints {
  std::string address{};  // "host:port"; empty: at none
  // With TLS; nullptr: without. Must outlive the server.
  ServerCertificates* certificates = nullptr;
  std::string unix_socket{};  // a path, without TLS; empty: at none
  // The memory that connections may take before a call of theirs is admitted; 0: any amount.
  uint64_t memory_bytes_max = 0;
  // Where connections are counted; nullptr: nowhere.
  ConnectionCounters* counters = nullptr;
};

class GrpcServer {
 public:
  GrpcServer() = default;
  // REQUIRES: Stop was called, or Start was never called.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens, and serves `services`. They are given with their full names, use the callback API, and
  // must outlive Stop. Returns Unavailable, with the address or path, if it is in use, or not one of
  // this machine, and ResourceExhausted if there are too few threads or file descriptors. Must be
  // called by the program's main thread: if gRPC aborts the process during the call, that is
  // reported as fatal.
  absl::Status Start(const GrpcEndpoints& endpoints,
                     const std::vector<std::pair<std::string, grpc::Service*>>& services);
  // Returns the port on which it listens, also if port 0 let the system choose it.
  int port() const { return port_; }
  // Records that a call from `peer` (grpc::ServerContext::peer()) is admitted. Its connection then takes
  // no part of the memory above, and is not closed for newer ones.
  void OnAdmitted(std::string_view peer) { acceptor_.OnAdmitted(peer); }
  // Cancels all calls and waits until they have ended.
  void Stop();

  // Sets the health status of the server as a whole ("") and of each service.
  void SetServing(bool serving);

 private:
  std::shared_ptr<grpc::ServerCredentials> credentials_;  // must outlive server_
  std::unique_ptr<UnixSocketFile> socket_file_;
  std::unique_ptr<grpc::Server> server_;
  // Takes the connections that acceptor_ accepts. nullptr if the server listens at no address.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  ConnectionAcceptor acceptor_;
  std::vector<std::string> names_;
  int port_ = 0;
};

}  // namespace quorate::rpc
