// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of recipes: a server for all test cases of a program, and clients of it.
//
// Thread-safety: one thread at a time, except ConnectTo.
#pragma once

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/recipes/waiting.h"
#include "client/testing/server_fixture.h"

namespace quorate::testing {

// Returns the server, which the first call starts. Only that one makes checks, which are not safe on
// several threads.
inline ServerFixture& Servers() {
  static const std::unique_ptr<ServerFixture> servers = [] {
    auto started = ServerFixture::Start();
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    return *std::move(started);
  }();
  return *servers;
}

// Returns a client below the chroot of its test case, where it does not see the znodes of others.
inline std::unique_ptr<Client> ConnectTo(const std::string& chroot, ClientOptions options = {}) {
  auto root = Client::Connect({.servers = Servers().servers()});
  REQUIRE(root.ok());
  const absl::Status made = (*root)->Create(chroot, "", {.create_parents = true}).status();
  if (ErrorOf(made) != ErrorCode::kNodeExists) REQUIRE(made.ok());
  options.servers = Servers().servers() + chroot;
  auto client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Waits until the znode at `path` has `count` children, such as those of the waiters of a recipe.
// Returns false after 20 s, or an error.
inline bool WaitForChildren(Client* client, const std::string& path, size_t count) {
  return internal::WaitUntil(client, path, WatchScope::kChildren, internal::WaitDeadline(20'000),
                             "children",
                             [&]() -> absl::StatusOr<bool> {
                               const auto list = client->List(path);
                               return list.ok() && list->children.size() == count;
                             })
      .ok();
}

// Runs a blocking call on a separate thread, and returns a future.
template <class Function>
auto Begin(Function function) {
  return std::async(std::launch::async, std::move(function));
}

}  // namespace quorate::testing
