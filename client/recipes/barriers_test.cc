// SPDX-License-Identifier: Apache-2.0

// Tests Barrier, DoubleBarrier and CountDownLatch.

#include "client/recipes/barrier.h"
#include "client/recipes/count_down_latch.h"
#include "client/recipes/double_barrier.h"
#include "client/recipes/recipes_test.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;
using testing::WaitForChildren;

constexpr int kWaitMs = 30;
constexpr int kLongMs = 20'000;

bool IsTooLate(const absl::Status& status) { return absl::IsDeadlineExceeded(status); }

}  // namespace

TEST_CASE("a barrier blocks its waiters until it is opened") {
  const auto client = ConnectTo("/barrier");
  const auto other = ConnectTo("/barrier");
  Barrier barrier(client.get(), "/gate");
  CHECK(barrier.Wait(kLongMs).ok());
  CHECK(barrier.Open().ok());
  REQUIRE(barrier.Close().ok());
  CHECK(barrier.Close().ok());
  CHECK(IsTooLate(barrier.Wait(kWaitMs)));
  CHECK(IsTooLate(Barrier(other.get(), "/gate").Wait(kWaitMs)));
  auto one = Begin([&] { return Barrier(other.get(), "/gate").Wait(); });
  auto two = Begin([&] { return Barrier(client.get(), "/gate").Wait(kLongMs); });
  REQUIRE(barrier.Open().ok());
  CHECK(one.get().ok());
  CHECK(two.get().ok());
}

TEST_CASE("a waiter at a barrier returns an error when its session ends") {
  const auto client = ConnectTo("/barrier-session");
  const auto owner = ConnectTo("/barrier-session");
  REQUIRE(Barrier(owner.get(), "/gate").Close().ok());
  auto waits = Begin([&] { return Barrier(client.get(), "/gate").Wait(); });
  REQUIRE(client->Close().ok());
  CHECK(!waits.get().ok());
}

