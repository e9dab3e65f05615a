// SPDX-License-Identifier: Apache-2.0

// Tests Queue, PriorityQueue and DelayedQueue.

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "client/recipes/delayed_queue.h"
#include "client/recipes/id_queue.h"
#include "client/recipes/priority_queue.h"
#include "client/recipes/queue.h"
#include "client/recipes/recipes_test.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;
using testing::Servers;
using testing::WaitForChildren;

constexpr int kWaitMs = 30;
constexpr int kLongMs = 20'000;

}  // namespace

TEST_CASE("a queue returns its items in order, each once") {
  const auto client = ConnectTo("/queue");
  Queue queue(client.get(), "/a/q");
  CHECK_FALSE(queue.Poll()->has_value());
  CHECK_FALSE(queue.Peek()->has_value());
  CHECK(absl::IsNotFound(queue.Element().status()));
  CHECK(absl::IsNotFound(queue.Remove().status()));
  CHECK(absl::IsDeadlineExceeded(queue.Take(kWaitMs).status()));
  CHECK(absl::IsDeadlineExceeded(queue.Take(kWaitMs).status()));
  CHECK(client->List("/a/q-line")->children.empty());
  for (const char* item : {"one", "two", "three", ""}) REQUIRE(queue.Offer(item).ok());
  REQUIRE(client->Create("/a/q/foreign").ok());
  CHECK(*queue.Size() == 4);
  CHECK(queue.Peek()->value() == "one");
  CHECK(*queue.Element() == "one");
  CHECK(queue.Poll()->value() == "one");
  CHECK(*queue.Remove() == "two");
  CHECK(*queue.Take() == "three");
  CHECK(queue.Take()->empty());
  CHECK_FALSE(queue.Poll()->has_value());
}

TEST_CASE("the names and data of the znodes are those of Curator's queues") {
  const auto client = ConnectTo("/queue-layout");
  REQUIRE(Queue(client.get(), "/q").Offer("ab").ok());
  const std::string framed(
      "\0\1\0\1"
      "\1"
      "\0\0\0\2"
      "ab"
      "\2",
      12);
  CHECK(client->Get("/q/queue-0000000000")->data == framed);
  REQUIRE(Queue(client.get(), "/s", Queue::Layout::kSimple).Offer("ab").ok());
  CHECK(client->Get("/s/qn-0000000000")->data == "ab");
  REQUIRE(PriorityQueue(client.get(), "/p").Offer("", 26).ok());
  REQUIRE(PriorityQueue(client.get(), "/p").Offer("", -1).ok());
  CHECK(client->List("/p")->children ==
        std::vector<std::string>{"queue-0FFFFFFFF0000000001", "queue-10000001A0000000000"});
  REQUIRE(DelayedQueue(client.get(), "/d").Offer("", 0x18ABCDEF012).ok());
  CHECK(client->List("/d")->children == std::vector<std::string>{"queue-|18ABCDEF012|0000000000"});
}

TEST_CASE("a znode with several items returns one at a time, and a damaged one is an error") {
  const auto client = ConnectTo("/queue-frames");
  const std::string several(
      "\0\1\0\1"
      "\1\0\0\0\1a"
      "\1\0\0\0\1b"
      "\1\0\0\0\1c"
      "\2",
      23);
  REQUIRE(client->Create("/q").ok());
  REQUIRE(client->Create("/q/queue-0000000000", several).ok());
  Queue queue(client.get(), "/q");
  REQUIRE(queue.Offer("d").ok());
  CHECK(queue.Peek()->value() == "a");
  CHECK(*queue.Remove() == "a");
  CHECK(*Queue(client.get(), "/q").Remove() == "b");
  CHECK(*queue.Remove() == "c");
  CHECK(*queue.Remove() == "d");
  CHECK(absl::IsNotFound(queue.Remove().status()));
  // Data that is cut at any place leads to an error that names the znode.
  for (size_t size = 0; size < several.size(); ++size) {
    REQUIRE(client->Create("/q/queue-0000000009", several.substr(0, size)).ok());
    const absl::Status status = queue.Poll().status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(std::string(status.message()).find("/q/queue-0000000009") != std::string::npos);
    CHECK(queue.Peek().status().code() == absl::StatusCode::kFailedPrecondition);
    REQUIRE(client->Delete("/q/queue-0000000009").ok());
  }
}

