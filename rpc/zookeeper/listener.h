// SPDX-License-Identifier: Apache-2.0

// Listens on the client port and runs the I/O threads of the ZooKeeper front end.
//
// Thread-safety: all functions from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/io_thread.h"

namespace quorate::rpc::zk {

class ZkListener : private Poller::Handler {
 public:
  // Adds the threads' loops to `frontend`, which must outlive the object.
  explicit ZkListener(ZkFrontend* frontend);
  ~ZkListener() override;
  ZkListener(const ZkListener&) = delete;
  ZkListener& operator=(const ZkListener&) = delete;

  // Begins to listen and starts the threads. Returns Unavailable, with address and port, if it
  // cannot listen there; InvalidArgument if clientPortAddress is no address and no known name.
  absl::Status Start();
  // Returns the port on which the server listens, also if port 0 left the choice to the system.
  // REQUIRES: Start returned OK.
  uint16_t port() const { return port_; }
  // Closes all connections and ends the threads. The service is not used afterwards and may be
  // destroyed.
  void Stop();

 private:
  absl::Status Listen();
  // On the first I/O thread: accepts the connections that wait.
  void OnReady(Poller::Readiness ready) override;

  ZkFrontend* const frontend_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  Descriptor socket_;
  uint16_t port_ = 0;
  Poller::Id registration_{};  // of socket_, with the first thread
  size_t next_thread_ = 0;     // of the thread that gets the next connection; accepting thread only
};

}  // namespace quorate::rpc::zk