TEST_CASE("members enter and leave a double barrier together") {
  const auto one = ConnectTo("/double");
  const auto two = ConnectTo("/double");
  DoubleBarrier first(one.get(), "/b", 2);
  DoubleBarrier second(two.get(), "/b", 2);
  CHECK(first.Leave(kLongMs).code() == absl::StatusCode::kFailedPrecondition);
  for (int round = 0; round < 3; ++round) {
    CHECK(IsTooLate(first.Enter(kWaitMs)));
    CHECK(one->List("/b")->children.empty());
    auto enters = Begin([&] { return first.Enter(); });
    REQUIRE(WaitForChildren(two.get(), "/b", 1));
    REQUIRE(second.Enter(kLongMs).ok());
    REQUIRE(enters.get().ok());
    CHECK(first.Enter().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(two->List("/b")->children.size() == 3);
    auto leaves = Begin([&] { return second.Leave(); });
    REQUIRE(WaitForChildren(one.get(), "/b", 2));
    CHECK(leaves.wait_for(std::chrono::milliseconds(0)) == std::future_status::timeout);
    REQUIRE(first.Leave(kLongMs).ok());
    REQUIRE(leaves.get().ok());
    CHECK(one->List("/b")->children.empty());
  }
}

TEST_CASE("a late member enters a double barrier at once, and the others wait for it to leave") {
  const auto one = ConnectTo("/late");
  const auto two = ConnectTo("/late");
  DoubleBarrier first(one.get(), "/b", 1);
  DoubleBarrier late(two.get(), "/b", 1);
  REQUIRE(first.Enter(kLongMs).ok());
  REQUIRE(late.Enter(kLongMs).ok());
  CHECK(IsTooLate(first.Leave(kWaitMs)));
  REQUIRE(late.Leave(kLongMs).ok());
  CHECK(one->List("/b")->children.empty());
}

TEST_CASE("a double barrier in which all members crashed is closed") {
  const auto client = ConnectTo("/stale");
  REQUIRE(client->Create("/b").ok());
  REQUIRE(client->Create("/b/ready").ok());
  DoubleBarrier barrier(client.get(), "/b", 2);
  CHECK(IsTooLate(barrier.Enter(kWaitMs)));
  CHECK(client->List("/b")->children.empty());
}

TEST_CASE("members wait for a crashed member only until its session ends") {
  const auto one = ConnectTo("/crashed");
  auto two = ConnectTo("/crashed");
  DoubleBarrier first(one.get(), "/b", 2);
  auto enters = Begin([&] { return first.Enter(); });
  REQUIRE(DoubleBarrier(two.get(), "/b", 2).Enter(kLongMs).ok());
  REQUIRE(enters.get().ok());
  auto leaves = Begin([&] { return first.Leave(); });
  REQUIRE(WaitForChildren(two.get(), "/b", 2));
  two.reset();
  CHECK(leaves.get().ok());
}

TEST_CASE("a latch opens when its count reaches 0") {
  const auto one = ConnectTo("/latch");
  const auto two = ConnectTo("/latch");
  CountDownLatch latch(one.get(), "/a/latch");
  CHECK(ErrorOf(latch.Wait(kLongMs)) == ErrorCode::kNoNode);
  CHECK(ErrorOf(latch.CountDown().status()) == ErrorCode::kNoNode);
  CHECK(latch.Create(-1).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(*latch.Create(3));
  CHECK_FALSE(*latch.Create(5));
  CHECK(IsTooLate(latch.Wait(kWaitMs)));
  auto waits = Begin([&] { return CountDownLatch(two.get(), "/a/latch").Wait(); });
  CHECK(*latch.CountDown() == 2);
  CHECK(*latch.CountDown("job-1") == 1);
  CHECK(*CountDownLatch(two.get(), "/a/latch").CountDown("job-1") == 1);
  CHECK(waits.wait_for(std::chrono::milliseconds(0)) == std::future_status::timeout);
  CHECK(*latch.CountDown("job-2") == 0);
  CHECK(waits.get().ok());
  CHECK(*latch.CountDown() == 0);
  CHECK(*latch.Count() == 0);
  CHECK(latch.Wait(kLongMs).ok());
  CHECK(latch.Remove().ok());
  CHECK(latch.Remove().ok());
  CHECK(*latch.Create(0));
  CHECK(latch.Wait(kLongMs).ok());
}

TEST_CASE("a latch counts each of many concurrent calls of CountDown once") {
  const auto client = ConnectTo("/latch-many");
  CountDownLatch latch(client.get(), "/latch");
  REQUIRE(*latch.Create(40));
  std::vector<std::future<bool>> threads;
  for (int i = 0; i < 4; ++i) {
    threads.push_back(Begin([&] {
      for (int j = 0; j < 10; ++j) {
        if (!latch.CountDown().ok()) return false;
      }
      return true;
    }));
  }
  CHECK(latch.Wait(kLongMs).ok());
  for (auto& thread : threads) CHECK(thread.get());
  CHECK(*latch.Count() == 0);
}

TEST_CASE("a latch with more names than one call can delete is removed in parts") {
  constexpr int kNames = 10'050, kTogether = 1'500;
  const auto client = ConnectTo("/large-latch");
  const auto other = ConnectTo("/large-latch");
  CountDownLatch latch(client.get(), "/latch");
  CountDownLatch seen(other.get(), "/latch");
  // Remove the latch of the previous section.
  REQUIRE(latch.Remove().ok());
  REQUIRE(*latch.Create(1'000'000));
  for (int i = 0; i < kNames;) {
    Transaction transaction;
    for (int j = 0; j < kTogether && i < kNames; ++j, ++i) {
      transaction.Create("/latch/by-" + std::to_string(i));
    }
    REQUIRE(client->Commit(transaction).ok());
  }
  auto waits = Begin([&] { return seen.Wait(kLongMs); });
  SECTION("at once") { REQUIRE(latch.Remove().ok()); }
  SECTION("by the next user, after the client that was removing it has crashed") {
    REQUIRE(client->Set("/latch", "removed").ok());
    REQUIRE(client->Delete("/latch/by-7").ok());
    CHECK(ErrorOf(seen.CountDown("7").status()) == ErrorCode::kNoNode);
  }
  CHECK(ErrorOf(waits.get()) == ErrorCode::kNoNode);
  REQUIRE(client->Sync().ok());
  CHECK_FALSE(client->Exists("/latch")->has_value());
  // A new latch is not mistaken for the removed one.
  CHECK(*seen.Create(1));
  CHECK(*latch.Count() == 1);
  REQUIRE(client->Set("/latch", "removed").ok());
  CHECK(*seen.Create(3));
  CHECK(*latch.CountDown("7") == 2);
}

}  // namespace quorate
