// SPDX-License-Identifier: Apache-2.0

#include "client/latency.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/scripted_server.h"

namespace quorate {
namespace {

using internal::Latencies;
using internal::MeasureLatencies;
using internal::RankOf;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{20'000};
// Much longer than a round trip on this machine takes, even on a busy one.
constexpr milliseconds kFar{300};

ScriptedServer::Script Far() {
  return {.at_version = [] { std::this_thread::sleep_for(kFar); }};
}

TEST_CASE("the latency of each server is measured, and silent addresses are left out") {
  ScriptedServer near({});
  ScriptedServer far(Far());
  const Latencies measured = MeasureLatencies({}, {near.address(), "127.0.0.1:1", far.address()},
                                              kPatience, std::stop_token());
  REQUIRE(measured.size() == 2);
  CHECK(measured.at(far.address()) >= kFar);
  CHECK(measured.at(near.address()) < kFar);
  CHECK(MeasureLatencies({}, {}, kPatience, std::stop_token()).empty());
}

TEST_CASE("a measurement ends when it is stopped") {
  std::atomic<int> calls = 0;
  std::stop_source stop;
  ScriptedServer server({.at_version = [&] {
    ++calls;
    stop.request_stop();
  }});
  CHECK(MeasureLatencies({}, {server.address()}, kPatience, stop.get_token()).empty());
  CHECK(calls == 1);
}

TEST_CASE("servers of a rank are equally near") {
  CHECK(RankOf(std::chrono::microseconds(5)) == RankOf(std::chrono::microseconds(999)));
  CHECK(RankOf(milliseconds(1)) == 1);
  CHECK(RankOf(milliseconds(2)) == RankOf(milliseconds(3)));
  CHECK(RankOf(milliseconds(4)) > RankOf(milliseconds(3)));
  CHECK(RankOf(milliseconds(200)) > RankOf(milliseconds(20)));
}

TEST_CASE("a client that prefers near servers connects to the nearest") {
  ScriptedServer near({});
  ScriptedServer far(Far());
  ScriptedServer farther(Far());
  for (int i = 0; i < 4; ++i) {
    ClientOptions options;
    options.servers = far.address() + "," + near.address() + "," + farther.address();
    options.prefer_nearest = true;
    options.nearest_patience_ms = 20'000;
    auto client = Client::Connect(std::move(options));
    REQUIRE(client.ok());
    REQUIRE((*client)->Sync().ok());
  }
  CHECK(near.streams() == 4);
  CHECK(far.streams() + farther.streams() == 0);
}

TEST_CASE("a measurement does not show the administrator's token, and the session does") {
  std::atomic<int> measured = 0;
  ScriptedServer server({.at_version = [&] { ++measured; }});
  ClientOptions options;
  options.servers = server.address();
  options.prefer_nearest = true;
  options.nearest_patience_ms = 20'000;
  options.token = "0123456789abcdef";
  auto client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  CHECK(measured > 0);
  CHECK(server.authorized_versions() == 0);
  CHECK(server.shown_authorizations() == std::vector<std::string>{"Bearer 0123456789abcdef"});
}

TEST_CASE("a client that prefers near servers connects, even if none can be measured") {
  // It takes longer than the client waits for a measurement.
  std::atomic<bool> ends = false;
  ScriptedServer server({.at_version = [&] {
    while (!ends) std::this_thread::sleep_for(milliseconds(1));
  }});
  auto client = Client::Connect({.servers = server.address(), .prefer_nearest = true});
  CHECK(client.ok());
  ends = true;
}

}  // namespace
}  // namespace quorate
