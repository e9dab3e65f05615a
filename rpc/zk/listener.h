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
#include "rpc/zk/frontend.h"
#include "rpc/zk/io_thread.h"

namespace quorate::rpc::zk {

class ZkListener {
 public:
  // Adds the threads' loops to `frontend`, which must outlive the object.
  explicit ZkListener(ZkFrontend* frontend);
  ~ZkListener();
  ZkListener(const ZkListener&) = delete;
  ZkListener& operator=(const ZkListener&) = delete;

  // Unavailable, naming address and port, if it cannot listen there.
  absl::Status Start();
  // What it listens on: also if that was left to the system, by port 0. REQUIRES: Start was OK, and
  // Stop was not called.
  uint16_t port() const { return acceptor_->local_endpoint().port(); }
  // Closes all connections and ends the threads. The service is not used any more, and may end.
  void Stop();

 private:
  absl::Status Listen();
  void Accept();

  ZkFrontend* const frontend_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::unique_ptr<boost::asio::ip::tcp::acceptor> acceptor_;
  std::unique_ptr<boost::asio::steady_timer> accept_pause_;
  size_t next_thread_ = 0;  // accepting thread
};

}  // namespace quorate::rpc::zk
