// SPDX-License-Identifier: Apache-2.0

// The ZooKeeper front end's sockets and threads.
#include "rpc/zookeeper/listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "base/testing/manual_clock.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

// A server destroys its service before its front ends, because the service calls the front ends for
// everything applied.
TEST_CASE("after its stop a listener has taken back what its connections count in memory") {
  Config config = TestConfig();
  config.client_address = "127.0.0.1";
  config.client_port = 0;
  config.io_threads = 1;
  FakeService service;
  ManualClock clock(kStartMs);
  CountingBytes random;
  ZkFrontend frontend(config, &service, &clock, &random);
  ZkListener listener(&frontend);
  REQUIRE(listener.Start().ok());
  boost::asio::io_context context;
  tcp::socket client(context);
  client.connect({boost::asio::ip::address_v4::loopback(), listener.port()});
  std::string half = ConnectPacket({});
  half.resize(half.size() / 2);
  boost::asio::write(client, boost::asio::buffer(half));
  while (service.memory().used(MemoryUse::kRequests) == 0) std::this_thread::yield();
  listener.Stop();
  CHECK(service.memory().used(MemoryUse::kRequests) == 0);
}

}  // namespace
}  // namespace quorate::rpc::zk
