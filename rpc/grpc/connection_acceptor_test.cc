// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/connection_acceptor.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

// A listener, and the sockets that it was given.
class Listener {
 public:
  explicit Listener(uint64_t bytes_max) {
    REQUIRE_FALSE(acceptor_.Listen({{boost::asio::ip::make_address("127.0.0.1"), 0}}));
    REQUIRE(acceptor_.port() != 0);
    acceptor_.SetCounters(&counters_);
    acceptor_.Start(bytes_max, [this](int, int descriptor) {
      const std::lock_guard lock(mutex_);
      sockets_.emplace_back(descriptor);
      changed_.notify_all();
    });
  }
  ~Listener() { acceptor_.Stop(); }

  ConnectionAcceptor& acceptor() { return acceptor_; }
  const ConnectionCounters& counters() const { return counters_; }
  // Connects from an address.
  tcp::socket Connect(const char* from) {
    tcp::socket socket(context_);
    socket.open(tcp::v4());
    socket.bind({boost::asio::ip::make_address(from), 0});
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), acceptor_.port()});
    return socket;
  }
  void AwaitSockets(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sockets_.size() >= count; });
  }
  // Records an admitted call from the other end of the connection.
  void Admit(const tcp::socket& socket) {
    acceptor_.OnAdmitted("ipv4:127.0.0.1:" + std::to_string(socket.local_endpoint().port()));
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return sockets_.size();
  }

 private:
  boost::asio::io_context context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Descriptor> sockets_;
  ConnectionCounters counters_;
  ConnectionAcceptor acceptor_;
};

// Returns whether the other end closes the connection and has sent nothing.
bool IsClosed(tcp::socket& socket) {
  char byte = 0;
  boost::system::error_code error;
  return socket.read_some(boost::asio::buffer(&byte, 1), error) == 0 && error;
}

// Returns whether the other end has closed the connection by now.
bool HasEnded(tcp::socket& socket) {
  char byte = 0;
  return ::recv(socket.native_handle(), &byte, 1, MSG_DONTWAIT) >= 0;
}

TEST_CASE("the oldest connection without an admitted call is closed for a newer one") {
  Listener listener(1);  // 32 of this machine without an admitted call
  std::vector<tcp::socket> sockets;
  for (int i = 0; i < 33; ++i) {
    sockets.push_back(listener.Connect("127.0.0.1"));
    listener.AwaitSockets(static_cast<size_t>(i) + 1);
    if (i == 0) listener.Admit(sockets.front());
  }
  CHECK(listener.counters().replaced == 0);
  CHECK(listener.counters().refused == 0);
  // Until the oldest has had its time, others are refused.
  const auto connect_next = [&] {
    const int64_t refused = listener.counters().refused;
    tcp::socket next = listener.Connect("127.0.0.1");
    while (listener.counters().replaced == 0 && listener.counters().refused == refused) {
      std::this_thread::yield();
    }
    return next;
  };
  tcp::socket next = connect_next();
  while (listener.counters().replaced == 0) next = connect_next();
  CHECK(listener.counters().replaced == 1);
  CHECK(IsClosed(sockets[1]));
  for (const size_t open : {size_t{0}, size_t{2}}) CHECK_FALSE(HasEnded(sockets[open]));
}

TEST_CASE("0.0.0.0 and :: mean the addresses of both families") {
  for (const char* any : {"0.0.0.0", "::"}) {
    ConnectionAcceptor acceptor;
    REQUIRE_FALSE(acceptor.Listen({{boost::asio::ip::make_address(any), 0}}));
    boost::asio::io_context context;
    for (const char* own : {"127.0.0.1", "::1"}) {
      tcp::socket socket(context);
      boost::system::error_code error;
      socket.connect({boost::asio::ip::make_address(own), acceptor.port()}, error);
      const bool has_family = error != boost::system::errc::address_family_not_supported &&
                              error != boost::system::errc::address_not_available;
      if (has_family) CHECK_FALSE(error);
    }
  }
}

TEST_CASE("a listener that the system let accept nothing goes on") {
  Listener listener(0);
  boost::asio::io_context context;
  tcp::socket socket(context);
  socket.open(tcp::v4());
  const int next = dup(0);
  REQUIRE(next >= 0);
  close(next);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{static_cast<rlim_t>(next), limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), listener.acceptor().port()});
  while (listener.counters().failed == 0) std::this_thread::yield();
  CHECK(listener.count() == 0);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  // The thread may have read the low limit before, and accept after: it then refuses the connection.
  while (listener.count() == 0) {
    const int64_t refused = listener.counters().refused;
    while (listener.count() == 0 && listener.counters().refused == refused) {
      std::this_thread::yield();
    }
    if (listener.count() > 0) break;
    socket = listener.Connect("127.0.0.1");
  }
  CHECK(listener.count() == 1);
}

}  // namespace
}  // namespace quorate::rpc
