// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/persistent_ttl_node.h"

#include <memory>
#include <string>
#include <vector>

#include "client/recipes/session_loss_test.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::Collected;
using testing::ConnectTo;
using testing::LoseSession;
using testing::ServerFixture;

constexpr int kLongMs = 20'000;
constexpr int64_t kHourMs = 3'600'000;

// Waits until `is_true` returns true for the znode at `path`; nullopt stands for no znode.
template <class Question>
bool WaitFor(Client* client, const std::string& path, Question is_true) {
  return internal::WaitUntil(client, path, WatchScope::kNode, internal::WaitDeadline(kLongMs), path,
                             [&]() -> absl::StatusOr<bool> {
                               const auto stat = client->Exists(path);
                               if (!stat.ok()) return stat.status();
                               return is_true(*stat);
                             })
      .ok();
}
bool WaitUntilThere(Client* client, const std::string& path) {
  return WaitFor(client, path, [](const std::optional<Stat>& stat) { return stat.has_value(); });
}
bool WaitUntilGone(Client* client, const std::string& path) {
  return WaitFor(client, path, [](const std::optional<Stat>& stat) { return !stat.has_value(); });
}
// Waits until the touch znode was touched for more than `ttl_ms` after its creation.
bool WaitUntilOlderThan(Client* client, const std::string& path, int64_t ttl_ms) {
  return WaitFor(client, path, [&](const std::optional<Stat>& stat) {
    return stat.has_value() && stat->modified_ms - stat->created_ms > ttl_ms;
  });
}

// A server that looks for expired znodes often.
ServerFixture& QuickServer() {
  static const auto servers =
      ServerFixture::Start({.settings = {"znode.container.checkIntervalMs=50"}});
  INFO(servers.status().ToString());
  REQUIRE(servers.ok());
  return **servers;
}
std::unique_ptr<Client> ConnectQuick() {
  auto client = Client::Connect({.servers = QuickServer().servers()});
  REQUIRE(client.ok());
  return *std::move(client);
}

}  // namespace

TEST_CASE(
    "a znode with a TTL exists while one of its holders touches it, and goes after the last") {
  constexpr int64_t kTtlMs = 1000;
  auto client = ConnectQuick(), other = ConnectQuick(), observer = ConnectQuick();
  auto first = PersistentTtlNode::Start(client.get(), "/a/node", "1", {.ttl_ms = kTtlMs});
  REQUIRE(first.ok());
  REQUIRE((*first)->WaitUntilThere(kLongMs).ok());
  CHECK((*first)->is_there());
  CHECK(observer->Get("/a/node")->data == "1");
  CHECK(WaitUntilOlderThan(observer.get(), "/a/node/touch", kTtlMs));
  auto second = PersistentTtlNode::Start(other.get(), "/a/node", "2",
                                         {.ttl_ms = kTtlMs, .touches_per_ttl = 4});
  REQUIRE(second.ok());
  REQUIRE((*second)->WaitUntilThere(kLongMs).ok());
  CHECK(observer->Get("/a/node")->data == "2");
  CHECK((*first)->Close(kLongMs).ok());
  const auto stat = observer->Exists("/a/node/touch", {.linearizable = true});
  REQUIRE((stat.ok() && stat->has_value()));
  CHECK(WaitUntilOlderThan(observer.get(), "/a/node/touch",
                           (*stat)->modified_ms - (*stat)->created_ms + kTtlMs));
  // The client dies with its holder.
  second->reset();
  other.reset();
  CHECK(WaitUntilGone(observer.get(), "/a/node/touch"));
  CHECK(WaitUntilGone(observer.get(), "/a/node"));
  CHECK(observer->Exists("/a")->has_value());
}

TEST_CASE("a znode with a TTL survives the loss of the session, and is touched in the next one") {
  constexpr int kRounds = 10;
  auto client = ConnectTo("/ttl-lost"), observer = ConnectTo("/ttl-lost");
  Collected<bool> reported;
  auto node = PersistentTtlNode::Start(
      client.get(), "/node", "0",
      {.ttl_ms = kHourMs, .touches_per_ttl = kHourMs / 20, .listener = [&](bool is_there) {
         reported.Add(is_there);
       }});
  REQUIRE(node.ok());
  REQUIRE((*node)->WaitUntilThere(kLongMs).ok());
  const Stat before = **observer->Exists("/node");
  for (int round = 1; round <= kRounds; ++round) {
    CAPTURE(round);
    REQUIRE(LoseSession(client.get()) != 0);
    const Stat touched = **observer->Exists("/node/touch", {.linearizable = true});
    // Two more, because the first one may have been made in the lost session.
    CHECK(WaitFor(observer.get(), "/node/touch", [&](const std::optional<Stat>& stat) {
      return stat.has_value() && stat->created_zxid == touched.created_zxid &&
             stat->version >= touched.version + 2;
    }));
    CHECK((*node)->WaitUntilThere(kLongMs).ok());
    CHECK((*node)->SetData(std::to_string(round)).ok());
  }
  const Stat after = **observer->Exists("/node");
  CHECK(after.created_zxid == before.created_zxid);
  CHECK(after.ephemeral_session == 0);
  const std::vector<bool> all = reported.WaitFor(1);
  for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == (i % 2 == 0));
}

