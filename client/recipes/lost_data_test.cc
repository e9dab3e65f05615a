// SPDX-License-Identifier: Apache-2.0

// Tests caches, kept znodes, queues, counters and barriers whose sessions are lost and replaced.

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/recipes/barrier.h"
#include "client/recipes/count_down_latch.h"
#include "client/recipes/counter.h"
#include "client/recipes/double_barrier.h"
#include "client/recipes/group_membership.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/queue.h"
#include "client/recipes/service_discovery.h"
#include "client/recipes/session_loss_test.h"
#include "client/recipes/tree_cache.h"
#include "client/recipes/two_phase_commit.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::Collected;
using testing::ConnectTo;
using testing::IsLost;
using testing::LoseSession;
using testing::Losses;
using testing::MayBeApplied;

constexpr int kLongMs = 20'000;

// Waits until the znode at `path` has `data` and belongs to the current session of `owner`.
bool WaitUntilKept(Client* observer, Client* owner, const std::string& path,
                   const std::string& data) {
  return internal::WaitUntil(observer, path, WatchScope::kNode, internal::WaitDeadline(kLongMs),
                             path,
                             [&]() -> absl::StatusOr<bool> {
                               const auto read = observer->Get(path);
                               return read.ok() && read->data == data &&
                                      read->stat.ephemeral_session == owner->session_id();
                             })
      .ok();
}

// Repeats `call` while it fails because of lost sessions.
absl::Status Repeat(const std::function<absl::Status()>& call) {
  for (;;) {
    const absl::Status status = call();
    if (!IsLost(status)) return status;
  }
}

}  // namespace

TEST_CASE("a persistent node comes back in each next session, with the data that was set last") {
  constexpr int kRounds = 60;
  auto client = ConnectTo("/lost-node"), observer = ConnectTo("/lost-node");
  std::mt19937 random(5);
  Collected<bool> reported;
  auto node = *PersistentNode::Start(client.get(), "/kept", "0",
                                     {.listener = [&](bool is_there) { reported.Add(is_there); }});
  REQUIRE(node->WaitUntilThere(kLongMs).ok());
  for (int round = 1; round <= kRounds; ++round) {
    CAPTURE(round);
    const std::string data = std::to_string(round);
    auto sets = Begin([&] { return node->SetData(data); });
    if (random() % 2 == 0) sets.wait();
    REQUIRE(LoseSession(client.get()) != 0);
    CHECK(sets.get().ok());
    REQUIRE(WaitUntilKept(observer.get(), client.get(), "/kept", data));
  }
  const std::vector<bool> all = reported.WaitFor(0);
  CHECK(all.size() >= static_cast<size_t>(kRounds));
  for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == (i % 2 == 0));
  CHECK(node->Close(kLongMs).ok());
  CHECK(!client->Exists("/kept")->has_value());
}

TEST_CASE("a tree cache follows the tree through the losses of its sessions") {
  constexpr int kRounds = 60;
  auto client = ConnectTo("/lost-cache"), writer = ConnectTo("/lost-cache");
  REQUIRE(writer->Create("/tree").ok());
  std::mt19937 random(6);
  // The copy that the listener's changes result in.
  std::mutex mutex;
  std::map<std::string, std::string> copy;
  std::atomic<int> ended{0};
  auto cache = *TreeCache::Start(client.get(), "/tree", [&](const TreeCache::Change& change) {
    using Type = TreeCache::Change::Type;
    std::lock_guard<std::mutex> lock(mutex);
    if (change.type == Type::kLost) ++ended;
    if (change.type == Type::kAdded || change.type == Type::kChanged) {
      copy[change.znode.path] = change.znode.data;
    }
    if (change.type == Type::kRemoved) copy.erase(change.znode.path);
  });
  std::map<std::string, std::string> expected{{"/tree", ""}};
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    auto loses = Begin([&] { return LoseSession(client.get()); });
    for (int i = 0; i < 20; ++i) {
      const std::string path = "/tree/" + std::to_string(random() % 10);
      const std::string data = std::to_string(round * 100 + i);
      if (random() % 3 == 0) {
        if (writer->Delete(path).ok()) expected.erase(path);
      } else if (writer->Create(path, data).ok() || writer->Set(path, data).ok()) {
        expected[path] = data;
      }
    }
    REQUIRE(loses.get() != 0);
    REQUIRE(Repeat([&] { return cache->WaitUntilCurrent(kLongMs); }).ok());
    // The answer may be of the session that was about to be lost: the cache may then be reading all.
    REQUIRE(Repeat([&] { return client->Sync(); }).ok());
    REQUIRE(Repeat([&] { return cache->WaitUntilCurrent(kLongMs); }).ok());
    std::map<std::string, std::string> seen;
    for (const TreeCache::Znode& znode : cache->All()) seen[znode.path] = znode.data;
    CHECK(seen == expected);
    std::lock_guard<std::mutex> lock(mutex);
    CHECK(copy == expected);
  }
  CHECK(cache->status().ok());
  CHECK(ended == 0);
}

