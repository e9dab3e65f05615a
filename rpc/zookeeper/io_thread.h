// SPDX-License-Identifier: Apache-2.0

// One I/O thread of the ZooKeeper front end: it drives a ConnectionLoop from sockets.
//
// Thread-safety: Start and Stop from one thread; Adopt and Wake may be called from any thread;
// everything else runs on the thread itself.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::zk {

class IoThread : private Sockets {
 public:
  // `frontend` must outlive the thread.
  explicit IoThread(ZkFrontend* frontend);
  ~IoThread() override;
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  void Start();
  // Ends the thread and closes its sockets. The service is not used afterwards.
  void Stop();
  // Returns the poller in which the thread waits. Used on the thread itself, or before Start.
  Poller& poller() { return poller_; }

  // Takes an accepted socket of the client at `remote`.
  void Adopt(Descriptor socket, const boost::asio::ip::tcp::endpoint& remote);

 private:
  struct Socket;

  // Sockets
  void Wake() override;
  void EndIterationSoon() override { iteration_ends_ = true; }
  void Receive(uint32_t tag) override;
  size_t WaitingBytes(uint32_t tag) override;
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override;
  void Close(uint32_t tag) override;

  void Run();
  void Open(Descriptor descriptor, const boost::asio::ip::tcp::endpoint& remote);
  // Returns whether the limit of open files allows one more client. If not, counts a refusal.
  bool HasRoomFor(const std::string& address);
  void OnReady(Socket& socket, Poller::Readiness ready);
  void OnReadable(Socket& socket);

  ZkFrontend* const frontend_;
  Poller poller_;
  std::thread thread_;
  std::atomic<bool> stops_{false};
  std::atomic<bool> is_woken_{false};  // OnWake is to be called
  bool iteration_ends_ = false;        // EndIteration is to be called
  std::vector<char> receive_buffer_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Socket>> sockets_;  // by tag
  ConnectionLoop loop_;
};

}  // namespace quorate::rpc::zk
