// SPDX-License-Identifier: Apache-2.0

// Tests ReadWriteLock, Semaphore and MultiLock.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/recipes/multi_lock.h"
#include "client/recipes/mutex.h"
#include "client/recipes/read_write_lock.h"
#include "client/recipes/semaphore.h"
#include "client/recipes/semaphore_mutex.h"
#include "client/recipes/testing/lock_testing.h"

namespace quorate {
namespace {

// Runs `function` on a separate thread, and returns a future.
template <class Function>
auto Elsewhere(Function function) {
  return std::async(std::launch::async, std::move(function));
}

// Waits until the client has received the event of a znode's deletion, and until the LockNode has
// handled it, which takes another call.
void WaitForDeletion(Client* client) {
  REQUIRE(client->Sync().ok());
  REQUIRE(client->Sync().ok());
}

}  // namespace

TEST_CASE("readers share the lock, writers do not, and nobody passes a waiting writer") {
  const std::string path = "/read-write/order";
  auto client = Connect();
  auto other = Connect();
  ReadWriteLock first(client.get(), path), second(other.get(), path);
  REQUIRE(first.read_lock().Acquire().ok());
  REQUIRE(*second.read_lock().TryAcquire());
  std::promise<void> may_release;
  auto writes = Elsewhere([&] {
    const absl::Status acquired = first.write_lock().Acquire();
    may_release.get_future().wait();
    return acquired.ok() ? first.write_lock().Release() : acquired;
  });
  REQUIRE(WaitForChildren(client.get(), path, 3));
  auto reads = Elsewhere([&] { return second.read_lock().Acquire(); });
  REQUIRE(WaitForChildren(client.get(), path, 4));
  CHECK(!*Elsewhere([&] { return first.read_lock().TryAcquire(); }).get());
  CHECK(!*Elsewhere([&] { return first.write_lock().TryAcquire(); }).get());
  CHECK(first.write_lock().ParticipantNodes()->size() == 4);

  REQUIRE(first.read_lock().Release().ok());
  CHECK(!first.write_lock().IsAcquiredInThisProcess());
  REQUIRE(second.read_lock().Release().ok());
  may_release.set_value();
  CHECK(writes.get().ok());
  CHECK(reads.get().ok());
  CHECK(CountChildren(client.get(), path) == 1);
}

TEST_CASE("assigning to a lease returns the lease that it held") {
  auto client = Connect();
  Semaphore semaphore(client.get(), "/semaphore/assigned", 2);
  auto first = semaphore.Acquire(), second = semaphore.Acquire();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  *first = *std::move(second);
  CHECK(first->is_held());
  // NOLINTNEXTLINE(bugprone-use-after-move): that is tested
  CHECK(!second->is_held());
  CHECK(second->node().empty());
  auto third = semaphore.Acquire(20'000);
  REQUIRE(third.ok());
  // Move a lease to itself.
  Lease& same = *first;
  *first = std::move(same);
  CHECK(first->is_held());
}

TEST_CASE("a reader waits for an earlier writer when the last writer before it gives up") {
  const std::string path = "/read-write/chain";
  auto client = Connect();
  auto other = Connect();
  ReadWriteLock lock(client.get(), path), waiting(other.get(), path);
  REQUIRE(lock.write_lock().Acquire().ok());
  auto gives_up = Elsewhere([&] { return waiting.write_lock().Acquire(300); });
  REQUIRE(WaitForChildren(client.get(), path, 2));
  auto reads = Elsewhere([&] { return waiting.read_lock().Acquire(); });
  REQUIRE(WaitForChildren(client.get(), path, 3));
  CHECK(absl::IsDeadlineExceeded(gives_up.get()));
  REQUIRE(WaitForChildren(client.get(), path, 2));
  REQUIRE(other->Sync().ok());
  CHECK(!waiting.read_lock().IsAcquiredInThisProcess());
  REQUIRE(lock.write_lock().Release().ok());
  CHECK(reads.get().ok());
}

TEST_CASE("a writer downgrades to reader, and waiting writers keep waiting") {
  const std::string path = "/read-write/downgrade";
  auto client = Connect();
  auto other = Connect();
  ReadWriteLock lock(client.get(), path), waiting(other.get(), path);
  REQUIRE(lock.write_lock().Acquire().ok());
  const int64_t token = *lock.write_lock().FencingToken();
  auto writes = Elsewhere([&] { return waiting.write_lock().Acquire(); });
  REQUIRE(WaitForChildren(client.get(), path, 2));
  REQUIRE(lock.read_lock().Acquire().ok());
  CHECK(*lock.read_lock().FencingToken() == token);
  REQUIRE(lock.write_lock().Release().ok());
  // The waiting writer has received the deletion, and its list was answered before these calls.
  REQUIRE(other->Sync().ok());
  REQUIRE(other->Sync().ok());
  CHECK(!waiting.write_lock().IsAcquiredInThisProcess());
  CHECK(lock.read_lock().IsOwnedByThisThread());
  // A reader cannot upgrade to writer.
  CHECK(absl::IsFailedPrecondition(lock.write_lock().Acquire()));
  CHECK(CountChildren(client.get(), path) == 2);
  REQUIRE(lock.read_lock().Release().ok());
  CHECK(writes.get().ok());
  // Hold both locks, and release them in the other order.
  ReadWriteLock both(client.get(), path + "-2");
  REQUIRE(both.write_lock().Acquire().ok());
  REQUIRE(both.read_lock().Acquire().ok());
  REQUIRE(both.write_lock().Acquire().ok());
  REQUIRE(both.read_lock().Release().ok());
  CHECK(both.write_lock().IsOwnedByThisThread());
  CHECK(!*Elsewhere([&] { return both.read_lock().TryAcquire(); }).get());
}

TEST_CASE("a writer who has lost the lock cannot downgrade to reader") {
  const std::string path = "/read-write/lost";
  auto client = Connect();
  auto other = Connect();
  ReadWriteLock lock(client.get(), path);
  REQUIRE(lock.write_lock().Acquire().ok());
  REQUIRE(other->Delete(lock.write_lock().ParticipantNodes()->at(0)).ok());
  WaitForDeletion(client.get());
  CHECK(absl::IsAborted(lock.read_lock().Acquire()));
  CHECK(absl::IsAborted(lock.write_lock().Release()));
  CHECK(lock.read_lock().Acquire().ok());
}

TEST_CASE("a semaphore grants as many leases as it has, and no more") {
  constexpr int kLeases = 3, kThreads = 8, kRounds = 10;
  auto client = Connect();
  auto other = Connect();
  std::atomic<int> holders{0}, most{0}, failures{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, at = i % 2 == 0 ? client.get() : other.get()] {
      Semaphore semaphore(at, "/semaphore/limit", kLeases);
      for (int round = 0; round < kRounds; ++round) {
        auto lease = semaphore.Acquire();
        if (!lease.ok()) {
          ++failures;
          continue;
        }
        const int now = ++holders;
        if (now > kLeases) ++failures;
        most = std::max(most.load(), now);
        --holders;
        if (!lease->Return().ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(most >= 1);
  CHECK(CountChildren(client.get(), "/semaphore/limit/leases") == 0);
}

TEST_CASE("leases are freed by their holders, and by callers that give up") {
  const std::string path = "/semaphore/return";
  auto client = Connect();
  auto other = Connect();
  Collected<LockEvent::Type> told;
  Semaphore semaphore(client.get(), path, 2,
                      {.data = "a", .listener = [&](const LockEvent& e) { told.Add(e.type); }});
  Semaphore there(other.get(), path, 2);
  auto first = semaphore.Acquire();
  auto second = semaphore.Acquire();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(second->is_held());
  CHECK(client->Get(second->node())->data == "a");
  CHECK(semaphore.ParticipantNodes()->size() == 2);
  CHECK(absl::IsDeadlineExceeded(there.Acquire(100).status()));
  CHECK(absl::IsDeadlineExceeded(there.AcquireMany(2, 100).status()));
  CHECK(absl::IsInvalidArgument(there.AcquireMany(3).status()));
  REQUIRE(other->Sync().ok());
  CHECK(WaitForChildren(client.get(), path + "/leases", 2));
  CHECK(WaitForChildren(client.get(), path + "/locks", 0));

  auto waits = Elsewhere([&] { return there.AcquireMany(2).status(); });
  REQUIRE(WaitForChildren(client.get(), path + "/leases", 3));
  REQUIRE(first->Return().ok());
  CHECK(absl::IsFailedPrecondition(first->Return()));
  CHECK(!first->is_held());
  *second = Lease(nullptr);
  CHECK(waits.get().ok());
  CHECK(told.WaitFor(4).size() == 4);

  // A lease whose znode another client deletes is lost.
  auto last = there.Acquire();
  REQUIRE(last.ok());
  REQUIRE(client->Delete(last->node()).ok());
  WaitForDeletion(other.get());
  CHECK(!last->is_held());
  CHECK(absl::IsAborted(last->Return()));
}

TEST_CASE("a semaphore mutex is released by any thread, and acquired by one holder at a time") {
  auto client = Connect(), other = Connect();
  const std::string path = "/locks/semaphore-mutex";
  Collected<LockEvent::Type> told;
  SemaphoreMutex mine(client.get(), path,
                      {.listener = [&](const LockEvent& event) { told.Add(event.type); }});
  SemaphoreMutex others(other.get(), path);
  CHECK(absl::IsFailedPrecondition(mine.Release()));
  REQUIRE(mine.Acquire().ok());
  CHECK(mine.IsAcquiredInThisProcess());
  CHECK_FALSE(others.IsAcquiredInThisProcess());
  CHECK(absl::IsDeadlineExceeded(mine.Acquire(20)));  // not reentrant
  CHECK(absl::IsDeadlineExceeded(others.Acquire(20)));
  CHECK(mine.IsAcquiredInThisProcess());
  // A semaphore with one lease is the same lock. Those that gave up leave the line.
  REQUIRE(WaitForChildren(other.get(), path + "/leases", 1));
  CHECK(Semaphore(other.get(), path, 1).ParticipantNodes()->size() == 1);
  REQUIRE(std::async(std::launch::async, [&] { return mine.Release(); }).get().ok());
  CHECK_FALSE(mine.IsAcquiredInThisProcess());
  REQUIRE(others.Acquire().ok());
  REQUIRE(told.WaitFor(2).size() == 2);
  CHECK(told.WaitFor(2)[1] == LockEvent::Type::kReleased);
}

TEST_CASE("a semaphore mutex that was lost has to be released before it is acquired again") {
  auto client = Connect(), other = Connect();
  const std::string path = "/locks/semaphore-mutex-lost";
  Collected<LockEvent> told;
  SemaphoreMutex mutex(client.get(), path,
                       {.listener = [&](const LockEvent& event) { told.Add(event); }});
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(told.WaitFor(1).size() == 1);
  REQUIRE(other->Delete(told.WaitFor(1)[0].node).ok());
  REQUIRE(told.WaitFor(2).size() == 2);
  CHECK(told.WaitFor(2)[1].type == LockEvent::Type::kLost);
  CHECK_FALSE(mutex.IsAcquiredInThisProcess());
  CHECK(absl::IsAborted(mutex.Acquire()));
  CHECK(absl::IsAborted(mutex.Release()));
  REQUIRE(mutex.Acquire().ok());
  CHECK(mutex.Release().ok());
}

TEST_CASE("a thread that waited while a semaphore mutex was lost does not hold it") {
  auto client = Connect(), other = Connect();
  const std::string path = "/locks/semaphore-mutex-waiter";
  Collected<LockEvent> told;
  SemaphoreMutex mutex(client.get(), path,
                       {.listener = [&](const LockEvent& event) { told.Add(event); }});
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(told.WaitFor(1).size() == 1);
  auto waiter = std::async(std::launch::async, [&] { return mutex.Acquire(); });
  REQUIRE(WaitForChildren(other.get(), path + "/leases", 2));
  REQUIRE(other->Delete(told.WaitFor(1)[0].node).ok());
  CHECK(absl::IsAborted(waiter.get()));
  CHECK(WaitForChildren(other.get(), path + "/leases", 0));
  CHECK(absl::IsAborted(mutex.Release()));
  CHECK(mutex.Acquire().ok());
}

TEST_CASE("a multi-lock acquires all of its locks, or none") {
  auto client = Connect();
  auto other = Connect();
  InterProcessMutex a(client.get(), "/multi/a"), b(client.get(), "/multi/b");
  ReadWriteLock c(client.get(), "/multi/c");
  InterProcessMutex others_b(other.get(), "/multi/b");
  MultiLock all({&a, &b, &c.read_lock()});
  REQUIRE(others_b.Acquire().ok());
  CHECK(absl::IsDeadlineExceeded(all.Acquire(100)));
  CHECK(!a.IsAcquiredInThisProcess());
  CHECK(!all.IsAcquiredInThisProcess());
  CHECK(absl::IsFailedPrecondition(all.Release()));
  REQUIRE(others_b.Release().ok());
  REQUIRE(all.Acquire(20'000).ok());
  CHECK(all.IsAcquiredInThisProcess());
  CHECK(!*others_b.TryAcquire());
  // One lock is lost: Release still releases the others.
  REQUIRE(other->Delete(b.ParticipantNodes()->at(0)).ok());
  WaitForDeletion(client.get());
  CHECK(!all.IsAcquiredInThisProcess());
  CHECK(absl::IsAborted(all.Release()));
  CHECK(!a.IsAcquiredInThisProcess());
  CHECK(!c.read_lock().IsAcquiredInThisProcess());
}

}  // namespace quorate
