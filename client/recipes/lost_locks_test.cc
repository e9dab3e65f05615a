// SPDX-License-Identifier: Apache-2.0

// Tests locks, semaphores and elections whose sessions are lost and replaced.

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/recipes/election.h"
#include "client/recipes/leader_latch.h"
#include "client/recipes/multi_lock.h"
#include "client/recipes/mutex.h"
#include "client/recipes/read_write_lock.h"
#include "client/recipes/semaphore.h"
#include "client/recipes/semaphore_mutex.h"
#include "client/recipes/session_loss_test.h"
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
using testing::WaitForChildren;
using testing::WaitForSession;

constexpr int kLongMs = 20'000;

// What holders of a lock write, and what became of it.
struct Written {
  std::atomic<int> made{0};
  std::atomic<int> unknown{0};
  std::atomic<int> lost{0};
  std::atomic<int> wrong{0};
};

// Adds one to the number in /sum, on condition that `holder` still exists. The sum is read before, so
// another holder at the same time would make the version, and so the sum, wrong.
void AddWhileHeld(Client* client, const std::string& holder, Written* written) {
  const auto read = client->Get("/sum");
  if (!read.ok()) return;
  const int next = std::stoi(read->data) + 1;
  const absl::Status status =
      client->Commit(Transaction().CheckExists(holder).Set("/sum", std::to_string(next))).status();
  if (status.ok()) {
    ++written->made;
  } else if (MayBeApplied(status)) {
    ++written->unknown;
  } else if (IsLost(status) || ErrorOf(status) == ErrorCode::kNoNode) {
    ++written->lost;
  } else {
    ++written->wrong;
  }
}

// Runs `hold` in a loop for each of two clients whose sessions are lost `losses` times, and checks
// that no write of a holder was overwritten by that of another one.
void CheckExclusion(const std::string& chroot, int losses,
                    const std::function<void(Client* client, Written* written)>& hold) {
  auto first = ConnectTo(chroot), second = ConnectTo(chroot), observer = ConnectTo(chroot);
  REQUIRE(observer->Create("/sum", "0").ok());
  Written written;
  std::vector<std::future<void>> workers;
  {
    Losses ended({first.get(), second.get()}, losses, 20261127);
    for (Client* client : {first.get(), second.get(), first.get()}) {
      workers.push_back(Begin([&, client] {
        while (!ended.is_over()) hold(client, &written);
      }));
    }
    for (auto& each : workers) each.wait();
  }
  const int sum = std::stoi(observer->Get("/sum", {.linearizable = true})->data);
  INFO(written.made << " made, " << written.unknown << " unknown, " << written.lost << " lost");
  CHECK(written.wrong == 0);
  CHECK(sum >= written.made);
  CHECK(sum <= written.made + written.unknown);
  CHECK(written.made > losses / 4);
}

}  // namespace

TEST_CASE("a mutex that is lost with its session is reported, and can be acquired again") {
  constexpr int kRounds = 60;
  auto client = ConnectTo("/lost-mutex");
  Collected<LockEvent::Type> reported;
  InterProcessMutex mutex(client.get(), "/mutex", {.listener = [&](const LockEvent& event) {
                            if (event.type == LockEvent::Type::kLost) reported.Add(event.type);
                          }});
  int64_t token = 0;
  for (size_t round = 1; round <= kRounds; ++round) {
    CAPTURE(round);
    const absl::Status acquired = mutex.Acquire(kLongMs);
    INFO(acquired.ToString());
    REQUIRE(acquired.ok());
    const absl::StatusOr<int64_t> next = mutex.FencingToken();
    REQUIRE(next.ok());
    CHECK(*next > token);
    token = *next;
    REQUIRE(LoseSession(client.get()) != 0);
    REQUIRE(reported.WaitFor(round).size() == round);
    CHECK(!mutex.IsOwnedByThisThread());
    CHECK(absl::IsAborted(mutex.FencingToken().status()));
    CHECK(absl::IsAborted(mutex.Release()));
  }
  CHECK(WaitForChildren(client.get(), "/mutex", 0));
}

TEST_CASE("a waiter whose session is lost returns that, leaves the line, and can wait again") {
  constexpr int kRounds = 40;
  auto holder = ConnectTo("/lost-waiter"), client = ConnectTo("/lost-waiter");
  InterProcessMutex held(holder.get(), "/mutex"), mutex(client.get(), "/mutex");
  REQUIRE(held.Acquire().ok());
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    auto waits = Begin([&] { return mutex.Acquire(kLongMs); });
    REQUIRE(WaitForChildren(holder.get(), "/mutex", 2));
    REQUIRE(LoseSession(client.get()) != 0);
    CHECK(IsLost(waits.get()));
    REQUIRE(WaitForChildren(holder.get(), "/mutex", 1));
  }
  auto waits = Begin([&] { return mutex.Acquire(kLongMs); });
  REQUIRE(held.Release().ok());
  CHECK(waits.get().ok());
}

TEST_CASE("holders of a mutex exclude each other while sessions are lost") {
  CheckExclusion("/lost-mutexes", 150, [](Client* client, Written* written) {
    InterProcessMutex mutex(client, "/lock");
    if (!mutex.Acquire(kLongMs).ok()) return;
    const auto nodes = mutex.ParticipantNodes();
    if (nodes.ok() && !nodes->empty()) AddWhileHeld(client, nodes->front(), written);
    mutex.Release().IgnoreError();
  });
}

TEST_CASE("holders of a semaphore's only lease exclude each other while sessions are lost") {
  CheckExclusion("/lost-leases", 100, [](Client* client, Written* written) {
    Semaphore semaphore(client, "/lock", 1);
    auto lease = semaphore.Acquire(kLongMs);
    if (!lease.ok()) return;
    AddWhileHeld(client, lease->node(), written);
    lease->Return().IgnoreError();
  });
}

