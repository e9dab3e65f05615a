// SPDX-License-Identifier: Apache-2.0

// Tests of waits for a lock that can be cancelled, of locks that objects hold, and of transactions
// that are committed only while a lock is held.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/recipes/election.h"
#include "client/recipes/held_lock.h"
#include "client/recipes/leader_latch.h"
#include "client/recipes/mutex.h"
#include "client/recipes/testing/lock_testing.h"
#include "client/testing/session_end.h"

namespace quorate {
namespace {

constexpr int kLongMs = 20'000;

// Ends the client's session, and returns when the client has another one.
void ReplaceSession(Client* client) {
  Collected<SessionEvent::Type> events;
  auto handle = client->ListenToSession([&](const SessionEvent& event) {
    if (event.type == SessionEvent::Type::kReplaced) events.Add(event.type);
  });
  REQUIRE(testing::EndSessionOf(client, Servers().address(1)).ok());
  REQUIRE(events.WaitFor(1).size() == 1);
}

}  // namespace

TEST_CASE("a wait for the mutex ends when its stop token is requested, and leaves no znode") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/stop/blocking");
  REQUIRE(mutex.Acquire().ok());
  std::stop_source source;
  auto waits = std::async(std::launch::async, [&] { return mutex.Acquire(source.get_token()); });
  REQUIRE(WaitForChildren(client.get(), "/stop/blocking", 2));
  source.request_stop();
  CHECK(absl::IsCancelled(waits.get()));
  REQUIRE(WaitForChildren(client.get(), "/stop/blocking", 1));
  CHECK(mutex.IsOwnedByThisThread());
  REQUIRE(mutex.Release().ok());
  // A token that was requested before ends the wait at once; a lock that is held stays held.
  CHECK(absl::IsCancelled(mutex.Acquire(source.get_token())));
  std::stop_source later;
  REQUIRE(mutex.Acquire(later.get_token()).ok());
  later.request_stop();
  CHECK(mutex.IsOwnedByThisThread());
  REQUIRE(WaitForChildren(client.get(), "/stop/blocking", 1));
}

TEST_CASE("an asynchronous wait gets the lock in its turn, and the object holds it") {
  auto client = Connect();
  auto other = Connect();
  InterProcessMutex mutex(client.get(), "/async/turn"), held(other.get(), "/async/turn");
  REQUIRE(held.Acquire().ok());
  std::promise<absl::StatusOr<HeldLock>> promise;
  mutex.AsyncAcquire().Then(
      [&](absl::StatusOr<HeldLock> outcome) { promise.set_value(std::move(outcome)); });
  auto outcome = promise.get_future();
  REQUIRE(WaitForChildren(client.get(), "/async/turn", 2));
  CHECK(outcome.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  const int64_t token = *held.FencingToken();
  REQUIRE(held.Release().ok());
  absl::StatusOr<HeldLock> lock = outcome.get();
  REQUIRE(lock.ok());
  CHECK(lock->is_held());
  CHECK(lock->fencing_token() > token);
  CHECK(!mutex.IsOwnedByThisThread());
  CHECK(!*mutex.TryAcquire());
  HeldLock moved = *std::move(lock);
  CHECK(moved.is_held());
  CHECK(moved.Release().ok());
  CHECK(absl::IsFailedPrecondition(moved.Release()));
  CHECK(CountChildren(client.get(), "/async/turn") == 0);
  { CHECK(mutex.AsyncAcquire().Wait().ok()); }
  // The destructor has released the lock.
  CHECK(mutex.Acquire(kLongMs).ok());
}

TEST_CASE("an asynchronous wait ends by its stop token, its deadline or Cancel") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/async/ends");
  REQUIRE(mutex.Acquire().ok());
  std::stop_source source;
  auto stopped = mutex.AsyncAcquire(source.get_token());
  auto cancelled = mutex.AsyncAcquire();
  auto late = mutex.AsyncAcquire({}, 50);
  REQUIRE(absl::IsDeadlineExceeded(late.Wait().status()));
  source.request_stop();
  cancelled.Cancel();
  CHECK(absl::IsCancelled(stopped.Wait().status()));
  CHECK(absl::IsCancelled(cancelled.Wait().status()));
  CHECK(absl::IsCancelled(mutex.AsyncAcquire(source.get_token()).Wait().status()));
  REQUIRE(WaitForChildren(client.get(), "/async/ends", 1));
  CHECK(absl::IsInvalidArgument(
      InterProcessMutex(client.get(), "async").AsyncAcquire().Wait().status()));
}

