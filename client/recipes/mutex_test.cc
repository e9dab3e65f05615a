// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/mutex.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "client/recipes/testing/lock_testing.h"

namespace quorate {
namespace {

using Type = LockEvent::Type;

LockOptions ListenWith(Collected<Type>* told) {
  return {.data = "holder", .listener = [told](const LockEvent& e) { told->Add(e.type); }};
}

}  // namespace

TEST_CASE("one thread has the mutex at a time, in the order of asking, with growing tokens") {
  constexpr int kThreads = 4, kRounds = 20;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(Connect());
  std::atomic<int> holders{0};
  std::vector<int64_t> tokens;  // changed only by the holder of the mutex
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, client = clients[static_cast<size_t>(i) % 2].get()] {
      InterProcessMutex mutex(client, "/mutex/exclusion");
      for (int round = 0; round < kRounds; ++round) {
        if (!mutex.Acquire().ok()) ++failures;
        if (++holders != 1) ++failures;
        tokens.push_back(*mutex.FencingToken());
        --holders;
        if (!mutex.Release().ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(tokens.size() == kThreads * kRounds);
  CHECK(std::is_sorted(tokens.begin(), tokens.end(), std::less_equal<>()));
  CHECK(CountChildren(clients[0].get(), "/mutex/exclusion") == 0);
}

TEST_CASE("a thread may acquire the mutex again, and another thread may not") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/mutex/reentrant");
  CHECK(absl::IsFailedPrecondition(mutex.Release()));
  CHECK(absl::IsFailedPrecondition(mutex.FencingToken().status()));
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(*mutex.TryAcquire());
  CHECK(CountChildren(client.get(), "/mutex/reentrant") == 1);
  const auto in_other_thread = [](auto function) {
    return std::async(std::launch::async, function).get();
  };
  CHECK(!*in_other_thread([&] { return mutex.TryAcquire(); }));
  CHECK(absl::IsDeadlineExceeded(in_other_thread([&] { return mutex.Acquire(50); })));
  CHECK(absl::IsFailedPrecondition(in_other_thread([&] { return mutex.Release(); })));
  CHECK(!in_other_thread([&] { return mutex.IsOwnedByThisThread(); }));
  REQUIRE(mutex.Release().ok());
  REQUIRE(mutex.Release().ok());
  CHECK(mutex.IsAcquiredInThisProcess());
  CHECK(mutex.IsOwnedByThisThread());
  REQUIRE(mutex.Release().ok());
  CHECK(!mutex.IsAcquiredInThisProcess());
  CHECK(CountChildren(client.get(), "/mutex/reentrant") == 0);
}

TEST_CASE("the lock of a thread that has ended belongs to no later thread") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/mutex/ended-thread");
  std::thread::id owner;
  std::thread([&] {
    owner = std::this_thread::get_id();
    CHECK(mutex.Acquire().ok());
  }).join();
  // Thread ids are reused: usually a new thread gets that of the thread that ended last.
  bool is_same_id = false;
  for (int i = 0; i < 100 && !is_same_id; ++i) {
    std::thread([&] {
      is_same_id = std::this_thread::get_id() == owner;
      CHECK(!mutex.IsOwnedByThisThread());
      CHECK(absl::IsFailedPrecondition(mutex.FencingToken().status()));
      CHECK(absl::IsFailedPrecondition(mutex.Release()));
      CHECK(!*mutex.TryAcquire());
    }).join();
  }
  CHECK(is_same_id);
  CHECK(mutex.IsAcquiredInThisProcess());
}

TEST_CASE("a waiter that gives up leaves no znode, and the others move up") {
  auto client = Connect();
  auto second = Connect();
  InterProcessMutex mutex(client.get(), "/mutex/giving-up"),
      other(second.get(), "/mutex/giving-up");
  REQUIRE(mutex.Acquire().ok());
  // The waiter that gives up is in the middle of the line: after that the last one waits for the
  // first one.
  auto gives_up = std::async(std::launch::async, [&] { return other.Acquire(300); });
  REQUIRE(WaitForChildren(client.get(), "/mutex/giving-up", 2));
  auto waits = std::async(std::launch::async, [&] { return other.Acquire(); });
  REQUIRE(WaitForChildren(client.get(), "/mutex/giving-up", 3));
  CHECK(mutex.ParticipantNodes()->size() == 3);
  CHECK(absl::IsDeadlineExceeded(gives_up.get()));
  REQUIRE(WaitForChildren(client.get(), "/mutex/giving-up", 2));
  CHECK(!other.IsAcquiredInThisProcess());
  REQUIRE(mutex.Release().ok());
  CHECK(waits.get().ok());
  CHECK(other.IsAcquiredInThisProcess());
}

TEST_CASE("a znode that is created only after the deadline is deleted again") {
  auto client = Connect();
  InterProcessMutex mutex(client.get(), "/mutex/late");
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(mutex.Release().ok());
  Servers().Pause(1);
  const absl::Status late = mutex.Acquire(100);
  const absl::StatusOr<bool> late_try = mutex.TryAcquire(100);
  Servers().Resume(1);
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK(absl::IsDeadlineExceeded(late_try.status()));
  // The znodes of the late calls are created before this Sync, and deleted soon after it.
  REQUIRE(client->Sync().ok());
  REQUIRE(WaitForChildren(client.get(), "/mutex/late", 0));
  CHECK(mutex.Acquire(10'000).ok());
}

TEST_CASE("the listener gets each event of the lock") {
  auto client = Connect();
  auto other = Connect();
  Collected<Type> told;
  InterProcessMutex mutex(client.get(), "/mutex/events", ListenWith(&told));
  REQUIRE(mutex.Acquire().ok());
  const std::string node = mutex.ParticipantNodes()->at(0);
  CHECK(other->Get(node)->data == "holder");
  REQUIRE(RequestRevocation(other.get(), node).ok());
  CHECK(told.WaitFor(2).back() == Type::kRevoked);
  REQUIRE(mutex.Release().ok());
  CHECK(ErrorOf(RequestRevocation(other.get(), node)) == ErrorCode::kNoNode);

  // The lock is lost if another client deletes its znode.
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(other->Delete(mutex.ParticipantNodes()->at(0)).ok());
  CHECK(told.WaitFor(5).back() == Type::kLost);
  CHECK(!mutex.IsAcquiredInThisProcess());
  CHECK(absl::IsAborted(mutex.FencingToken().status()));
  CHECK(absl::IsAborted(mutex.Acquire()));
  CHECK(absl::IsAborted(mutex.Release()));

  // The lock is lost with its session.
  REQUIRE(mutex.Acquire().ok());
  REQUIRE(client->Close().ok());
  CHECK(!mutex.IsAcquiredInThisProcess());
  CHECK(absl::IsAborted(mutex.Release()));
  CHECK(!mutex.Acquire().ok());
  CHECK(told.WaitFor(0) == std::vector<Type>{Type::kAcquired, Type::kRevoked, Type::kReleased,
                                             Type::kAcquired, Type::kLost, Type::kAcquired,
                                             Type::kLost});
}

TEST_CASE("a waiter gets the mutex when the holder's session ends, and fails when its own ends") {
  auto holder = Connect();
  auto client = Connect();
  InterProcessMutex held(holder.get(), "/mutex/sessions"), mutex(client.get(), "/mutex/sessions");
  REQUIRE(held.Acquire().ok());
  auto acquired = std::async(std::launch::async, [&] { return mutex.Acquire(); });
  REQUIRE(WaitForChildren(client.get(), "/mutex/sessions", 2));
  REQUIRE(holder->Close().ok());
  CHECK(acquired.get().ok());

  auto last = Connect();
  InterProcessMutex waits(last.get(), "/mutex/sessions");
  auto failed = std::async(std::launch::async, [&] { return waits.Acquire(); });
  REQUIRE(WaitForChildren(client.get(), "/mutex/sessions", 2));
  REQUIRE(last->Close().ok());
  CHECK(!failed.get().ok());
}

TEST_CASE("the line is shared with znodes of Curator's names, and with no others") {
  auto client = Connect();
  auto java = Connect();
  REQUIRE(java->Create("/mutex/names/other-0000000000", "", {.create_parents = true}).ok());
  const std::string first =
      java->Create("/mutex/names/_c_3ffbc2c4-4bb8-4a5f-8a2b-c4a8e2a0a2fb-lock-", "",
                   {.mode = CreateMode::kEphemeralSequential})
          ->path;
  InterProcessMutex mutex(client.get(), "/mutex/names");
  CHECK(!*mutex.TryAcquire());
  REQUIRE(java->Delete(first).ok());
  CHECK(*mutex.TryAcquire());
}

TEST_CASE("a mutex is refused on the callback thread, and may be destroyed there") {
  auto client = Connect();
  auto mutex = std::make_unique<InterProcessMutex>(client.get(), "/mutex/callbacks");
  REQUIRE(mutex->Acquire().ok());
  std::promise<std::vector<absl::Status>> statuses;
  client->AsyncSync().Then([&](const auto&) {
    statuses.set_value({mutex->Acquire(), mutex->Release(), mutex->TryAcquire().status()});
    mutex.reset();
  });
  for (const absl::Status& status : statuses.get_future().get()) {
    CHECK(absl::IsFailedPrecondition(status));
  }
  REQUIRE(client->Sync().ok());
  CHECK(CountChildren(client.get(), "/mutex/callbacks") == 0);
}

TEST_CASE("an invalid path, or one without permission, is an error at once") {
  auto client = Connect();
  CHECK(absl::IsInvalidArgument(InterProcessMutex(client.get(), "mutex").Acquire()));
  CHECK(absl::IsInvalidArgument(InterProcessMutex(client.get(), "/").Acquire()));
  const Acl read_only{kPermissionRead, "world", "anyone"};
  REQUIRE(client->Create("/read-only", "", {.acl = {read_only}}).ok());
  CHECK(ErrorOf(InterProcessMutex(client.get(), "/read-only").Acquire()) == ErrorCode::kNoAuth);
  CHECK(ErrorOf(InterProcessMutex(client.get(), "/read-only/a").Acquire()) == ErrorCode::kNoAuth);
  // An ephemeral znode cannot have children.
  REQUIRE(client->Create("/ephemeral", "", {.mode = CreateMode::kEphemeral}).ok());
  CHECK(ErrorOf(InterProcessMutex(client.get(), "/ephemeral").Acquire()) ==
        ErrorCode::kNoChildrenForEphemerals);
}

}  // namespace quorate
