// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/open_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "rpc/poller/descriptor.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

constexpr uint64_t kBytes = 64u << 10;  // of a connection
constexpr int64_t kAny = 1 << 20;
constexpr ConnectionLimits kSmall = {
    .remote = {.all = 100, .of_tenant = 50, .newcomers = 6, .descriptor = kAny},
    .local = {.all = 50, .of_tenant = 50, .newcomers = 3, .descriptor = kAny}};
constexpr auto kMoment = std::chrono::milliseconds(1);

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
    last_ = connections.Add(
        limits_, pair[0], {boost::asio::ip::make_address(address), PortOf(ours_.size() - 1)}, now);
    if (last_.refused != nullptr) ours_.back().Close();
    return ours_.size() - 1;
  }
  // Records an admitted call of a connection from this IPv4 address.
  void Admit(const std::string& address, size_t number) {
    connections.OnAdmitted("ipv4:" + address + ":" + std::to_string(PortOf(number)));
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
  OpenConnections::Time now{};

 private:
  const ConnectionLimits limits_;
  OpenConnections::Added last_;
  std::vector<Descriptor> ours_;
  std::vector<Descriptor> theirs_;
};

TEST_CASE("the memory limits connections without an admitted call alone") {
  const ConnectionLimits limits = ConnectionLimitsFor(1000, 0);
  CHECK(limits.remote.all == 500);
  CHECK(limits.remote.of_tenant == 250);
  CHECK(limits.remote.newcomers == 125);
  CHECK(limits.remote.descriptor == 936);
  CHECK(limits.local.all == 250);
  CHECK(limits.local.of_tenant == 250);
  CHECK(limits.local.newcomers == 62);
  CHECK(limits.local.descriptor == 968);
  const ConnectionLimits by_memory = ConnectionLimitsFor(1 << 20, 100 * kBytes);
  CHECK(by_memory.remote.all == 1 << 19);
  CHECK(by_memory.remote.newcomers == 100);
  CHECK(by_memory.local.newcomers == 50);
  CHECK(ConnectionLimitsFor(1 << 20, 1).remote.newcomers == 64);
  CHECK(ConnectionLimitsFor(1, 1).local.newcomers == 1);
  CHECK(ConnectionLimitsFor(100, 1).remote.descriptor == 51);
}

TEST_CASE("two addresses that hold all places keep nobody else out") {
  Fixture fixture;
  for (int i = 0; i < 20; ++i) fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
  const size_t honest = fixture.Add("10.0.0.3");
  fixture.Admit("10.0.0.3", honest);
  for (int i = 0; i < 20; ++i) {
    fixture.connections.Sweep();
    fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
  }
  CHECK_FALSE(fixture.IsReplaced(honest));
  CHECK(fixture.IsReplaced(0));
}

TEST_CASE("floods from other machines close no connection of this one, nor those of few") {
  Fixture fixture;
  const size_t local = fixture.Add("127.0.0.1");
  const size_t honest = fixture.Add("10.9.9.9");
  const std::vector<std::string> many = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1",
                                         "2001:db8:1::1"};
  for (int i = 0; i < 100; ++i) {
    fixture.now += kMoment / 2;
    fixture.Add(many[static_cast<size_t>(i) % many.size()].c_str());
  }
  CHECK_FALSE(fixture.IsReplaced(local));
  CHECK_FALSE(fixture.IsReplaced(honest));
  // Later ones need the place of a connection that has had its time.
  fixture.now += kNewcomerTime;
  for (const std::string& address : many) CHECK_FALSE(fixture.IsRefused(address.c_str()));
  CHECK(fixture.IsReplaced(honest));
  CHECK_FALSE(fixture.IsReplaced(local));
  CHECK_FALSE(fixture.IsRefused("127.0.0.1"));
}

TEST_CASE("a tenant with many newcomers loses its oldest one to a tenant with few") {
  Fixture fixture;
  const size_t other = fixture.Add("10.0.0.1");
  const size_t first = fixture.Add("2001:db8::1");
  const size_t second = fixture.Add("2001:db8::2");  // of the same 64 bits
  for (int i = 3; i <= 5; ++i) fixture.Add("2001:db8::3");
  const size_t mapped = fixture.Add("::ffff:10.0.0.1");  // an IPv4 address
  CHECK(fixture.IsReplaced(first));
  CHECK_FALSE(fixture.IsReplaced(second));
  CHECK_FALSE(fixture.IsReplaced(other));
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  CHECK(fixture.IsReplaced(second));
  CHECK(fixture.IsRefused("10.0.0.1"));  // there are three of each
  CHECK_FALSE(fixture.IsReplaced(mapped));
}

