// One I/O thread of the ZooKeeper front end: an event loop that drives a ConnectionLoop from
// sockets.
//
// Thread-safety: Start and Stop from one thread; Adopt and Wake may be called from any thread;
// everything else runs on the thread itself.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  boost::asio::io_context& context() { return context_; }

  // Takes ownership of an accepted socket.
  void Adopt(boost::asio::ip::tcp::socket socket);

 private:
  struct Socket;

  // Sockets
  void Wake() override;
  void EndIterationSoon() override;
  void Receive(uint32_t tag) override;
  size_t WaitingBytes(uint32_t tag) override;
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override;
  void Close(uint32_t tag) override;

  void Run();
  // Returns whether the limit of open files leaves room for one more client; if not, counts a
  // refusal.
  bool HasRoomFor(const std::string& address);
  void AwaitReadable(const std::shared_ptr<Socket>& socket);
  void OnReadable(const std::shared_ptr<Socket>& socket);
  void AwaitWritable(const std::shared_ptr<Socket>& socket);
  void StartTimer(std::chrono::milliseconds period);

  ZkFrontend* const frontend_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_{context_};
  std::thread thread_;
  std::vector<char> receive_buffer_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Socket>> sockets_;  // by tag
  ConnectionLoop loop_;
};

}  // namespace quorate::rpc::zk
