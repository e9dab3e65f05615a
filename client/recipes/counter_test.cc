// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/counter.h"

#include <limits>
#include <vector>

#include "client/recipes/recipes_test.h"

namespace quorate {
namespace {

using testing::ConnectTo;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

TEST_CASE("a counter begins at 0, and Add, Set and CompareAndSet change it") {
  const auto client = ConnectTo("/counter-basic");
  Counter counter(client.get(), "/a/count");
  CHECK(*counter.Get() == 0);
  CHECK(*counter.Add(5) == 5);
  CHECK(*counter.Add(-7) == -2);
  CHECK(client->Get("/a/count")->data == std::string("\xff\xff\xff\xff\xff\xff\xff\xfe", 8));
  CHECK_FALSE(*counter.CompareAndSet(3, 4));
  CHECK(*counter.CompareAndSet(-2, 4));
  CHECK(*counter.Get() == 4);
  REQUIRE(counter.Set(kMax).ok());
  CHECK(counter.Add(1).status().code() == absl::StatusCode::kOutOfRange);
  CHECK(*counter.Get() == kMax);
}

TEST_CASE("CompareAndSet and Set create a counter that does not exist") {
  const auto client = ConnectTo("/counter-made");
  CHECK_FALSE(*Counter(client.get(), "/c").CompareAndSet(1, 2));
  CHECK(*Counter(client.get(), "/c").CompareAndSet(0, 2));
  CHECK(*Counter(client.get(), "/c").Get() == 2);
  REQUIRE(Counter(client.get(), "/d").Set(3).ok());
  CHECK(*Counter(client.get(), "/d").Add(1) == 4);
  REQUIRE(client->Create("/e", "").ok());
  CHECK(*Counter(client.get(), "/e").Add(1) == 1);
}

TEST_CASE("a 4-byte counter refuses larger numbers, and a counter data of another size") {
  const auto client = ConnectTo("/counter-narrow");
  Counter narrow(client.get(), "/c", Counter::Width::k32Bits);
  CHECK(*narrow.Add(258) == 258);
  CHECK(client->Get("/c")->data == std::string("\0\0\1\2", 4));
  CHECK(narrow.Add(int64_t{1} << 31).status().code() == absl::StatusCode::kOutOfRange);
  CHECK(narrow.Set(int64_t{1} << 31).code() == absl::StatusCode::kOutOfRange);
  CHECK(*narrow.Get() == 258);
  const absl::Status status = Counter(client.get(), "/c").Get().status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(status.message()).find("8 bytes") != std::string::npos);
}

TEST_CASE("many clients add at the same time, and each sum is returned once") {
  constexpr int kThreads = 8, kEach = 25;
  const auto one = ConnectTo("/counter-many");
  const auto other = ConnectTo("/counter-many");
  std::vector<std::future<std::vector<int64_t>>> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(testing::Begin([client = i % 2 == 0 ? one.get() : other.get()] {
      Counter counter(client, "/c");
      std::vector<int64_t> sums;
      for (int j = 0; j < kEach; ++j) sums.push_back(counter.Add(1).value_or(-1));
      return sums;
    }));
  }
  std::vector<bool> seen(kThreads * kEach + 1);
  for (auto& thread : threads) {
    for (const int64_t sum : thread.get()) {
      REQUIRE(sum >= 1);
      REQUIRE(sum <= kThreads * kEach);
      CHECK_FALSE(seen[static_cast<size_t>(sum)]);
      seen[static_cast<size_t>(sum)] = true;
    }
  }
  CHECK(*Counter(one.get(), "/c").Get() == kThreads * kEach);
}

}  // namespace quorate
