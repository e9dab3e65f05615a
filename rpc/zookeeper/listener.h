// Listens on the client port and runs the I/O threads of the ZooKeeper front end.
//
// Thread-safety: all functions from one thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
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
  // cannot listen there; InvalidArgument if clientPortAddress is no address and no known name.
  absl::Status Start();
  // Returns the port that it listens on, also if port 0 left the choice to the system. REQUIRES:
  // Start returned OK, and Stop was not called.
  uint16_t port() const { return acceptor_->local_endpoint().port(); }
  // Closes all connections and ends the threads. The service is not used afterwards and may be
  // destroyed.
  void Stop();

 private:
  absl::Status Listen();
  void Accept();

  ZkFrontend* const frontend_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<boost::asio::ip::tcp::acceptor> acceptor_;
  std::unique_ptr<boost::asio::steady_timer> accept_pause_;
  size_t next_thread_ = 0;  // of the thread that gets the next connection; accepting thread only
};

}  // namespace quorate::rpc::zk
