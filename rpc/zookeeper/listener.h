// SPDX-License-Identifier: Apache-2.0

// Listens on the client ports, with and without TLS, and runs the I/O threads of the ZooKeeper front
// end.
//
// Thread-safety: all functions from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/io_thread.h"

namespace quorate::rpc::zk {

class ZkListener {
 public:
  // Adds the threads' loops to `frontend`, which must outlive the object.
  explicit ZkListener(ZkFrontend* frontend);
  ~ZkListener();
  ZkListener(const ZkListener&) = delete;
  ZkListener& operator=(const ZkListener&) = delete;

  // Begins to listen and starts the threads. Returns Unavailable, with address and port, if it
  // cannot listen there; InvalidArgument if an address is no address and no known name, or a store
  // of TLS or the JAAS file cannot be used.
  absl::Status Start();
  // Returns the port on which the server listens without TLS, also if port 0 left the choice to the
  // system. REQUIRES: Start returned OK.
  uint16_t port() const { return plain_.port; }
  // Returns what new connections with TLS use; nullptr if no client uses TLS. Any thread. REQUIRES:
  // Start returned OK.
  std::shared_ptr<const tls::Context> tls() const {
    return tls_ == nullptr ? nullptr : tls_->Get();
  }
  // Closes all connections and ends the threads. The service is not used afterwards and may be
  // destroyed.
  void Stop();

 private:
  // A port on which clients connect.
  struct Port : Poller::Handler {
    // On the first I/O thread: accepts the connections that wait.
    void OnReady(Poller::Readiness /*ready*/) override { listener->Accept(*this); }

    ZkListener* listener = nullptr;
    IoThread::Encryption encryption{};
    Descriptor socket;
    uint16_t port = 0;
    Poller::Id registration{};  // of the socket, with the first thread
  };

  // Listens at `address` (empty: everywhere), which is the value of the key `name`.
  absl::Status Listen(const char* name, const std::string& address, uint16_t number, Port* port);
  absl::Status Register(Port* port);
  void Accept(Port& port);

  ZkFrontend* const frontend_;
  std::unique_ptr<tls::CurrentContext> tls_;   // null if no client uses TLS
  std::unique_ptr<sasl::Authenticator> sasl_;  // null if there is no SASL
  std::vector<std::unique_ptr<IoThread>> threads_;
  Port plain_;  // and, if the configuration says so, for TLS too
  Port secure_;
  size_t next_thread_ = 0;  // of the thread that gets the next connection; accepting thread only
};

}  // namespace quorate::rpc::zk
