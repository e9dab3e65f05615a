// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of locks and elections: one real server, clients of it, and waiting for
// events.
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

// Returns the server, which the first call starts; it ends with the program.
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

// Returns the number of children; 0 if the znode does not exist.
inline size_t CountChildren(Client* client, const std::string& path) {
  auto listed = client->List(path, {.linearizable = true});
  return listed.ok() ? listed->children.size() : 0;
}

// Waits until the znode has `children` children. Returns false after a timeout or an error.
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
