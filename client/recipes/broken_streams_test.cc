// SPDX-License-Identifier: Apache-2.0

// Tests recipes whose streams break at any moment, and whose events get lost meanwhile.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/recipes/group_membership.h"
#include "client/recipes/mutex.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/tree_cache.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Collected;
using Moment = ScriptedServer::Moment;
using Strings = std::vector<std::string>;

constexpr int kLongMs = 20'000;
const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken by the script");

// Returns a client with such a long session timeout that it sends no keep-alive, with whose answer
// it would receive events.
std::unique_ptr<Client> Connect(const ScriptedServer& server) {
  auto client = Client::Connect({.servers = server.address(), .session_timeout_ms = 600'000});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// A server that can make a client miss events.
class LossyServer {
 public:
  // Drops all events that were not sent yet, and breaks the client's stream. When Lose returns, the
  // client has a new stream, and its watches got their resets.
  void Lose(Client* client) {
    server.ForgetEvents();
    breaks_ = true;
    REQUIRE(client->Sync().ok());
    REQUIRE(losses_.exchange(0) > 0);
  }

  // The paths of all watches that clients have set, in order.
  Collected<std::string> watched;

 private:
  std::atomic<bool> breaks_{false};
  std::atomic<int> losses_{0};

 public:
  ScriptedServer server{{.at_moment =
                             [this](int, Moment moment) {
                               return moment == Moment::kDone && breaks_.exchange(false)
                                          ? kBroken
                                          : grpc::Status::OK;
                             },
                         .at_answer =
                             [this](const v1::Request& request, v1::Response* response) {
                               if (!request.has_watch()) return;
                               if (response->error() == v1::ERROR_CODE_EVENTS_LOST) ++losses_;
                               if (response->error() == v1::ERROR_CODE_UNSPECIFIED)
                                 watched.Add(request.watch().path());
                             }}};
};

// Returns the path of the znode at `place` in the line of the lock.
std::string NodeOf(InterProcessMutex* mutex, size_t place = 0) {
  const auto nodes = mutex->ParticipantNodes();
  REQUIRE(nodes.ok());
  REQUIRE(nodes->size() > place);
  return (*nodes)[place];
}

}  // namespace

TEST_CASE("a mutex creates one znode wherever the stream breaks, and leaves none behind") {
  bool is_beyond_the_end = false;
  for (int broken = 1; !is_beyond_the_end; ++broken) {
    CAPTURE(broken);
    std::atomic<int> moments{0};
    ScriptedServer server({.at_moment =
                               [&](int number, Moment) {
                                 moments = number;
                                 return number == broken ? kBroken : grpc::Status::OK;
                               },
                           .sends_single_items = true});
    auto client = Connect(server);
    InterProcessMutex mutex(client.get(), "/locks/a");
    REQUIRE(mutex.Acquire(kLongMs).ok());
    CHECK(NodeOf(&mutex).starts_with("/locks/a/_c_"));
    CHECK(client->List("/locks/a")->children.size() == 1);
    REQUIRE(mutex.Release(kLongMs).ok());
    CHECK(client->List("/locks/a")->children.empty());
    const Strings changes = server.changes();
    CHECK(std::count_if(changes.begin(), changes.end(), [](const std::string& change) {
            return change.starts_with("create /locks/a/");
          }) == 1);
    is_beyond_the_end = moments < broken;
  }
}

TEST_CASE("a waiter gets the mutex although the event of the holder's release was lost") {
  LossyServer lossy;
  auto first_client = Connect(lossy.server), second_client = Connect(lossy.server);
  InterProcessMutex first(first_client.get(), "/lock"), second(second_client.get(), "/lock");
  REQUIRE(first.Acquire(kLongMs).ok());
  const std::string before = NodeOf(&first);
  auto acquired = std::async(std::launch::async, [&] { return second.Acquire(kLongMs); });
  // Each node watches its own znode, and the second one also that of the first.
  const Strings watched = lossy.watched.WaitFor(3);
  REQUIRE(std::count(watched.begin(), watched.end(), before) == 2);
  REQUIRE(first.Release(kLongMs).ok());
  CHECK(acquired.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  lossy.Lose(second_client.get());
  CHECK(acquired.get().ok());
  CHECK(NodeOf(&second) != before);
}

TEST_CASE("the holder of a mutex notices that its znode is gone although the event was lost") {
  LossyServer lossy;
  auto client = Connect(lossy.server), other = Connect(lossy.server);
  Collected<LockEvent::Type> events;
  InterProcessMutex mutex(client.get(), "/lock",
                          {.listener = [&](const LockEvent& event) { events.Add(event.type); }});
  REQUIRE(mutex.Acquire(kLongMs).ok());
  lossy.watched.WaitFor(1);

  // While the znode exists, a loss of events does no harm.
  REQUIRE(other->Create("/unseen").ok());
  lossy.Lose(client.get());
  REQUIRE(client->Sync().ok());
  CHECK(mutex.FencingToken().ok());

  const size_t told = events.WaitFor(0).size();
  REQUIRE(other->Delete(NodeOf(&mutex)).ok());
  lossy.Lose(client.get());
  // kSuspended, kResumed, and then kLost.
  CHECK(events.WaitFor(told + 3).back() == LockEvent::Type::kLost);
  CHECK(mutex.FencingToken().status().code() == absl::StatusCode::kAborted);
  CHECK(mutex.Release(kLongMs).code() == absl::StatusCode::kAborted);
}

TEST_CASE("a cache equals the tree again after events were lost") {
  LossyServer lossy;
  auto client = Connect(lossy.server), other = Connect(lossy.server);
  for (const char* path : {"/t", "/t/gone", "/t/gone/too", "/t/changed", "/t/same"}) {
    REQUIRE(other->Create(path, "old").ok());
  }
  Collected<std::string> told;
  auto cache = *TreeCache::Start(client.get(), "/t", [&](const TreeCache::Change& change) {
    static constexpr const char* kNames[] = {"+", "=", "-", "loaded", "lost"};
    told.Add(kNames[static_cast<int>(change.type)] + change.znode.path);
  });
  REQUIRE(cache->WaitUntilCurrent(kLongMs).ok());
  const size_t before = told.WaitFor(6).size();  // kAdded for each znode, and kLoaded
  REQUIRE(other->Delete("/t/gone/too").ok());
  REQUIRE(other->Delete("/t/gone").ok());
  REQUIRE(other->Set("/t/changed", "new").ok());
  REQUIRE(other->Create("/t/new", "new").ok());
  lossy.Lose(client.get());
  REQUIRE(cache->WaitUntilCurrent(kLongMs).ok());
  Strings all;
  for (const TreeCache::Znode& znode : cache->All()) all.push_back(znode.path + "=" + znode.data);
  CHECK(all == Strings{"/t=old", "/t/changed=new", "/t/new=new", "/t/same=old"});
  Strings changes = told.WaitFor(0);
  changes.erase(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(before));
  std::sort(changes.begin(), changes.end());
  CHECK(changes == Strings{"+/t/new", "-/t/gone", "-/t/gone/too", "=/t/changed"});
}

TEST_CASE("a cache that has stopped following changes reports nothing more") {
  std::atomic<bool> fails{false};
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response* response) {
    if (!fails || !request.has_get()) return;
    response->Clear();
    response->set_error(v1::ERROR_CODE_SYSTEM_ERROR);
  }});
  auto client = Connect(server);
  REQUIRE(client->Create("/t").ok());
  Collected<TreeCache::Change::Type> told;
  auto cache = *TreeCache::Start(client.get(), "/t",
                                 [&](const TreeCache::Change& change) { told.Add(change.type); });
  REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  fails = true;
  REQUIRE(client->Create("/t/a").ok());
  CHECK(told.WaitFor(3).back() == TreeCache::Change::Type::kLost);
  CHECK(!cache->status().ok());
  fails = false;
  REQUIRE(client->Delete("/t/a").ok());
  REQUIRE(client->Create("/t/b").ok());
  REQUIRE(client->Sync().ok());
  CHECK(told.WaitFor(3).size() == 3);
}

