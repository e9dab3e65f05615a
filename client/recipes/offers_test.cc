// SPDX-License-Identifier: Apache-2.0

// Tests offers of a candidate whose znode is deleted before the offer is complete.

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/recipes/election.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {

class ElectionTestAccess {
 public:
  using StartNode = Election::StartNode;
  static std::unique_ptr<Election> New(Client* client, std::string path, ElectionOptions options,
                                       StartNode start_node) {
    return std::unique_ptr<Election>(
        new Election(client, std::move(path), std::move(options), "lock-", std::move(start_node)));
  }
};

namespace {

using testing::Collected;

constexpr int kLongMs = 20'000;

std::unique_ptr<Client> Connect(const ScriptedServer& server) {
  auto client = Client::Connect({.servers = server.address(), .session_timeout_ms = 600'000});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

}  // namespace

TEST_CASE("the LockNode of an offer that is returned late does not release the next offer") {
  ScriptedServer server({});
  auto client = Connect(server);
  Collected<ElectionState> states;
  std::atomic<int> offers{0};
  // Deletes the first offer's znode, and waits until the next offer is elected, before it returns
  // the first LockNode.
  const auto start_late = [&](Client* with, internal::LockNode::Options options) {
    auto node = internal::LockNode::Start(with, std::move(options));
    if (offers.fetch_add(1) > 0) return node;
    REQUIRE(node->WaitForTurn(internal::DeadlineIn(kLongMs)).ok());
    REQUIRE(with->Delete(node->path()).ok());
    // START, OFFER, DETERMINE, ELECTED, and again from OFFER on.
    REQUIRE(states.WaitFor(7).size() >= 7);
    return node;
  };
  auto election = ElectionTestAccess::New(
      client.get(), "/election",
      {.id = "a", .listener = [&](const ElectionEvent& event) { states.Add(event.state); }},
      start_late);
  REQUIRE(election->Start().ok());
  CHECK(election->AwaitLeadership(kLongMs).ok());
  REQUIRE(client->Sync().ok());
  CHECK(client->List("/election")->children.size() == 1);
  CHECK(states.WaitFor(0).back() == ElectionState::kElected);
  REQUIRE(election->Stop(kLongMs).ok());
  CHECK(client->List("/election")->children.empty());
}

TEST_CASE("a candidate guards as soon as it is elected, also if its LockNode is returned later") {
  ScriptedServer server({});
  auto client = Connect(server);
  Collected<ElectionState> states;
  std::unique_ptr<Election> election;
  absl::Status guarded = absl::UnknownError("not called");
  const auto start_late = [&](Client* with, internal::LockNode::Options options) {
    auto node = internal::LockNode::Start(with, std::move(options));
    // START, OFFER, DETERMINE, ELECTED.
    REQUIRE(states.WaitFor(4).size() == 4);
    Transaction transaction;
    guarded = election->Guard(&transaction);
    return node;
  };
  election = ElectionTestAccess::New(
      client.get(), "/election",
      {.id = "a", .listener = [&](const ElectionEvent& event) { states.Add(event.state); }},
      start_late);
  REQUIRE(election->Start().ok());
  INFO(guarded.ToString());
  CHECK(guarded.ok());
  Transaction transaction;
  CHECK(election->Guard(&transaction).ok());
  REQUIRE(client->Sync().ok());
  CHECK(client->List("/election")->children.size() == 1);
  REQUIRE(election->Stop(kLongMs).ok());
  CHECK(client->List("/election")->children.empty());
}

}  // namespace quorate
