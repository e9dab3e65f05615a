// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/stack.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

namespace quorate::rpc::native {

NativeStack::NativeStack(const Config& config, Service* service, Administrators* administrators,
                         const Clock* clock, RandomBytes* random, const EventHistory* history)
    : frontend_(config, service, clock, random, history),
      threads_(&frontend_, static_cast<size_t>(std::max(config.io_threads, 1))),
      services_(&threads_, administrators,
                config.grpc_tls && config.grpc_tls_client_auth != "none") {
  // A message that cannot be decoded is reported to its client. protobuf would also log each one to
  // standard error, at a rate that clients control.
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace quorate::rpc::native
