// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/reaper.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/recipes/session_loss_test.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;
using testing::IsLost;
using testing::Losses;
using testing::WaitForChildren;

constexpr int64_t kHourMs = 3'600'000;

// The time that the test sets.
struct Clock {
  std::atomic<int64_t> now_ms{1000};
  std::function<int64_t()> function() {
    return [this] { return now_ms.load(); };
  }
};

bool Exists(Client* client, const std::string& path) {
  const auto stat = client->Exists(path, {.linearizable = true});
  REQUIRE(stat.ok());
  return stat->has_value();
}

}  // namespace

TEST_CASE("a child is removed once it has been empty for long enough, and no other znode is") {
  auto client = ConnectTo("/reaper-time"), other = ConnectTo("/reaper-time");
  Clock clock;
  Reaper reaper(client.get(), "/locks", {.empty_for_ms = kHourMs, .now_ms = clock.function()});
  CHECK(*reaper.Reap() == 0);  // there is no parent
  REQUIRE(other->Create("/locks/empty", "", {.create_parents = true}).ok());
  REQUIRE(other->Create("/locks/used/child", "", {.create_parents = true}).ok());
  REQUIRE(other->Create("/locks/data", "x").ok());
  REQUIRE(other->Create("/locks/ephemeral", "", {.mode = CreateMode::kEphemeral}).ok());
  CHECK(*reaper.Reap() == 0);
  clock.now_ms += kHourMs - 1;
  CHECK(*reaper.Reap() == 0);
  CHECK(Exists(other.get(), "/locks/empty"));
  REQUIRE(other->Create("/locks/late").ok());
  CHECK(*reaper.Reap() == 0);
  clock.now_ms += 1;
  CHECK(*reaper.Reap() == 1);
  CHECK(other->List("/locks")->children ==
        std::vector<std::string>{"data", "ephemeral", "late", "used"});
  clock.now_ms += kHourMs;
  CHECK(*reaper.Reap() == 1);
  CHECK(!Exists(other.get(), "/locks/late"));
  CHECK(*reaper.Reap() == 0);
  // Another reaper also removes those with data, and never an ephemeral one.
  Reaper all(client.get(), "/locks",
             {.empty_for_ms = 0, .removes_data = true, .now_ms = clock.function()});
  CHECK(*all.Reap() == 0);
  CHECK(*all.Reap() == 1);
  CHECK(*all.Reap() == 0);
  CHECK(other->List("/locks")->children == std::vector<std::string>{"ephemeral", "used"});
  CHECK(Exists(other.get(), "/locks"));
}

TEST_CASE("a child that was used or created again between two looks is not removed") {
  auto client = ConnectTo("/reaper-used"), other = ConnectTo("/reaper-used");
  Clock clock;
  REQUIRE(other->Create("/p").ok());
  for (const char* path : {"/p/used", "/p/again", "/p/set", "/p/same"}) {
    REQUIRE(other->Create(path).ok());
  }
  Reaper reaper(client.get(), "/p", {.empty_for_ms = kHourMs, .now_ms = clock.function()});
  CHECK(*reaper.Reap() == 0);
  clock.now_ms += kHourMs;
  // All are empty at each look.
  REQUIRE(other->Create("/p/used/child").ok());
  REQUIRE(other->Delete("/p/used/child").ok());
  REQUIRE(other->Delete("/p/again").ok());
  REQUIRE(other->Create("/p/again").ok());
  REQUIRE(other->Set("/p/set", "").ok());
  CHECK(*reaper.Reap() == 1);
  CHECK(other->List("/p")->children == std::vector<std::string>{"again", "set", "used"});
  // Their time begins again.
  clock.now_ms += kHourMs - 1;
  CHECK(*reaper.Reap() == 0);
  clock.now_ms += 1;
  CHECK(*reaper.Reap() == 3);
}

