// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "client/recipes/atomic_value.h"
#include "client/recipes/session_loss_test.h"
#include "client/recipes/shared_value.h"
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

// Returns a change that appends `text`.
auto Appending(std::string text) {
  return [text = std::move(text)](std::string_view before) -> absl::StatusOr<std::string> {
    return std::string(before) + text;
  };
}

}  // namespace

TEST_CASE("an atomic value begins empty, and is changed only as long as it is what was read") {
  const auto client = ConnectTo("/value-basic");
  AtomicValue value(client.get(), "/a/value");
  const VersionedValue none = *value.Get();
  CHECK(none.data.empty());
  CHECK_FALSE(none.stat.has_value());
  const auto first = *value.TrySet(none, "one");
  REQUIRE(first.has_value());
  CHECK_FALSE(value.TrySet(none, "other")->has_value());
  CHECK(value.TrySet(*first, "two")->has_value());
  CHECK_FALSE(value.TrySet(*first, "three")->has_value());
  CHECK(value.Get()->data == "two");
  CHECK_FALSE(*value.CompareAndSet("one", "four"));
  CHECK(*value.CompareAndSet("two", "four"));
  CHECK(value.Update(Appending("+"))->data == "four+");
  CHECK(value.Set("five")->stat->version == 4);
  CHECK(*value.Get() == *value.Get({}));
  CHECK(client->Get("/a/value")->data == "five");
}

TEST_CASE("Set, Update and CompareAndSet create a value that does not exist") {
  const auto client = ConnectTo("/value-made");
  CHECK(AtomicValue(client.get(), "/b/set").Set("x")->data == "x");
  CHECK(AtomicValue(client.get(), "/b/update").Update(Appending("y"))->data == "y");
  CHECK_FALSE(*AtomicValue(client.get(), "/b/swap").CompareAndSet("z", "zz"));
  CHECK(*AtomicValue(client.get(), "/b/swap").CompareAndSet("", "z"));
  CHECK(client->List("/b")->children == std::vector<std::string>{"set", "swap", "update"});
}

TEST_CASE("an update whose function returns an error for the newest value changes nothing") {
  const auto client = ConnectTo("/value-error");
  AtomicValue value(client.get(), "/v");
  REQUIRE(value.Set("kept").ok());
  int calls = 0;
  const absl::Status status = value
                                  .Update([&](std::string_view) -> absl::StatusOr<std::string> {
                                    ++calls;
                                    return absl::OutOfRangeError("no more");
                                  })
                                  .status();
  CHECK(absl::IsOutOfRange(status));
  CHECK(calls == 2);  // for a value that may be stale, and for the newest
  CHECK(value.Get()->stat->version == 0);
}

TEST_CASE("many clients update a value at the same time, and no update is lost") {
  constexpr size_t kThreads = 6, kEach = 20;
  const auto one = ConnectTo("/value-many"), other = ConnectTo("/value-many");
  std::vector<std::future<bool>> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.push_back(Begin([client = i % 2 == 0 ? one.get() : other.get()] {
      AtomicValue value(client, "/v");
      bool all = true;
      for (size_t j = 0; j < kEach; ++j) all = value.Update(Appending("x")).ok() && all;
      return all;
    }));
  }
  for (auto& thread : threads) CHECK(thread.get());
  CHECK(AtomicValue(one.get(), "/v").Get()->data == std::string(kThreads * kEach, 'x'));
}

TEST_CASE("updates are made once, or not at all, while sessions are lost") {
  const auto client = ConnectTo("/value-lost"), observer = ConnectTo("/value-lost");
  AtomicValue value(client.get(), "/v");
  size_t made = 0, unknown = 0;
  {
    Losses ended({client.get()}, 60, 11);
    while (!ended.is_over()) {
      const absl::Status status = value.Update(Appending("x")).status();
      if (status.ok()) {
        ++made;
      } else {
        CHECK(IsLost(status));
        if (MayBeApplied(status)) ++unknown;
      }
    }
  }
  const size_t size = AtomicValue(observer.get(), "/v").Get()->data.size();
  CHECK(made > 0);
  CHECK(size >= made);
  CHECK(size <= made + unknown);
}

TEST_CASE("a shared value has the seed of the first client, and follows the changes of each") {
  const auto one = ConnectTo("/shared-basic"), other = ConnectTo("/shared-basic");
  Collected<VersionedValue> told;
  const auto first = *SharedValue::Start(one.get(), "/s/value", "seed",
                                         [&](const VersionedValue& value) { told.Add(value); });
  const auto second = *SharedValue::Start(other.get(), "/s/value", "another seed");
  CHECK(first->Get().data == "seed");
  CHECK(second->Get() == first->Get());
  REQUIRE(told.WaitFor(1).size() == 1);
  REQUIRE(second->Set("set").ok());
  REQUIRE(told.WaitFor(2).size() == 2);
  CHECK(told.WaitFor(2)[1].data == "set");
  CHECK(first->Get() == told.WaitFor(2)[1]);
  CHECK(*first->TrySet(first->Get(), "tried"));
  CHECK_FALSE(*first->TrySet(told.WaitFor(2)[1], "too late"));
  REQUIRE(second->WaitUntilCurrent().ok());
  CHECK(second->Get().data == "tried");
}

TEST_CASE("a shared value whose znode is deleted is empty, until it is set again") {
  const auto client = ConnectTo("/shared-deleted");
  Collected<VersionedValue> told;
  const auto shared = *SharedValue::Start(client.get(), "/s", "seed",
                                          [&](const VersionedValue& value) { told.Add(value); });
  REQUIRE(client->Delete("/s").ok());
  REQUIRE(told.WaitFor(2).size() == 2);
  CHECK(told.WaitFor(2)[1] == VersionedValue{});
  CHECK(shared->Get() == VersionedValue{});
  CHECK(*shared->TrySet(shared->Get(), "again"));
  REQUIRE(told.WaitFor(3).size() == 3);
  CHECK(shared->Get().data == "again");
}

TEST_CASE("a shared value follows in each next session") {
  const auto client = ConnectTo("/shared-lost"), other = ConnectTo("/shared-lost");
  Collected<std::string> told;
  const auto shared = *SharedValue::Start(
      client.get(), "/s", "0", [&](const VersionedValue& value) { told.Add(value.data); });
  std::vector<std::string> expected{"0"};
  REQUIRE(told.WaitFor(1) == expected);
  for (int round = 1; round <= 20; ++round) {
    CAPTURE(round);
    REQUIRE(LoseSession(client.get()) != 0);
    CHECK(shared->status().ok());
    expected.push_back("other " + std::to_string(round));
    REQUIRE(other->Set("/s", expected.back()).ok());
    REQUIRE(told.WaitFor(expected.size()) == expected);
    WaitForSession(client.get());
    expected.push_back("own " + std::to_string(round));
    REQUIRE(shared->Set(expected.back()).ok());
    REQUIRE(told.WaitFor(expected.size()) == expected);
  }
}

TEST_CASE("a shared value says why it no longer follows, and keeps its value") {
  const auto client = ConnectTo("/shared-closed");
  const auto shared = *SharedValue::Start(client.get(), "/s", "seed");
  REQUIRE(client->Close().ok());
  CHECK_FALSE(shared->Set("x").ok());
  CHECK_FALSE(shared->WaitUntilCurrent().ok());
  CHECK_FALSE(shared->status().ok());
  CHECK(shared->Get().data == "seed");
}

}  // namespace quorate
