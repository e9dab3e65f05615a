// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/open_connections.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <vector>

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

constexpr uint64_t kBytes = 64u << 10;  // of a connection
constexpr ConnectionLimits kSmall = {.all = 100,
                                     .of_tenant = 50,
                                     .newcomers = 4,
                                     .newcomers_of_tenant = 2,
                                     .descriptor = 1 << 20,
                                     .local_descriptor = 1 << 20};

// Connections that come from any address.
class Fixture {
 public:
  explicit Fixture(const ConnectionLimits& limits = kSmall) : limits_(limits) {}

  // Adds a connection. Returns its number, from 0 on.
  size_t Add(const char* address) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    ours_.emplace_back(pair[0]);
    theirs_.emplace_back(pair[1]);
    last_ = connections.Add(limits_, pair[0],
                            {boost::asio::ip::make_address(address), PortOf(ours_.size() - 1)});
    return ours_.size() - 1;
  }
  bool IsRefused(const char* address) {
    Add(address);
    return last_.refused != nullptr;
  }
  static uint16_t PortOf(size_t number) { return static_cast<uint16_t>(1000 + number); }
  // Returns whether the connection was closed for another.
  bool IsReplaced(size_t number) const {
    char byte = 0;
    return recv(theirs_[number].number(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  // Closes a connection, as gRPC does.
  void Close(size_t number) { ours_[number].Close(); }
  int number_of(size_t number) const { return ours_[number].number(); }

  OpenConnections connections;

 private:
  const ConnectionLimits limits_;
  OpenConnections::Added last_;
  std::vector<Descriptor> ours_;
  std::vector<Descriptor> theirs_;
};

TEST_CASE("the memory limits connections without an admitted call alone") {
  const ConnectionLimits limits = ConnectionLimitsFor(1000, 0);
  CHECK(limits.all == 500);
  CHECK(limits.of_tenant == 250);
  CHECK(limits.newcomers == 125);
  CHECK(limits.descriptor == 936);
  CHECK(limits.local_descriptor == 968);
  const ConnectionLimits by_memory = ConnectionLimitsFor(1 << 20, 100 * kBytes);
  CHECK(by_memory.all == 1 << 19);
  CHECK(by_memory.newcomers == 100);
  CHECK(by_memory.newcomers_of_tenant == 50);
  CHECK(ConnectionLimitsFor(1 << 20, 1).newcomers == 64);
  CHECK(ConnectionLimitsFor(1, 1).newcomers_of_tenant == 1);
  CHECK(ConnectionLimitsFor(100, 1).descriptor == 51);
}

TEST_CASE("two addresses that hold all places keep nobody else out") {
  Fixture fixture;
  for (int i = 0; i < 20; ++i) fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
  const size_t honest = fixture.Add("10.0.0.3");
  fixture.connections.OnAdmitted("ipv4:10.0.0.3:" + std::to_string(Fixture::PortOf(honest)));
  for (int i = 0; i < 20; ++i) {
    fixture.connections.Sweep();
    fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
  }
  CHECK_FALSE(fixture.IsReplaced(honest));
  CHECK(fixture.IsReplaced(0));
}

TEST_CASE("a tenant with many newcomers loses its own oldest one, and no other's") {
  Fixture fixture;
  const size_t other = fixture.Add("10.0.0.1");
  const size_t first = fixture.Add("2001:db8::1");
  const size_t second = fixture.Add("2001:db8::2");  // of the same 64 bits
  fixture.Add("2001:db8::3");
  CHECK(fixture.IsReplaced(first));
  CHECK_FALSE(fixture.IsReplaced(second));
  CHECK_FALSE(fixture.IsReplaced(other));
  const size_t mapped = fixture.Add("::ffff:10.0.0.1");  // an IPv4 address
  fixture.Add("10.0.0.1");
  CHECK(fixture.IsReplaced(other));
  CHECK_FALSE(fixture.IsReplaced(mapped));
}

TEST_CASE("many clients of one address are served when their calls are admitted") {
  Fixture fixture;
  for (int i = 0; i < 50; ++i) {
    const size_t number = fixture.Add("2001:db8::1");
    fixture.connections.OnAdmitted("ipv6:%5B2001:db8::1%5D:" +
                                   std::to_string(Fixture::PortOf(number)));
  }
  CHECK(fixture.connections.count() == 50);
  CHECK(fixture.connections.newcomers() == 0);
  for (size_t i = 0; i < 50; ++i) CHECK_FALSE(fixture.IsReplaced(i));
  CHECK(fixture.IsRefused("2001:db8::1"));
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
}

TEST_CASE("places are reserved for this machine") {
  ConnectionLimits limits = kSmall;
  limits.all = 4;
  Fixture fixture(limits);
  for (int i = 0; i < 4; ++i) {
    const size_t number = fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
    fixture.connections.OnAdmitted((i % 2 == 0 ? "ipv4:10.0.0.1:" : "ipv4:10.0.0.2:") +
                                   std::to_string(Fixture::PortOf(number)));
  }
  CHECK(fixture.IsRefused("10.0.0.3"));
  for (int64_t i = 0; i < kLocalReserve; ++i) CHECK_FALSE(fixture.IsRefused("127.0.0.1"));
  CHECK(fixture.IsRefused("::1"));
}

TEST_CASE("the last descriptors are for this machine") {
  ConnectionLimits limits = kSmall;
  limits.descriptor = 1;
  Fixture fixture(limits);
  CHECK(fixture.IsRefused("10.0.0.1"));
  CHECK_FALSE(fixture.IsRefused("127.0.0.1"));
}

TEST_CASE("connections that gRPC has not closed yet are no more than those that it may have") {
  Fixture fixture;
  for (int i = 0; i < 6; ++i) CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  CHECK(fixture.IsRefused("10.0.0.1"));
  fixture.Close(0);
  fixture.connections.SweepNewcomers();
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
}

TEST_CASE("a connection that was closed is forgotten, also if its number belongs to another file") {
  Fixture fixture;
  const size_t first = fixture.Add("10.0.0.1");
  const size_t second = fixture.Add("10.0.0.2");
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 2);
  fixture.Close(first);
  fixture.connections.SweepNewcomers();
  CHECK(fixture.connections.count() == 1);
  const Descriptor other(socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(dup2(other.number(), fixture.number_of(second)) == fixture.number_of(second));
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 0);
  CHECK_FALSE(fixture.connections.has_newcomers());
}

}  // namespace
}  // namespace quorate::rpc
