// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/leased_queue.h"

#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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
using testing::WaitForSession;

constexpr int kLongMs = 20'000;

}  // namespace

TEST_CASE("items are taken in order, and stay until they are acknowledged") {
  auto client = ConnectTo("/leased-order");
  LeasedQueue queue(client.get(), "/queue");
  CHECK(!queue.Poll()->has_value());
  CHECK(absl::IsDeadlineExceeded(queue.Take(50).status()));
  CHECK(*queue.Size() == 0);
  for (const char* data : {"a", "b", "c"}) REQUIRE(queue.Offer(data).ok());
  auto first = queue.Take(kLongMs), second = queue.Take(kLongMs);
  REQUIRE((first.ok() && second.ok()));
  CHECK(first->data() == "a");
  CHECK(second->data() == "b");
  CHECK(*queue.Size() == 3);
  CHECK(first->is_held());
  CHECK(first->Acknowledge().ok());
  CHECK(!first->is_held());
  CHECK(absl::IsFailedPrecondition(first->Acknowledge()));
  CHECK(absl::IsFailedPrecondition(first->Return()));
  CHECK(*queue.Size() == 2);
  // An item that is given back is the first again.
  CHECK(second->Return().ok());
  auto again = queue.Poll();
  REQUIRE((again.ok() && again->has_value()));
  CHECK((*again)->data() == "b");
  // A LeasedItem gives its item back when it is destroyed or assigned.
  *again = std::nullopt;
  auto last = queue.Take(kLongMs);
  REQUIRE(last.ok());
  CHECK(last->data() == "b");
  auto third = queue.Take(kLongMs);
  REQUIRE(third.ok());
  *last = *std::move(third);
  CHECK(last->data() == "c");
  CHECK(queue.Take(kLongMs)->data() == "b");
  CHECK(last->Acknowledge().ok());
}

TEST_CASE("the item of a consumer that dies comes back, and only one consumer acknowledges it") {
  constexpr int kRounds = 40;
  auto client = ConnectTo("/leased-lost"), other = ConnectTo("/leased-lost");
  Collected<std::string> lost;
  LeasedQueue queue(client.get(), "/queue",
                    {.on_lost = [&](const std::string& n) { lost.Add(n); }});
  LeasedQueue others(other.get(), "/queue");
  for (size_t round = 1; round <= kRounds; ++round) {
    CAPTURE(round);
    REQUIRE(queue.Offer(std::to_string(round)).ok());
    auto item = queue.Take(kLongMs);
    REQUIRE(item.ok());
    auto waits = Begin([&] { return others.Take(kLongMs); });
    REQUIRE(testing::WaitForChildren(other.get(), "/queue-line", 1));
    REQUIRE(LoseSession(client.get()) != 0);
    auto taken = waits.get();
    REQUIRE(taken.ok());
    CHECK(taken->data() == std::to_string(round));
    REQUIRE(lost.WaitFor(round).size() == round);
    CHECK(lost.WaitFor(0).back() == item->node());
    CHECK(!item->is_held());
    CHECK(absl::IsAborted(item->Acknowledge()));
    CHECK(taken->Acknowledge().ok());
  }
  CHECK(*queue.Size() == 0);
}

TEST_CASE("consumers wait in line, and a returned item goes to the first of them") {
  auto client = ConnectTo("/leased-line");
  LeasedQueue queue(client.get(), "/queue");
  REQUIRE(queue.Offer("a").ok());
  auto item = queue.Take(kLongMs);
  REQUIRE(item.ok());
  Collected<int> order;
  std::vector<std::future<void>> waits;
  for (int i = 1; i <= 3; ++i) {
    waits.push_back(Begin([&, i] {
      auto taken = queue.Take(kLongMs);
      if (taken.ok() && taken->data() == "a") order.Add(i);
      // Given back by the destructor, after the line has moved up.
    }));
    REQUIRE(testing::WaitForChildren(client.get(), "/queue-line", static_cast<size_t>(i)));
  }
  CHECK(order.WaitFor(0).empty());
  REQUIRE(item->Return().ok());
  CHECK(order.WaitFor(3) == std::vector<int>{1, 2, 3});
}

TEST_CASE("each item is acknowledged once while sessions are lost, and none is lost") {
  auto producer = ConnectTo("/leased-many"), consumer = ConnectTo("/leased-many"),
       observer = ConnectTo("/leased-many");
  std::mutex mutex;
  std::map<std::string, int> added, acknowledged, maybe;
  std::atomic<int> wrong{0};
  const auto work = [&](LeasedItem item) {
    const absl::Status status = item.Acknowledge();
    std::lock_guard<std::mutex> lock(mutex);
    if (status.ok()) ++acknowledged[item.data()];
    if (MayBeApplied(status)) ++maybe[item.data()];
    if (!status.ok() && !IsLost(status) && !absl::IsAborted(status)) ++wrong;
  };
  {
    Losses ended({producer.get(), consumer.get()}, 100, 17);
    std::vector<std::future<void>> workers;
    workers.push_back(Begin([&] {
      LeasedQueue queue(producer.get(), "/queue");
      for (int i = 0; i < 300 && !ended.is_over(); ++i) {
        const absl::Status status = queue.Offer(std::to_string(i));
        std::lock_guard<std::mutex> lock(mutex);
        if (status.ok()) ++added[std::to_string(i)];
        if (!status.ok() && !IsLost(status)) ++wrong;
      }
    }));
    for (int i = 0; i < 2; ++i) {
      workers.push_back(Begin([&] {
        LeasedQueue queue(consumer.get(), "/queue");
        while (!ended.is_over()) {
          auto item = queue.Take(200);
          if (item.ok()) work(*std::move(item));
          if (!item.ok() && !IsLost(item.status()) && !absl::IsDeadlineExceeded(item.status())) {
            ++wrong;
          }
        }
      }));
    }
    for (auto& each : workers) each.wait();
  }
  // Leases that destructors have given back may still be ending.
  WaitForSession(producer.get());
  WaitForSession(consumer.get());
  LeasedQueue rest(observer.get(), "/queue");
  for (auto item = rest.Poll(); item.ok() && item->has_value(); item = rest.Poll()) {
    work(**std::move(item));
  }
  CHECK(wrong == 0);
  CHECK(*rest.Size() == 0);
  for (const auto& [data, count] : acknowledged) CHECK(count == 1);
  int missing = 0;
  for (const auto& [data, count] : added)
    missing += acknowledged.count(data) + maybe.count(data) == 0;
  CHECK(missing == 0);
  CHECK(added.size() > 20);
}

}  // namespace quorate