TEST_CASE("a child that changes after the last look is not removed") {
  auto client = ConnectTo("/reaper-race"), other = ConnectTo("/reaper-race");
  REQUIRE(other->Create("/p").ok());
  const auto reset = [&] {
    REQUIRE(other->RemoveRecursive("/p/child").ok());
    REQUIRE(other->Create("/p/child").ok());
  };
  const std::vector<std::function<void()>> changes = {
      [&] { REQUIRE(other->Create("/p/child/one").ok()); },
      [&] {
        REQUIRE(other->Create("/p/child/one").ok());
        REQUIRE(other->Delete("/p/child/one").ok());
      },
      [&] {
        REQUIRE(other->Delete("/p/child").ok());
        REQUIRE(other->Create("/p/child").ok());
      },
      [&] { REQUIRE(other->Set("/p/child", "").ok()); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    reset();
    // The clock is read twice in each call, the second time after the look.
    int reads = 0;
    Reaper reaper(client.get(), "/p", {.empty_for_ms = 0, .now_ms = [&] {
                                         if (++reads == 4) changes[i]();
                                         return int64_t{reads};
                                       }});
    CHECK(*reaper.Reap() == 0);
    CHECK(*reaper.Reap() == 0);
    CHECK(reads == 4);
    CHECK(Exists(other.get(), "/p/child"));
  }
  // A child that is deleted after the last look is not counted.
  reset();
  int reads = 0;
  Reaper reaper(client.get(), "/p", {.empty_for_ms = 0, .now_ms = [&] {
                                       if (++reads == 4) REQUIRE(other->Delete("/p/child").ok());
                                       return int64_t{reads};
                                     }});
  CHECK(*reaper.Reap() == 0);
  CHECK(*reaper.Reap() == 0);
}

TEST_CASE("a reaper remembers so many children, skips those that it may not remove, and ends") {
  auto client = ConnectTo("/reaper-many"), other = ConnectTo("/reaper-many");
  constexpr int kChildren = 10;
  REQUIRE(other->Create("/p").ok());
  for (int i = 0; i < kChildren; ++i) REQUIRE(other->Create("/p/" + std::to_string(i)).ok());
  Reaper reaper(client.get(), "/p", {.empty_for_ms = 0, .remembered_max = 4});
  int removed = 0;
  // Four at each second look, at most.
  for (int looks = 1; looks <= 6; ++looks) {
    const int now = *reaper.Reap();
    CHECK(now <= 4);
    removed += now;
    CHECK(other->List("/p", {.linearizable = true})->children.size() ==
          static_cast<size_t>(kChildren - removed));
  }
  CHECK(removed == kChildren);
  REQUIRE(client->Close().ok());
  CHECK(!reaper.Reap().ok());
}

TEST_CASE("a child that is being used is never removed, while sessions are lost") {
  auto client = ConnectTo("/reaper-lost"), user = ConnectTo("/reaper-lost"),
       observer = ConnectTo("/reaper-lost");
  REQUIRE(observer->Create("/p").ok());
  std::atomic<int> removed{0}, wrong{0}, gone{0};
  std::atomic<int> created{0};
  std::atomic<bool> is_done{false};
  bool is_removed = true;
  {
    Losses ended({client.get()}, 60, 41);
    auto reaps = Begin([&] {
      Reaper reaper(client.get(), "/p", {.empty_for_ms = 0});
      while (!is_done) {
        const absl::StatusOr<int> now = reaper.Reap();
        if (now.ok()) removed += *now;
        wrong += !now.ok() && !IsLost(now.status());
      }
    });
    for (int round = 1; !ended.is_over(); ++round) {
      // Often enough, the child is left empty until it is removed.
      if (round % 16 == 0) is_removed = WaitForChildren(user.get(), "/p", 0) && is_removed;
      const absl::Status status =
          user->Create("/p/child/one", "", {.create_parents = true}).status();
      // The reaper may have removed the parent between its creation and that of the child.
      if (!status.ok()) {
        wrong += ErrorOf(status) != ErrorCode::kNoNode;
        continue;
      }
      ++created;
      gone += !user->Delete("/p/child/one").ok();
    }
    is_done = true;
    reaps.wait();
  }
  CHECK(is_removed);
  CHECK(removed > 0);
  CHECK(wrong == 0);
  CHECK(gone == 0);
  CHECK(created > 0);
}

}  // namespace quorate
