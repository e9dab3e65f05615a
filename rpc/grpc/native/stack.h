// SPDX-License-Identifier: Apache-2.0

// The native front end of a server, with its threads and services.
//
// Thread-safety: one thread calls all functions.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/service.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/services.h"
#include "rpc/grpc/native/stream_thread.h"

namespace quorate::rpc::native {

class NativeStack {
 public:
  // The pointers must outlive the object.
  NativeStack(const Config& config, Service* service, Administrators* administrators,
              const Clock* clock, RandomBytes* random, const EventHistory* history);

  // Returns the front end that receives the results and events of applied entries, from the first
  // entry on.
  Frontend* frontend() { return &frontend_; }
  // As ClientFrontend::SetRequestAudit. REQUIRES: called before Start.
  void SetRequestAudit(RequestAudit* audit) { frontend_.SetRequestAudit(audit); }
  // Returns the services for a gRPC server, which must start after Start and must have ended before
  // Stop.
  std::vector<std::pair<std::string, grpc::Service*>> services() { return services_.services(); }
  void Start() { threads_.Start(); }
  void Stop() { threads_.Stop(); }

 private:
  NativeFrontend frontend_;
  StreamThreads threads_;
  NativeServices services_;
};

}  // namespace quorate::rpc::native