TEST_CASE("holders of a semaphore mutex exclude each other while sessions are lost") {
  CheckExclusion("/excludes-semaphore-mutex", 60, [](Client* client, Written* written) {
    std::string node;
    SemaphoreMutex mutex(client, "/mutex", {.listener = [&](const LockEvent& event) {
                           if (event.type == LockEvent::Type::kAcquired) node = event.node;
                         }});
    if (!mutex.Acquire(kLongMs).ok()) return;
    client->Sync().IgnoreError();  // returns after the listener was called
    if (!node.empty()) AddWhileHeld(client, node, written);
    mutex.Release().IgnoreError();
  });
}

TEST_CASE("writers of a read-write lock exclude each other while sessions are lost") {
  CheckExclusion("/lost-writers", 100, [](Client* client, Written* written) {
    std::string node;
    ReadWriteLock lock(client, "/lock", {}, {.listener = [&](const LockEvent& event) {
                         if (event.type == LockEvent::Type::kAcquired) node = event.node;
                       }});
    if (!lock.write_lock().Acquire(kLongMs).ok()) return;
    client->Sync().IgnoreError();  // returns after the listener was called
    if (!node.empty()) AddWhileHeld(client, node, written);
    lock.write_lock().Release().IgnoreError();
  });
}

TEST_CASE("several leases, and several locks, are acquired together or not at all") {
  auto client = ConnectTo("/lost-many"), observer = ConnectTo("/lost-many");
  Semaphore semaphore(client.get(), "/semaphore", 2);
  InterProcessMutex first(client.get(), "/first"), second(client.get(), "/second");
  MultiLock both({&first, &second});
  {
    Losses ended({client.get()}, 60, 7);
    while (!ended.is_over()) {
      auto leases = semaphore.AcquireMany(2, kLongMs);
      if (leases.ok()) {
        for (Lease& lease : *leases) lease.Return().IgnoreError();
      }
      if (both.Acquire(kLongMs).ok()) {
        both.Release().IgnoreError();
      } else {
        CHECK(!first.IsOwnedByThisThread());
        CHECK(!second.IsOwnedByThisThread());
      }
    }
  }
  WaitForSession(client.get());
  auto leases = semaphore.AcquireMany(2, kLongMs);
  REQUIRE(leases.ok());
  CHECK(observer->List("/semaphore/leases")->children.size() == 2);
  CHECK(both.Acquire(kLongMs).ok());
}

TEST_CASE("an election starts over with each new session, and always has one leader in the end") {
  constexpr int kCandidates = 3, kRounds = 60;
  std::mt19937 random(99);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<Election>> elections;
  std::atomic<int> offers_after_loss{0};
  auto observer = ConnectTo("/lost-election");
  for (int i = 0; i < kCandidates; ++i) {
    clients.push_back(ConnectTo("/lost-election"));
    elections.push_back(std::make_unique<Election>(
        clients.back().get(), "/election",
        ElectionOptions{.id = std::to_string(i), .listener = [&](const ElectionEvent& event) {
                          if (event.state == ElectionState::kOffer && IsLost(event.reason)) {
                            ++offers_after_loss;
                          }
                        }}));
    REQUIRE(elections.back()->Start().ok());
  }
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const size_t who = random() % kCandidates;
    if (LoseSession(clients[who].get()) != 0) ++lost;
    if (random() % 2 == 0 && LoseSession(clients[(who + 1) % kCandidates].get()) != 0) ++lost;
    // The znode of the lost session is deleted before LoseSession returns: the count is 3 again when
    // the candidate has made another offer.
    REQUIRE(WaitForChildren(observer.get(), "/election", kCandidates));
    const auto leader = elections[0]->Leader();
    REQUIRE(leader.ok());
    CHECK(elections[static_cast<size_t>(std::stoi(leader->id))]->AwaitLeadership(kLongMs).ok());
    CHECK(std::count_if(elections.begin(), elections.end(),
                        [](const auto& each) { return each->is_leader(); }) == 1);
  }
  CHECK(offers_after_loss == lost);
}

TEST_CASE("a leader latch gets its leadership again in the next session") {
  auto client = ConnectTo("/lost-latch");
  Collected<bool> reported;
  LeaderLatch latch(client.get(), "/latch",
                    {.id = "a", .listener = [&](bool leads) { reported.Add(leads); }});
  REQUIRE(latch.Start().ok());
  constexpr size_t kRounds = 40;
  for (size_t round = 0; round < kRounds; ++round) {
    REQUIRE(reported.WaitFor(2 * round + 1).size() == 2 * round + 1);
    CHECK(reported.WaitFor(0).back());
    REQUIRE(LoseSession(client.get()) != 0);
    REQUIRE(reported.WaitFor(2 * round + 2).size() >= 2 * round + 2);
    CHECK(!reported.WaitFor(0)[2 * round + 1]);
  }
  CHECK(latch.Close(kLongMs).ok());
}

TEST_CASE("an election ends for good with the client's last session") {
  auto client = ConnectTo("/last-election", {.on_session_loss = SessionLoss::kStop});
  Collected<ElectionState> reported;
  Election election(client.get(), "/election", {.id = "a", .listener = [&](const ElectionEvent& e) {
                                                  reported.Add(e.state);
                                                }});
  REQUIRE(election.Start().ok());
  REQUIRE(election.AwaitLeadership(kLongMs).ok());
  REQUIRE(LoseSession(client.get()) != 0);
  // The election learns of the loss by a callback, and counts as the leader until then.
  absl::Status status;
  while (status.ok()) status = election.AwaitLeadership(kLongMs).status();
  CHECK(IsLost(status));
}

}  // namespace quorate