TEST_CASE("clients behind one address that come all at once do not close one another") {
  Fixture fixture;
  for (int i = 0; i < 6; ++i) CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  fixture.now += kNewcomerTime - kMoment;
  for (int i = 0; i < 20; ++i) CHECK(fixture.IsRefused("10.0.0.1"));
  for (size_t i = 0; i < 6; ++i) CHECK_FALSE(fixture.IsReplaced(i));
  fixture.Admit("10.0.0.1", 3);
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  fixture.now += kMoment;
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  CHECK(fixture.IsReplaced(0));
  CHECK_FALSE(fixture.IsReplaced(1));
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
  limits.remote.all = 4;
  limits.local.newcomers = 50;
  Fixture fixture(limits);
  for (int i = 0; i < 4; ++i) {
    const char* address = i % 2 == 0 ? "10.0.0.1" : "10.0.0.2";
    fixture.Admit(address, fixture.Add(address));
  }
  CHECK(fixture.IsRefused("10.0.0.3"));
  for (int i = 0; i < 50; ++i) CHECK_FALSE(fixture.IsRefused("127.0.0.1"));
  CHECK(fixture.IsRefused("::1"));
}

TEST_CASE("the last descriptors are for this machine") {
  ConnectionLimits limits = kSmall;
  limits.remote.descriptor = 1;
  Fixture fixture(limits);
  const size_t local = fixture.Add("127.0.0.1");
  fixture.now += kNewcomerTime;
  CHECK(fixture.IsRefused("10.0.0.1"));
  CHECK_FALSE(fixture.IsReplaced(local));
  CHECK_FALSE(fixture.IsRefused("127.0.0.1"));
}

TEST_CASE("connections that gRPC has not closed yet keep no other address out") {
  ConnectionLimits limits = kSmall;
  limits.remote.all = 10;
  limits.remote.of_tenant = 8;
  Fixture fixture(limits);
  for (int i = 0; i < 40; ++i) {
    fixture.now += kNewcomerTime;
    fixture.Add(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
  }
  CHECK(fixture.connections.count() == 16);
  for (size_t i = 10; i < 16; ++i) fixture.Admit(i % 2 == 0 ? "10.0.0.1" : "10.0.0.2", i);
  CHECK(fixture.connections.newcomers() == 0);
  CHECK(fixture.IsRefused("10.0.0.1"));
  CHECK_FALSE(fixture.IsRefused("10.9.9.9"));
  fixture.Close(0);
  fixture.connections.Sweep();
  fixture.now += kNewcomerTime;
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
}

TEST_CASE("a connection that was closed is forgotten, also if its number belongs to another file") {
  Fixture fixture;
  const size_t first = fixture.Add("10.0.0.1");
  const size_t second = fixture.Add("10.0.0.2");
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 2);
  fixture.Close(first);
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 1);
  const Descriptor other(socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(dup2(other.number(), fixture.number_of(second)) == fixture.number_of(second));
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 0);
  CHECK(fixture.connections.newcomers() == 0);
}

TEST_CASE("a sweep finds closed connections among many, also those with an admitted call") {
  ConnectionLimits limits = kSmall;
  limits.remote = {.all = 1000, .of_tenant = 1000, .newcomers = 1000, .descriptor = kAny};
  Fixture fixture(limits);
  for (size_t i = 0; i < 400; ++i) fixture.Admit("10.0.0.1", fixture.Add("10.0.0.1"));
  for (size_t i = 0; i < 400; i += 2) fixture.Close(i);
  fixture.connections.Sweep();
  CHECK(fixture.connections.count() == 200);
}

TEST_CASE("a number that comes again belongs to the new connection alone") {
  ConnectionLimits limits = kSmall;
  limits.remote.of_tenant = 1;
  Fixture fixture(limits);
  const size_t first = fixture.Add("10.0.0.1");
  fixture.Admit("10.0.0.1", first);
  const int number = fixture.number_of(first);
  fixture.Close(first);
  const size_t second = fixture.Add("10.0.0.1");
  REQUIRE(fixture.number_of(second) == number);
  CHECK(fixture.connections.count() == 1);
  CHECK(fixture.connections.newcomers() == 1);
  fixture.Admit("10.0.0.1", first);  // its last call ends
  CHECK(fixture.connections.newcomers() == 1);
}

TEST_CASE("a file that has the number of a closed newcomer is not closed for others") {
  Fixture fixture;
  const size_t first = fixture.Add("10.0.0.1");
  for (int i = 1; i < 6; ++i) fixture.Add("10.0.0.1");
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const Descriptor ours(pair[0]);
  const Descriptor theirs(pair[1]);
  REQUIRE(dup2(ours.number(), fixture.number_of(first)) == fixture.number_of(first));
  CHECK_FALSE(fixture.IsRefused("10.0.0.1"));
  char byte = 0;
  CHECK(recv(theirs.number(), &byte, 1, MSG_DONTWAIT) < 0);
  CHECK(fixture.connections.newcomers() == 6);
}

TEST_CASE(
    "a connection from a port of an admitted one is a newcomer until a call of it is admitted") {
  OpenConnections connections;
  const boost::asio::ip::tcp::endpoint remote(boost::asio::ip::make_address("10.0.0.1"), 1000);
  const Descriptor first(socket(AF_UNIX, SOCK_STREAM, 0));
  const Descriptor second(socket(AF_UNIX, SOCK_STREAM, 0));
  for (const Descriptor* each : {&first, &second}) {
    CHECK(connections.Add(kSmall, each->number(), remote, {}).refused == nullptr);
    CHECK(connections.newcomers() == 1);
    connections.OnAdmitted("ipv4:10.0.0.1:1000");
    CHECK(connections.newcomers() == 0);
  }
}

}  // namespace
}  // namespace quorate::rpc