TEST_CASE("consumers wait in line, and are served in its order") {
  const auto producer = ConnectTo("/queue-line");
  Queue queue(producer.get(), "/q");
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::future<absl::StatusOr<std::string>>> takers;
  for (size_t i = 0; i < 4; ++i) {
    clients.push_back(ConnectTo("/queue-line"));
    takers.push_back(
        Begin([client = clients.back().get()] { return Queue(client, "/q").Take(kLongMs); }));
    REQUIRE(WaitForChildren(producer.get(), "/q-line", i + 1));
  }
  // A waiting consumer in the middle of the line is closed.
  REQUIRE(clients[2]->Close().ok());
  CHECK(!takers[2].get().ok());
  for (const size_t i : {0, 1, 3}) {
    REQUIRE(queue.Offer(std::to_string(i)).ok());
    CHECK(*takers[i].get() == std::to_string(i));
  }
  REQUIRE(WaitForChildren(producer.get(), "/q-line", 0));
}

TEST_CASE("a consumer that gave up has no znode in line, whenever that was created") {
  constexpr int kOutageMs = 300;
  const auto client = ConnectTo("/queue-gave-up", {.default_deadline_ms = kOutageMs});
  const auto witness = ConnectTo("/queue-gave-up");
  REQUIRE(witness->Create("/q-line").ok());
  REQUIRE(DelayedQueue(witness.get(), "/q").Offer("later", 2'000).ok());
  // Take reads the clock after it lists the items, and before it gets in line.
  std::atomic<bool> pauses{true};
  DelayedQueue queue(client.get(), "/q", [&] {
    if (pauses.exchange(false)) Servers().Pause(1);
    return int64_t{1'000};
  });
  CHECK(absl::IsDeadlineExceeded(queue.Take(kOutageMs).status()));
  CHECK_FALSE(pauses);
  Servers().Resume(1);
  // After this Sync the creation of the znode in line has been executed, if it was sent.
  REQUIRE(client->Sync({.deadline_ms = kLongMs}).ok());
  CHECK(WaitForChildren(witness.get(), "/q-line", 0));
}

TEST_CASE("many consumers take the items of many producers, each once") {
  constexpr int kProducers = 3, kConsumers = 4, kEach = 40;
  const auto one = ConnectTo("/queue-many");
  const auto two = ConnectTo("/queue-many");
  std::vector<std::future<bool>> producers;
  producers.reserve(kProducers);
  for (int p = 0; p < kProducers; ++p) {
    producers.push_back(Begin([&, p] {
      Queue queue(one.get(), "/q");
      for (int i = 0; i < kEach; ++i) {
        if (!queue.Offer(std::to_string(p * kEach + i)).ok()) return false;
      }
      return true;
    }));
  }
  std::atomic<int> left{kProducers * kEach};
  std::vector<std::future<std::vector<std::string>>> consumers;
  consumers.reserve(kConsumers);
  for (int c = 0; c < kConsumers; ++c) {
    consumers.push_back(Begin([&, c] {
      Queue queue(c % 2 == 0 ? one.get() : two.get(), "/q");
      std::vector<std::string> items;
      while (left.fetch_sub(1) > 0) items.push_back(queue.Take(kLongMs).value_or("failed"));
      return items;
    }));
  }
  for (auto& producer : producers) CHECK(producer.get());
  std::multiset<std::string> taken;
  for (auto& consumer : consumers) {
    for (std::string& item : consumer.get()) taken.insert(std::move(item));
  }
  std::multiset<std::string> offered;
  for (int i = 0; i < kProducers * kEach; ++i) offered.insert(std::to_string(i));
  CHECK(taken == offered);
}

TEST_CASE("a queue with ids returns its items in order, and removes those with an id") {
  const auto client = ConnectTo("/queue-ids");
  IdQueue queue(client.get(), "/q");
  CHECK(*queue.RemoveAll("a") == 0);
  for (const char* item : {"a/1", "b|1", "a/1", "b", "c"}) REQUIRE(queue.Offer(item, item).ok());
  CHECK(client->List("/q")->children.front() == "queue-|a_1|0000000000");
  CHECK(queue.Offer("x", "").code() == absl::StatusCode::kInvalidArgument);
  CHECK(queue.RemoveAll("").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(*queue.Count("a/1") == 2);
  CHECK(*queue.Count("b") == 1);
  CHECK(*queue.Count("1") == 0);
  // In the order of their creation, not in that of their ids.
  CHECK(*queue.Take() == "a/1");
  CHECK(*queue.RemoveAll("a/1") == 1);
  CHECK(*queue.RemoveAll("b") == 1);
  CHECK(*queue.Take() == "b|1");
  CHECK(*queue.Take() == "c");
  CHECK(*queue.Size() == 0);
}

TEST_CASE("an item with an id is either taken or removed") {
  constexpr int kItems = 200;
  const auto client = ConnectTo("/queue-ids-race"), other = ConnectTo("/queue-ids-race");
  IdQueue offers(client.get(), "/q");
  for (int i = 0; i < kItems; ++i) REQUIRE(offers.Offer("item", i % 2 == 0 ? "even" : "odd").ok());
  auto removed = Begin([&] {
    int64_t count = 0;
    for (const char* id : {"odd", "even"})
      count += IdQueue(other.get(), "/q").RemoveAll(id).value_or(0);
    return count;
  });
  int64_t taken = 0;
  IdQueue takes(client.get(), "/q");
  for (;;) {
    const auto item = takes.Poll();
    REQUIRE(item.ok());
    if (!item->has_value()) break;
    ++taken;
  }
  CHECK(taken + removed.get() == kItems);
}

TEST_CASE("a priority queue returns the most urgent item first") {
  const auto client = ConnectTo("/priority");
  PriorityQueue queue(client.get(), "/q");
  REQUIRE(queue.Offer("later", 5).ok());
  REQUIRE(queue.Offer("last", 2147483647).ok());
  REQUIRE(queue.Offer("sooner", -3).ok());
  REQUIRE(queue.Offer("first", -2147483647 - 1).ok());
  REQUIRE(queue.Offer("later too", 5).ok());
  REQUIRE(client->Create("/q/queue-1").ok());
  CHECK(*queue.Remove() == "first");
  REQUIRE(queue.Offer("now", -4).ok());
  for (const char* item : {"now", "sooner", "later", "later too", "last"}) {
    CHECK(*queue.Take(kLongMs) == item);
  }
  CHECK_FALSE(queue.Poll()->has_value());
}

TEST_CASE("a delayed queue returns no item before its due time") {
  const auto client = ConnectTo("/delayed");
  std::atomic<int64_t> now_ms{1'000};
  DelayedQueue queue(client.get(), "/q", [&] { return now_ms.load(); });
  CHECK(queue.Offer("", 0).code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(queue.Offer("b", 3'000).ok());
  REQUIRE(queue.Offer("a", 2'000).ok());
  CHECK(*queue.Size() == 2);
  CHECK_FALSE(queue.Poll()->has_value());
  CHECK_FALSE(queue.Peek()->has_value());
  CHECK(absl::IsDeadlineExceeded(queue.Take(kWaitMs).status()));
  now_ms = 2'000;
  CHECK(*queue.Take() == "a");
  CHECK(absl::IsDeadlineExceeded(queue.Take(kWaitMs).status()));
  // An item that is added while a consumer waits, and is due earlier, wakes the consumer.
  auto takes =
      Begin([&] { return DelayedQueue(client.get(), "/q", [&] { return now_ms.load(); }).Take(); });
  REQUIRE(WaitForChildren(client.get(), "/q-line", 1));
  REQUIRE(queue.Offer("c", 1'500).ok());
  CHECK(*takes.get() == "c");
}

TEST_CASE("a consumer that waits at a delayed queue wakes up when an item is due") {
  const auto client = ConnectTo("/delayed-wait");
  DelayedQueue queue(client.get(), "/q");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t due_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count() + 2 * kWaitMs;
  REQUIRE(queue.Offer("a", due_ms).ok());
  CHECK(*queue.Take(kLongMs) == "a");
}

}  // namespace quorate