TEST_CASE("a Join that waits for its znode can be ended by Leave") {
  Collected<std::string> writes;
  std::promise<void> joined;
  std::shared_future<void> join_is_over = joined.get_future().share();
  std::atomic<bool> holds = false;
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response*) {
    if (!request.has_write() || !holds) return;
    writes.Add("");
    join_is_over.wait();
  }});
  auto client = Connect(server), other = Connect(server);
  REQUIRE(other->Create("/g").ok());
  REQUIRE(other->Create("/g/a").ok());
  auto group = *GroupMembership::Start(client.get(), "/g");
  holds = true;
  auto joins = std::async(std::launch::async, [&] { return group->Join("a"); });
  writes.WaitFor(1);
  auto leaves = std::async(std::launch::async, [&] { return group->Leave(); });
  const bool is_over =
      joins.wait_for(std::chrono::milliseconds(kLongMs)) == std::future_status::ready;
  CHECK(is_over);
  holds = false;
  joined.set_value();
  CHECK(joins.get().code() == absl::StatusCode::kCancelled);
  CHECK(leaves.get().ok());
  // The znode of the other client was not deleted.
  REQUIRE(other->Delete("/g/a").ok());
  CHECK(group->Join("a", "", kLongMs).ok());
}

TEST_CASE("a persistent node is created again although the event of its deletion was lost") {
  LossyServer lossy;
  auto client = Connect(lossy.server), other = Connect(lossy.server);
  Collected<bool> is_there;
  auto node = *PersistentNode::Start(client.get(), "/n", "data",
                                     {.listener = [&](bool there) { is_there.Add(there); }});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  REQUIRE(other->Delete("/n").ok());
  lossy.Lose(client.get());
  CHECK(is_there.WaitFor(3) == std::vector<bool>{true, false, true});
  CHECK(other->Get("/n")->data == "data");
  CHECK(lossy.server.changes() == Strings{"create /n", "delete /n", "create /n"});
  CHECK(node->Close(kLongMs).ok());
}

}  // namespace quorate
