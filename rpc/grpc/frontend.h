// The gRPC front end of a member: everything that is served on grpcPort.
//
// Thread-safety: all functions from one thread.
#pragma once

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/grpc/backup_sender.h"
#include "rpc/grpc/cluster_service.h"
#include "rpc/grpc/grpc_server.h"
#include "rpc/server/administration.h"
#include "rpc/server/config.h"
#include "rpc/server/service.h"

namespace quorate::rpc {

class GrpcFrontend {
 public:
  // All must outlive the object.
  GrpcFrontend(const Config& config, Service* service, Administration* administration,
               const Clock* clock);
  ~GrpcFrontend();
  GrpcFrontend(const GrpcFrontend&) = delete;
  GrpcFrontend& operator=(const GrpcFrontend&) = delete;

  // Serves `services` too, by their full names, which must outlive Close. Unavailable, naming the
  // address, if it cannot listen.
  absl::Status Open(std::vector<std::pair<std::string, grpc::Service*>> services);
  // What it listens on: also if that was left to the system, by port 0.
  int port() const { return server_.port(); }
  // Ends all calls. The node must not run any more, or still answer what it was asked.
  void Close();

  // From any thread: the service's status is new, and so may be what health checks are told.
  void OnStatusPublished();

 private:
  // Tells the health service and Status what they cannot look up when they are asked.
  void Watch();

  const Config& config_;
  Service* const service_;
  BackupSender backups_;
  ClusterService cluster_;
  GrpcServer server_;
  std::thread watcher_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quorate::rpc
