// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/connection_acceptor.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

constexpr uint64_t kBytes = 64u << 10;  // of a connection

// A listener, and the sockets that it was given.
class Listener {
 public:
  explicit Listener(uint64_t bytes_max) {
    REQUIRE_FALSE(acceptor_.Listen({{boost::asio::ip::make_address("127.0.0.1"), 0}}));
    REQUIRE(acceptor_.port() != 0);
    acceptor_.Start(bytes_max, [this](int, int descriptor) {
      const std::lock_guard lock(mutex_);
      sockets_.emplace_back(descriptor);
      changed_.notify_all();
    });
  }
  ~Listener() { acceptor_.Stop(); }

  ConnectionAcceptor& acceptor() { return acceptor_; }
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
  void CloseOne() {
    const std::lock_guard lock(mutex_);
    sockets_.front().Close();
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
  ConnectionAcceptor acceptor_;
};

// Returns whether the other end closes the connection and has sent nothing.
bool IsClosed(tcp::socket& socket) {
  char byte = 0;
  boost::system::error_code error;
  return socket.read_some(boost::asio::buffer(&byte, 1), error) == 0 && error;
}

TEST_CASE("connections take half of the descriptors, and a bounded part of the memory") {
  const ConnectionLimits limits = ConnectionLimitsFor(1000, 0);
  CHECK(limits.all == 500);
  CHECK(limits.of_address == 250);
  CHECK(limits.descriptor == 750);
  CHECK(ConnectionLimitsFor(1 << 20, 100 * kBytes).all == 100);
  CHECK(ConnectionLimitsFor(1 << 20, 100 * kBytes).of_address == 50);
  CHECK(ConnectionLimitsFor(1, 1).of_address == 1);
}

TEST_CASE("a socket that was closed is forgotten, also if its number belongs to another file") {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  OpenSockets sockets;
  sockets.Add(pair[0], "a");
  sockets.Add(pair[1], "b");
  sockets.Sweep();
  CHECK(sockets.count() == 2);
  close(pair[0]);
  sockets.Sweep();
  CHECK(sockets.count() == 1);
  CHECK(sockets.count_of("a") == 0);
  CHECK(sockets.count_of("b") == 1);
  const int other = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(dup2(other, pair[1]) == pair[1]);
  sockets.Sweep();
  CHECK(sockets.count() == 0);
  close(other);
  close(pair[1]);
}

TEST_CASE("connections beyond the limits are closed, and others take the place of those that end") {
  Listener listener(4 * kBytes);  // 4 connections, 2 of an address
  tcp::socket first = listener.Connect("127.0.0.1");
  tcp::socket second = listener.Connect("127.0.0.1");
  listener.AwaitSockets(2);
  tcp::socket third = listener.Connect("127.0.0.1");
  CHECK(IsClosed(third));
  CHECK(listener.acceptor().refused() == 1);
  tcp::socket of_other = listener.Connect("127.0.0.2");
  tcp::socket of_other_too = listener.Connect("127.0.0.2");
  listener.AwaitSockets(4);
  tcp::socket fifth = listener.Connect("127.0.0.3");
  CHECK(IsClosed(fifth));
  listener.CloseOne();
  // Closed ones are looked for now and then.
  while (listener.count() < 5) {
    const int64_t refused = listener.acceptor().refused();
    const tcp::socket next = listener.Connect("127.0.0.1");
    while (listener.count() < 5 && listener.acceptor().refused() == refused) {
      std::this_thread::yield();
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
  while (listener.acceptor().failed() == 0) std::this_thread::yield();
  CHECK(listener.count() == 0);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  listener.AwaitSockets(1);
}

}  // namespace
}  // namespace quorate::rpc
