// SPDX-License-Identifier: Apache-2.0

// Tests that every blocking function of a recipe returns an error when the client is closed.

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/recipes/barrier.h"
#include "client/recipes/count_down_latch.h"
#include "client/recipes/delayed_queue.h"
#include "client/recipes/double_barrier.h"
#include "client/recipes/election.h"
#include "client/recipes/leader_latch.h"
#include "client/recipes/multi_lock.h"
#include "client/recipes/mutex.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/priority_queue.h"
#include "client/recipes/queue.h"
#include "client/recipes/read_write_lock.h"
#include "client/recipes/recipes_test.h"
#include "client/recipes/semaphore.h"
#include "client/recipes/two_phase_commit.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;

constexpr std::chrono::milliseconds kShort{100};
constexpr std::chrono::seconds kLong{20};

struct Wait {
  const char* name;
  // Blocks for ever, because `other` holds the lock or item for which it waits. Sets `ready` right
  // before it blocks; after an earlier failure, `ready` is destroyed without a value.
  std::function<absl::Status(Client* client, Client* other, std::promise<void> ready)> function;
};

absl::Status WaitForMutex(Client* client, Client* other, std::promise<void> ready) {
  InterProcessMutex held(other, "/mutex");
  if (absl::Status s = held.Acquire(); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return InterProcessMutex(client, "/mutex").Acquire();
}

absl::Status WaitForReadLock(Client* client, Client* other, std::promise<void> ready) {
  ReadWriteLock held(other, "/read-write");
  if (absl::Status s = held.write_lock().Acquire(); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return ReadWriteLock(client, "/read-write").read_lock().Acquire();
}

absl::Status WaitForMultiLock(Client* client, Client* other, std::promise<void> ready) {
  InterProcessMutex held(other, "/second");
  if (absl::Status s = held.Acquire(); !s.ok()) return absl::OkStatus();
  InterProcessMutex first(client, "/first"), second(client, "/second");
  ready.set_value();
  const absl::Status status = MultiLock({&first, &second}).Acquire();
  return first.IsAcquiredInThisProcess() ? absl::OkStatus() : status;
}

absl::Status WaitForLease(Client* client, Client* other, std::promise<void> ready) {
  Semaphore semaphore(other, "/semaphore", 1);
  const auto held = semaphore.Acquire();
  if (!held.ok()) return absl::OkStatus();
  ready.set_value();
  return Semaphore(client, "/semaphore", 1).Acquire().status();
}

absl::Status WaitForElection(Client* client, Client* other, std::promise<void> ready) {
  Election leader(other, "/election", {});
  if (!leader.Start().ok() || !leader.AwaitLeadership().ok()) return absl::OkStatus();
  Election election(client, "/election", {});
  if (absl::Status s = election.Start(); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return election.AwaitLeadership().status();
}

absl::Status WaitForLeaderLatch(Client* client, Client* other, std::promise<void> ready) {
  LeaderLatch leader(other, "/leader-latch", {});
  if (!leader.Start().ok() || !leader.Await().ok()) return absl::OkStatus();
  LeaderLatch latch(client, "/leader-latch", {});
  if (absl::Status s = latch.Start(); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return latch.Await().status();
}

absl::Status WaitForItem(Client* client, Client*, std::promise<void> ready) {
  ready.set_value();
  return Queue(client, "/queue").Take().status();
}

absl::Status WaitForPriorityItem(Client* client, Client*, std::promise<void> ready) {
  ready.set_value();
  return PriorityQueue(client, "/priority").Take().status();
}

absl::Status WaitForDelayedItem(Client* client, Client* other, std::promise<void> ready) {
  DelayedQueue queue(other, "/delayed", [] { return 1; });
  if (absl::Status s = queue.Offer("due in an hour", 3'600'000); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return DelayedQueue(client, "/delayed", [] { return 1; }).Take().status();
}

absl::Status WaitForBarrier(Client* client, Client* other, std::promise<void> ready) {
  if (absl::Status s = Barrier(other, "/barrier").Close(); !s.ok()) return absl::OkStatus();
  ready.set_value();
  return Barrier(client, "/barrier").Wait();
}

absl::Status WaitToEnter(Client* client, Client*, std::promise<void> ready) {
  ready.set_value();
  return DoubleBarrier(client, "/double", 2).Enter();
}

absl::Status WaitToLeave(Client* client, Client* other, std::promise<void> ready) {
  DoubleBarrier second(other, "/inside", 2);
  auto enters = Begin([&] { return second.Enter(); });
  DoubleBarrier first(client, "/inside", 2);
  if (!first.Enter().ok()) {
    other->Close().IgnoreError();  // ends the wait of `second`
    return absl::OkStatus();
  }
  if (!enters.get().ok()) return absl::OkStatus();
  ready.set_value();
  return first.Leave();
}

absl::Status WaitForLatch(Client* client, Client* other, std::promise<void> ready) {
  if (!CountDownLatch(other, "/latch").Create(1).ok()) return absl::OkStatus();
  ready.set_value();
  return CountDownLatch(client, "/latch").Wait();
}

absl::Status WaitForVotes(Client* client, Client*, std::promise<void> ready) {
  auto coordinator = TwoPhaseCoordinator::Begin(client, "/votes", {"a"}, "");
  if (!coordinator.ok()) return absl::OkStatus();
  ready.set_value();
  return coordinator->Decide().status();
}

absl::Status WaitForDecision(Client* client, Client* other, std::promise<void> ready) {
  const auto coordinator = TwoPhaseCoordinator::Begin(other, "/decision", {"a", "b"}, "");
  TwoPhaseParticipant participant(client, "/decision", "a");
  if (!coordinator.ok() || !participant.Vote(true).ok()) return absl::OkStatus();
  ready.set_value();
  return participant.WaitForDecision().status();
}

absl::Status WaitForAcknowledgements(Client* client, Client* other, std::promise<void> ready) {
  auto coordinator = TwoPhaseCoordinator::Begin(client, "/finish", {"a"}, "");
  if (!coordinator.ok() || !TwoPhaseParticipant(other, "/finish", "a").Vote(true).ok()) {
    return absl::OkStatus();
  }
  ready.set_value();
  return coordinator->Finish();
}

absl::Status WaitForZnode(Client* client, Client* other, std::promise<void> ready) {
  if (!other->Create("/node", "", {.mode = CreateMode::kEphemeral}).ok()) return absl::OkStatus();
  auto node = PersistentNode::Start(client, "/node", "");
  if (!node.ok()) return absl::OkStatus();
  ready.set_value();
  return (*node)->WaitUntilThere();
}

const std::vector<Wait> kWaits = {
    {"mutex", WaitForMutex},
    {"read lock", WaitForReadLock},
    {"multi-lock", WaitForMultiLock},
    {"semaphore", WaitForLease},
    {"election", WaitForElection},
    {"leader latch", WaitForLeaderLatch},
    {"queue", WaitForItem},
    {"priority queue", WaitForPriorityItem},
    {"delayed queue", WaitForDelayedItem},
    {"barrier", WaitForBarrier},
    {"entry of a double barrier", WaitToEnter},
    {"exit of a double barrier", WaitToLeave},
    {"count-down latch", WaitForLatch},
    {"votes", WaitForVotes},
    {"decision", WaitForDecision},
    {"acknowledgements", WaitForAcknowledgements},
    {"persistent node", WaitForZnode},
};

}  // namespace

TEST_CASE("every blocked call returns an error when its client is closed") {
  for (const Wait& wait : kWaits) {
    INFO(wait.name);
    const auto client = ConnectTo("/closing");
    const auto other = ConnectTo("/closing");
    std::promise<void> ready;
    std::future<void> is_ready = ready.get_future();
    auto waits = Begin([&] { return wait.function(client.get(), other.get(), std::move(ready)); });
    REQUIRE_NOTHROW(is_ready.get());
    CHECK(waits.wait_for(kShort) == std::future_status::timeout);
    CHECK(client->Close().ok());
    REQUIRE(waits.wait_for(kLong) == std::future_status::ready);
    const absl::Status status = waits.get();
    INFO(status.ToString());
    CHECK(!status.ok());
    CHECK_FALSE(absl::IsDeadlineExceeded(status));
  }
}

TEST_CASE("every blocking call returns an error at once if its client was closed before") {
  for (const Wait& wait : kWaits) {
    INFO(wait.name);
    const auto client = ConnectTo("/closed");
    const auto other = ConnectTo("/closed");
    REQUIRE(client->Close().ok());
    auto waits = Begin(
        [&] { return wait.function(client.get(), other.get(), std::promise<void>()).code(); });
    REQUIRE(waits.wait_for(kLong) == std::future_status::ready);
    CHECK(waits.get() != absl::StatusCode::kDeadlineExceeded);
  }
}

}  // namespace quorate