TEST_CASE("group members and service instances come back, and are followed, in the next session") {
  constexpr int kRounds = 40;
  auto client = ConnectTo("/lost-group"), observer = ConnectTo("/lost-group");
  std::mt19937 random(8);
  auto group = *GroupMembership::Start(client.get(), "/group");
  auto others = *GroupMembership::Start(observer.get(), "/group");
  REQUIRE(group->Join("a", "data", kLongMs).ok());
  REQUIRE(others->Join("b", "data", kLongMs).ok());
  ServiceDiscovery services(client.get(), "/services"),
      others_services(observer.get(), "/services");
  auto own = *services.Register({.name = "web", .id = "a"});
  auto other = *others_services.Register({.name = "web", .id = "b"});
  REQUIRE(own->WaitUntilThere(kLongMs).ok());
  REQUIRE(other->WaitUntilThere(kLongMs).ok());
  auto provider = *services.Follow("web");
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    Client* const loser = random() % 2 == 0 ? client.get() : observer.get();
    const std::string id = loser == client.get() ? "a" : "b";
    Client* const watcher = loser == client.get() ? observer.get() : client.get();
    REQUIRE(LoseSession(loser) != 0);
    REQUIRE(WaitUntilKept(watcher, loser, "/group/" + id, "data"));
    REQUIRE(internal::WaitUntil(watcher, "/services/web/" + id, WatchScope::kNode,
                                internal::WaitDeadline(kLongMs), id,
                                [&]() -> absl::StatusOr<bool> {
                                  return watcher->Exists("/services/web/" + id)->has_value();
                                })
                .ok());
    for (GroupMembership* each : {group.get(), others.get()}) {
      std::map<std::string, std::string> members;
      REQUIRE(Repeat([&] {
                const auto current = each->CurrentMembers(kLongMs);
                if (current.ok()) members = *current;
                return current.status();
              }).ok());
      CHECK(members == std::map<std::string, std::string>{{"a", "data"}, {"b", "data"}});
    }
    REQUIRE(Repeat([&] { return provider->WaitUntilCurrent(kLongMs); }).ok());
    CHECK(provider->All().size() == 2);
    CHECK(provider->Next().ok());
  }
}

TEST_CASE("a queue returns each item once while sessions are lost") {
  auto producer = ConnectTo("/lost-queue"), consumer = ConnectTo("/lost-queue"),
       observer = ConnectTo("/lost-queue");
  std::mutex mutex;
  std::set<std::string> added, maybe_added;
  std::map<std::string, int> taken;
  std::atomic<int> maybe_taken{0}, wrong{0};
  const auto take = [&](Queue* queue, int deadline_ms) {
    const auto item = queue->Take(deadline_ms);
    if (item.ok()) {
      std::lock_guard<std::mutex> lock(mutex);
      ++taken[*item];
    } else if (MayBeApplied(item.status())) {
      ++maybe_taken;
    } else if (!IsLost(item.status()) && !absl::IsDeadlineExceeded(item.status())) {
      ++wrong;
    }
    return item.ok();
  };
  {
    Losses ended({producer.get(), consumer.get()}, 150, 11);
    std::vector<std::future<void>> workers;
    workers.push_back(Begin([&] {
      Queue queue(producer.get(), "/queue");
      for (int i = 0; !ended.is_over(); ++i) {
        const std::string item = std::to_string(i);
        const absl::Status status = queue.Offer(item);
        std::lock_guard<std::mutex> lock(mutex);
        if (status.ok()) added.insert(item);
        if (MayBeApplied(status)) maybe_added.insert(item);
        if (!status.ok() && !IsLost(status)) ++wrong;
      }
    }));
    for (int i = 0; i < 2; ++i) {
      workers.push_back(Begin([&] {
        Queue queue(consumer.get(), "/queue");
        while (!ended.is_over()) take(&queue, 200);
      }));
    }
    for (auto& each : workers) each.wait();
  }
  Queue rest(observer.get(), "/queue");
  for (auto item = rest.Poll(); item.ok() && item->has_value(); item = rest.Poll()) ++taken[**item];
  CHECK(wrong == 0);
  int missing = 0;
  for (const std::string& item : added) missing += taken.count(item) == 0 ? 1 : 0;
  CHECK(missing <= maybe_taken);
  for (const auto& [item, times] : taken) {
    CHECK(times == 1);
    CHECK((added.count(item) == 1 || maybe_added.count(item) == 1));
  }
  CHECK(added.size() > 20);
}

