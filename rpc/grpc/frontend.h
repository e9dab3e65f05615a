// SPDX-License-Identifier: Apache-2.0

// The gRPC front end of a member: all services on grpcPort.
//
// Thread-safety: one thread calls all functions.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/connection_counters.h"
#include "rpc/frontend/service.h"
#include "rpc/grpc/backup_sender.h"
#include "rpc/grpc/cluster_service.h"
#include "rpc/grpc/grpc_server.h"
#include "rpc/grpc/server_certificates.h"

namespace quorate::rpc {

class GrpcFrontend {
 public:
  // The pointers must outlive the object.
  GrpcFrontend(const Config& config, Service* service, Administration* administration,
               Administrators* administrators, const Clock* clock);
  ~GrpcFrontend();
  GrpcFrontend(const GrpcFrontend&) = delete;
  GrpcFrontend& operator=(const GrpcFrontend&) = delete;

  // Returns whether the configuration has a gRPC front end.
  static bool IsConfigured(const Config& config) {
    return config.grpc_port != 0 || !config.grpc_unix_socket.empty();
  }
  // As ClusterService::SetAudit. REQUIRES: called before Open.
  void SetAudit(AuditLog* audit) { cluster_.SetAudit(audit); }
  // As ClusterService::SetSessionCloser. REQUIRES: called before Open.
  void SetSessionCloser(SessionCloser* closer) { cluster_.SetSessionCloser(closer); }
  // As ClusterService::SetMetrics. REQUIRES: called before Open.
  void SetMetrics(ClusterService::MetricsText text) { cluster_.SetMetrics(std::move(text)); }

  // Sets where connections are counted, which must outlive Close. REQUIRES: called before Open.
  void SetConnectionCounters(ConnectionCounters* counters) { counters_ = counters; }

  // Listens and serves. Serves `services`, which are given with their full names and must outlive
  // Close, in addition to its own. Returns Unavailable, with the address, if it cannot listen, and
  // the errors of ServerCertificates::Create. REQUIRES: IsConfigured, or a test.
  absl::Status Open(std::vector<std::pair<std::string, grpc::Service*>> services);
  // Returns the port on which it listens, also if port 0 let the system choose it.
  int port() const { return server_.port(); }
  // Ends all calls. REQUIRES: the node does not run any more, or still answers the calls that wait
  // for it.
  void Close();

  // Called when the service's status, and with it possibly the health status, has changed. May be
  // called from any thread.
  void OnStatusPublished();

 private:
  // Updates the status of the health service, and the disk use for the cluster service.
  void Watch();
  // Logs where the front end listens, who is an administrator, and what is missing for safety.
  void LogAccess() const;

  const Config& config_;
  Service* const service_;
  Administrators* const administrators_;
  BackupSender backups_;
  ClusterService cluster_;
  std::unique_ptr<ServerCertificates> certificates_;  // of TLS; null: without
  GrpcServer server_;
  ConnectionCounters* counters_ = nullptr;
  std::thread watcher_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quorate::rpc
