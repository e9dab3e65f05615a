#include "rpc/grpc/native/entrance.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

namespace quorate::rpc::native {

NativeEntrance::NativeEntrance(const Config& config, Service* service, const Clock* clock,
                               RandomBytes* random)
    : door_(config, service, clock, random),
      threads_(&door_, static_cast<size_t>(std::max(config.io_threads, 1))),
      services_(&threads_) {
  // That a message does not decode is told to its client. protobuf would write it to standard error
  // besides, as often as anybody likes.
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace quorate::rpc::native
