// What the tests of locks and elections share: one real server, clients of it, and events to wait
// for.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/testing/collected.h"
#include "client/testing/server_fixture.h"

namespace quorate {

using testing::Collected;

// Started when it is asked for first; ends with the program.
inline testing::ServerFixture& Servers() {
  static const std::unique_ptr<testing::ServerFixture> servers = [] {
    auto started = testing::ServerFixture::Start();
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    return *std::move(started);
  }();
  return *servers;
}

inline std::unique_ptr<Client> Connect() {
  auto client = Client::Connect({.servers = Servers().servers(), .session_timeout_ms = 15'000});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Not there, or empty: 0.
inline size_t CountChildren(Client* client, const std::string& path) {
  auto listed = client->List(path, {.linearizable = true});
  return listed.ok() ? listed->children.size() : 0;
}

// Waits until the znode has so many children.
inline bool WaitForChildren(Client* client, const std::string& directory, size_t children) {
  Collected<bool> changed;
  auto watch = client->Watch(directory, WatchScope::kChildren,
                             [&](const WatchNotification&) { changed.Add(true); });
  if (!watch.ok()) return false;
  for (size_t changes = 0; changes < 1000; ++changes) {
    if (CountChildren(client, directory) == children) return true;
    if (changed.WaitFor(changes + 1).size() <= changes) return false;
  }
  return false;
}

}  // namespace quorate