TEST_CASE("a counter counts each change once while sessions are lost") {
  auto client = ConnectTo("/lost-counter"), observer = ConnectTo("/lost-counter");
  int made = 0, unknown = 0, wrong = 0;
  {
    Losses ended({client.get()}, 100, 12);
    Counter counter(client.get(), "/counter");
    while (!ended.is_over()) {
      const absl::Status status = counter.Add(1).status();
      made += status.ok() ? 1 : 0;
      unknown += MayBeApplied(status) ? 1 : 0;
      wrong += status.ok() || IsLost(status) ? 0 : 1;
    }
  }
  const auto sum = Counter(observer.get(), "/counter").Get();
  REQUIRE(sum.ok());
  CHECK(wrong == 0);
  CHECK(*sum >= made);
  CHECK(*sum <= made + unknown);
}

TEST_CASE("a wait returns the loss of its session, and can begin again") {
  constexpr int kRounds = 20;
  auto client = ConnectTo("/lost-waits"), other = ConnectTo("/lost-waits");
  Barrier barrier(client.get(), "/barrier"), opener(other.get(), "/barrier");
  CountDownLatch latch(client.get(), "/latch"), counter(other.get(), "/latch");
  REQUIRE(opener.Close().ok());
  REQUIRE(*counter.Create(1));
  auto coordinator = TwoPhaseCoordinator::Begin(other.get(), "/two-phase", {"a", "b"}, "work");
  REQUIRE(coordinator.ok());
  TwoPhaseParticipant participant(client.get(), "/two-phase", "a");
  REQUIRE(*participant.Vote(true));
  Queue queue(client.get(), "/queue");
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    std::vector<std::future<absl::Status>> waits;
    waits.push_back(Begin([&] { return barrier.Wait(kLongMs); }));
    waits.push_back(Begin([&] { return latch.Wait(kLongMs); }));
    waits.push_back(Begin([&] { return participant.WaitForDecision(kLongMs).status(); }));
    waits.push_back(Begin([&] { return queue.Take(kLongMs).status(); }));
    REQUIRE(testing::WaitForChildren(other.get(), "/queue-line", 1));
    REQUIRE(client->Sync().ok());
    REQUIRE(LoseSession(client.get()) != 0);
    for (auto& each : waits) {
      const absl::Status status = each.get();
      INFO(status.ToString());
      CHECK(IsLost(status));
    }
  }
  auto waits = Begin([&] { return barrier.Wait(kLongMs); });
  auto latched = Begin([&] { return latch.Wait(kLongMs); });
  auto decided = Begin([&] { return participant.WaitForDecision(kLongMs); });
  CHECK(opener.Open().ok());
  CHECK(*counter.CountDown() == 0);
  CHECK(*TwoPhaseParticipant(other.get(), "/two-phase", "b").Vote(true));
  CHECK(waits.get().ok());
  CHECK(latched.get().ok());
  CHECK(*decided.get() == Decision::kCommit);
}

TEST_CASE("members of a double barrier that lose their sessions are outside, and enter again") {
  constexpr int kRounds = 40;
  std::mt19937 random(13);
  auto first = ConnectTo("/lost-barrier"), second = ConnectTo("/lost-barrier"),
       observer = ConnectTo("/lost-barrier");
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    DoubleBarrier one(first.get(), "/barrier", 2), two(second.get(), "/barrier", 2);
    std::atomic<int> lost{0};
    const auto enter = [&](DoubleBarrier* barrier) {
      return Repeat([&, barrier] {
        const absl::Status status = barrier->Enter(kLongMs);
        lost += IsLost(status) ? 1 : 0;
        return status;
      });
    };
    auto enters = Begin([&] { return enter(&one); });
    if (round % 2 == 0) {
      // The other member enters only after the loss, so that this one is waiting for it.
      REQUIRE(testing::WaitForChildren(observer.get(), "/barrier", 1));
      REQUIRE(LoseSession(first.get()) != 0);
      REQUIRE(testing::WaitForChildren(observer.get(), "/barrier", 1));
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      LoseSession(first.get());
    }
    REQUIRE(enter(&two).ok());
    REQUIRE(enters.get().ok());
    if (round % 2 == 0) CHECK(lost >= 1);
    auto leaves = Begin([&] { return Repeat([&] { return one.Leave(kLongMs); }); });
    if (random() % 2 == 0) LoseSession(second.get());
    CHECK(Repeat([&] { return two.Leave(kLongMs); }).ok());
    CHECK(leaves.get().ok());
  }
}

}  // namespace quorate