TEST_CASE("a znode with a TTL is created again when another client deletes it") {
  auto client = ConnectTo("/ttl-deleted"), other = ConnectTo("/ttl-deleted");
  Collected<bool> reported;
  // Too seldom for a touch to create the znode.
  auto node = PersistentTtlNode::Start(
      client.get(), "/node", "data",
      {.ttl_ms = kHourMs, .listener = [&](bool is_there) { reported.Add(is_there); }});
  REQUIRE(node.ok());
  REQUIRE((*node)->WaitUntilThere(kLongMs).ok());
  for (size_t round = 1; round <= 10; ++round) {
    CAPTURE(round);
    const int64_t created = (**other->Exists("/node/touch")).created_zxid;
    REQUIRE(other->Delete("/node", {.recursive = true}).ok());
    CHECK(WaitFor(other.get(), "/node/touch", [&](const std::optional<Stat>& stat) {
      return stat.has_value() && stat->created_zxid != created;
    }));
    CHECK(other->Get("/node")->data == "data");
    REQUIRE(reported.WaitFor(2 * round + 1).size() == 2 * round + 1);
    CHECK((*node)->WaitUntilThere(kLongMs).ok());
  }
  // A touch finds that only the other znode was deleted.
  auto frequent = PersistentTtlNode::Start(client.get(), "/frequent", "",
                                           {.ttl_ms = kHourMs, .touches_per_ttl = kHourMs / 20});
  REQUIRE(frequent.ok());
  REQUIRE((*frequent)->WaitUntilThere(kLongMs).ok());
  REQUIRE(other->Delete("/frequent/touch").ok());
  CHECK(WaitUntilThere(other.get(), "/frequent/touch"));
  CHECK((*node)->Close(kLongMs).ok());
  CHECK(other->Delete("/node", {.recursive = true}).ok());
  CHECK(client->Sync().ok());
  CHECK(!other->Exists("/node", {.linearizable = true})->has_value());
}

TEST_CASE("a znode with a TTL reports why it cannot exist, and exists once it can") {
  auto client = ConnectTo("/ttl-refused"), other = ConnectTo("/ttl-refused");
  for (const int64_t ttl_ms : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    const auto node = PersistentTtlNode::Start(client.get(), "/node", "", {.ttl_ms = ttl_ms});
    CHECK(absl::IsInvalidArgument(node.status()));
  }
  CHECK(absl::IsInvalidArgument(
      PersistentTtlNode::Start(client.get(), "/node", "", {.ttl_ms = 1, .touches_per_ttl = 1})
          .status()));
  // The longest TTL that the servers permit.
  auto longest =
      PersistentTtlNode::Start(client.get(), "/long", "", {.ttl_ms = (int64_t{1} << 40) - 1});
  REQUIRE(longest.ok());
  CHECK((*longest)->WaitUntilThere(kLongMs).ok());
  REQUIRE(other->Create("/node", "", {.mode = CreateMode::kEphemeral}).ok());
  auto node = PersistentTtlNode::Start(client.get(), "/node", "", {.ttl_ms = kHourMs});
  REQUIRE(node.ok());
  const absl::Status status = (*node)->WaitUntilThere(kLongMs);
  INFO(status.ToString());
  CHECK(ErrorOf(status) == ErrorCode::kNoChildrenForEphemerals);
  CHECK(!(*node)->is_there());
  REQUIRE(other->Delete("/node").ok());
  CHECK(WaitUntilThere(other.get(), "/node/touch"));
}

TEST_CASE("Close ends a wait for a znode with a TTL, and leaves what exists") {
  auto client = ConnectQuick();
  Collected<bool> reported;
  // When the znode is deleted, the server is paused before it is created again.
  auto node = PersistentTtlNode::Start(client.get(), "/closed", "",
                                       {.ttl_ms = kHourMs, .listener = [&](bool is_there) {
                                          if (!is_there) QuickServer().Pause(1);
                                          reported.Add(is_there);
                                        }});
  REQUIRE(node.ok());
  REQUIRE((*node)->WaitUntilThere(kLongMs).ok());
  {
    auto other = ConnectQuick();
    other->AsyncDelete("/closed", {.recursive = true}).Then([](const auto&) {});
    REQUIRE(reported.WaitFor(2) == std::vector<bool>{true, false});
    CHECK(!(*node)->is_there());
    CHECK(absl::IsDeadlineExceeded((*node)->WaitUntilThere(50)));
    auto waits = Begin([&] { return (*node)->WaitUntilThere(); });
    CHECK(absl::IsDeadlineExceeded((*node)->Close(50)));
    CHECK(absl::IsCancelled(waits.get()));
    QuickServer().Resume(1);
  }
  CHECK((*node)->Close(kLongMs).ok());
  CHECK(absl::IsCancelled((*node)->WaitUntilThere()));
  CHECK(reported.WaitFor(0).size() == 2);
}

}  // namespace quorate
