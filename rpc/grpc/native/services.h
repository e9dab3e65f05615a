// SPDX-License-Identifier: Apache-2.0

// The gRPC services of the native front end, Sessions and Tree, to be registered with a server.
// They only transfer bytes between gRPC and the streams (stream_thread.h).
//
// Order at the start: the services are created and registered, the threads are started, the server
// is started. Order at the end: the server is shut down until it has no calls, the threads are
// stopped, the services are destroyed.
//
// Thread-safety: one thread calls services() and the constructor; gRPC calls the rest from its
// threads.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/administrators.h"
#include "rpc/grpc/native/stream_thread.h"

namespace quorate::rpc::native {

class NativeServices {
 public:
  // The pointers must outlive the object. With `has_certificates`, clients may have certificates, whose
  // subjects become identities; a call takes less time without.
  NativeServices(StreamThreads* threads, Administrators* administrators,
                 bool has_certificates = false);
  ~NativeServices();
  NativeServices(const NativeServices&) = delete;
  NativeServices& operator=(const NativeServices&) = delete;

  // Returns the services with their full names, for grpc::ServerBuilder::RegisterService. The
  // services live as long as the object.
  std::vector<std::pair<std::string, grpc::Service*>> services();

 private:
  class Sessions;
  class Tree;
  class Lock;
  class Election;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<Lock> lock_;
  std::unique_ptr<Election> election_;
};

}  // namespace quorate::rpc::native