TEST_CASE("a wait that is cancelled when its turn comes is either held or leaves nothing") {
  constexpr int kRounds = 200;
  std::mt19937 random(3);
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/async/race");
  int held = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::stop_source source;
    auto call = mutex.AsyncAcquire(source.get_token());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    source.request_stop();
    auto outcome = call.Wait();
    held += outcome.ok() ? 1 : 0;
    if (outcome.ok()) {
      CHECK(outcome->is_held());
      CHECK(outcome->Release().ok());
    } else {
      CHECK(absl::IsCancelled(outcome.status()));
    }
  }
  REQUIRE(WaitForChildren(client.get(), "/async/race", 0));
  CAPTURE(held);
  CHECK(mutex.Acquire(kLongMs).ok());
}

TEST_CASE("a mutex is used with std::unique_lock") {
  auto client = Connect();
  auto other = Connect();
  InterProcessMutex mutex(client.get(), "/std/mutex"), second(other.get(), "/std/mutex");
  {
    std::unique_lock lock(mutex);
    CHECK(mutex.IsOwnedByThisThread());
    std::unique_lock<InterProcessMutex> tries(second, std::try_to_lock);
    CHECK(!tries.owns_lock());
    CHECK(!tries.try_lock_for(std::chrono::milliseconds(50)));
  }
  std::unique_lock<InterProcessMutex> lock(second, std::defer_lock);
  CHECK(lock.try_lock_for(std::chrono::seconds(20)));
  // A waiter outlives its session.
  auto waits = std::async(std::launch::async, [&] {
    std::lock_guard guard(mutex);
    return mutex.IsOwnedByThisThread();
  });
  REQUIRE(WaitForChildren(other.get(), "/std/mutex", 2));
  ReplaceSession(client.get());
  REQUIRE(WaitForChildren(other.get(), "/std/mutex", 2));
  lock.unlock();
  CHECK(waits.get());
  std::promise<std::errc> thrown;
  client->AsyncSync().Then([&](const auto&) {
    try {
      mutex.lock();
    } catch (const std::system_error& error) {
      thrown.set_value(static_cast<std::errc>(error.code().value()));
    }
  });
  CHECK(thrown.get_future().get() == std::errc::resource_deadlock_would_occur);
}

TEST_CASE("a guarded transaction is committed only while its lock is held") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/guard/mutex");
  REQUIRE(client->Create("/guard/data", "", {.create_parents = true}).ok());
  Transaction none;
  CHECK(absl::IsFailedPrecondition(mutex.Guard(&none)));
  CHECK(none.operations().empty());
  REQUIRE(mutex.Acquire().ok());
  auto held = InterProcessMutex(client.get(), "/guard/other").AsyncAcquire().Wait();
  REQUIRE(held.ok());
  Transaction first, second, third;
  REQUIRE(mutex.Guard(&first).ok());
  REQUIRE(mutex.Guard(&second).ok());
  REQUIRE(held->Guard(&third).ok());
  CHECK(client->Commit(first.Set("/guard/data", "1")).ok());
  ReplaceSession(client.get());
  // The loss may not be known here when the transaction is made; the servers refuse it.
  CHECK(ErrorOf(client->Commit(second.Set("/guard/data", "2")).status()) == ErrorCode::kNoNode);
  CHECK(ErrorOf(client->Commit(third.Set("/guard/data", "3")).status()) == ErrorCode::kNoNode);
  CHECK(client->Get("/guard/data")->data == "1");
  CHECK(absl::IsAborted(mutex.Guard(&none)));
  CHECK(absl::IsAborted(held->Guard(&none)));
  CHECK(absl::IsAborted(mutex.Release()));
  CHECK(absl::IsAborted(held->Release()));
}

TEST_CASE("a guarded transaction is committed only by the leader") {
  auto client = Connect();
  REQUIRE(client->Create("/guard/led", "", {.create_parents = true}).ok());
  Election election(client.get(), "/guard/election", {.id = "a"});
  LeaderLatch latch(client.get(), "/guard/latch", {.id = "a"});
  Transaction by_leader, by_latch;
  CHECK(absl::IsFailedPrecondition(election.Guard(&by_leader)));
  REQUIRE(election.Start().ok());
  REQUIRE(latch.Start().ok());
  REQUIRE(election.AwaitLeadership(kLongMs).ok());
  REQUIRE(latch.Await(kLongMs).ok());
  REQUIRE(election.Guard(&by_leader).ok());
  REQUIRE(latch.Guard(&by_latch).ok());
  Transaction first = by_leader;
  CHECK(client->Commit(first.Set("/guard/led", "1")).ok());
  CHECK(client->Commit(by_latch.Set("/guard/led", "2")).ok());
  REQUIRE(election.Stop(kLongMs).ok());
  CHECK(ErrorOf(client->Commit(by_leader.Set("/guard/led", "3")).status()) == ErrorCode::kNoNode);
  CHECK(client->Get("/guard/led")->data == "2");
}

}  // namespace quorate
