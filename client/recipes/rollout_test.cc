// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/rollout.h"

#include <atomic>
#include <future>
#include <map>
#include <memory>
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
using testing::WaitForChildren;

using MemberState = RolloutMember::State;
using Happens = RolloutEvent::Type;

constexpr int kLongMs = 20'000;

// Waits until `count` members are in line for a place.
bool WaitForLine(Client* client, size_t count) {
  return WaitForChildren(client, "/r/places/locks", count);
}

// Returns the state of each member in the current rollout; those that have not begun are left out.
std::map<std::string, MemberState> StatesOf(Rollout* rollout) {
  const auto progress = rollout->Progress();
  REQUIRE(progress.ok());
  std::map<std::string, MemberState> states;
  for (const RolloutMember& member : progress->members) {
    if (member.generation == progress->generation) states[member.id] = member.state;
  }
  return states;
}

}  // namespace

TEST_CASE("members do their steps in the order of their arrival, so many at a time, each once") {
  auto client = ConnectTo("/rollout-order");
  Rollout rollout(client.get(), "/r", 2);
  const auto none = rollout.Progress();
  REQUIRE(none.ok());
  CHECK((none->generation == 0 && !none->stopped.has_value() && none->members.empty()));
  CHECK(absl::IsInvalidArgument(rollout.Start(0)));
  CHECK(absl::IsInvalidArgument(rollout.Begin("", 50).status()));
  CHECK(absl::IsInvalidArgument(rollout.Begin("a/b", 50).status()));
  CHECK(absl::IsDeadlineExceeded(rollout.Begin("m1", 50).status()));
  CHECK(rollout.Start(7).ok());
  CHECK(absl::IsAlreadyExists(rollout.Start(7)));
  CHECK(absl::IsFailedPrecondition(rollout.Start(6)));
  auto first = rollout.Begin("m1", kLongMs), second = rollout.Begin("m2", kLongMs);
  REQUIRE((first.ok() && second.ok()));
  CHECK((first->generation() == 7 && first->is_held()));
  Collected<std::string> begun;
  Collected<RolloutStep> steps;
  std::vector<std::future<bool>> members;
  for (int i = 3; i <= 6; ++i) {
    members.push_back(Begin([&, id = "m" + std::to_string(i)] {
      auto step = rollout.Begin(id, kLongMs);
      if (!step.ok()) return false;
      begun.Add(id);
      return step->Done().ok();
    }));
    REQUIRE(WaitForLine(client.get(), static_cast<size_t>(i - 2)));
  }
  CHECK(begun.WaitFor(0).empty());
  CHECK(StatesOf(&rollout) == std::map<std::string, MemberState>{{"m1", MemberState::kRunning},
                                                                 {"m2", MemberState::kRunning}});
  CHECK(first->Done().ok());
  CHECK(!first->is_held());
  CHECK(absl::IsFailedPrecondition(first->Done()));
  CHECK(absl::IsFailedPrecondition(first->Fail("late")));
  CHECK(begun.WaitFor(4) == std::vector<std::string>{"m3", "m4", "m5", "m6"});
  for (auto& each : members) CHECK(each.get());
  CHECK(second->Done().ok());
  std::map<std::string, MemberState> done;
  for (int i = 1; i <= 6; ++i) done["m" + std::to_string(i)] = MemberState::kDone;
  CHECK(StatesOf(&rollout) == done);
  // No member has a second step, until the next rollout.
  CHECK(absl::IsDeadlineExceeded(rollout.Begin("m1", 50).status()));
  auto next = Begin([&] { return rollout.Begin("m1", kLongMs); });
  CHECK(rollout.Start(8).ok());
  auto step = next.get();
  REQUIRE(step.ok());
  CHECK(step->generation() == 8);
  CHECK(StatesOf(&rollout) == std::map<std::string, MemberState>{{"m1", MemberState::kRunning}});
}

TEST_CASE("a member that dies in its step frees its place, and is not done") {
  constexpr int kRounds = 10;
  auto client = ConnectTo("/rollout-dies"), other = ConnectTo("/rollout-dies");
  Collected<RolloutEvent> events;
  Rollout rollout(client.get(), "/r", 1,
                  {.listener = [&](const RolloutEvent& event) { events.Add(event); }});
  Rollout others(other.get(), "/r", 1);
  for (int round = 1; round <= kRounds; ++round) {
    CAPTURE(round);
    REQUIRE(others.Start(round).ok());
    auto step = rollout.Begin("a", kLongMs);
    REQUIRE(step.ok());
    auto waits = Begin([&] { return others.Begin("b", kLongMs); });
    REQUIRE(WaitForLine(other.get(), 1));
    REQUIRE(LoseSession(client.get()) != 0);
    auto next = waits.get();
    REQUIRE(next.ok());
    const auto told = events.WaitFor(static_cast<size_t>(3 * round - 1));
    REQUIRE(told.size() == static_cast<size_t>(3 * round - 1));
    CHECK((told.back().type == Happens::kLost && told.back().member == "a"));
    CHECK(told.back().generation == round);
    CHECK(!step->is_held());
    CHECK(StatesOf(&others) == std::map<std::string, MemberState>{{"a", MemberState::kInterrupted},
                                                                  {"b", MemberState::kRunning}});
    CHECK(absl::IsAborted(round % 2 == 0 ? step->Done() : step->Fail("late")));
    CHECK(StatesOf(&others)["a"] == MemberState::kInterrupted);
    CHECK(next->Done().ok());
    CHECK(!others.Progress()->stopped.has_value());
    // It has another step of the same rollout.
    auto again = rollout.Begin("a", kLongMs);
    REQUIRE(again.ok());
    CHECK(again->generation() == round);
    CHECK(again->Done().ok());
    CHECK(StatesOf(&others)["a"] == MemberState::kDone);
  }
  // A step that is destroyed is not done, either, and the next member has its place.
  REQUIRE(others.Start(kRounds + 1).ok());
  { REQUIRE(rollout.Begin("a", kLongMs).ok()); }
  auto next = others.Begin("b", kLongMs);
  REQUIRE(next.ok());
  CHECK(StatesOf(&others)["a"] == MemberState::kInterrupted);
  // A step that another one is assigned to is destroyed, too.
  REQUIRE(next->Done().ok());
  auto third = others.Begin("c", kLongMs);
  REQUIRE(third.ok());
  *next = *std::move(third);
  CHECK(next->is_held());
  CHECK(next->Done().ok());
  CHECK(StatesOf(&others)["c"] == MemberState::kDone);
}

TEST_CASE("a member that fails stops the rollout, until it is resumed or another one is started") {
  auto client = ConnectTo("/rollout-fails"), other = ConnectTo("/rollout-fails");
  Collected<RolloutEvent> events;
  Rollout rollout(client.get(), "/r", 2);
  Rollout others(other.get(), "/r", 2,
                 {.listener = [&](const RolloutEvent& event) { events.Add(event); }});
  REQUIRE(rollout.Start(1).ok());
  auto first = rollout.Begin("a", kLongMs), second = rollout.Begin("b", kLongMs);
  REQUIRE((first.ok() && second.ok()));
  auto waits = Begin([&] { return others.Begin("c", kLongMs); });
  REQUIRE(WaitForLine(client.get(), 1));
  CHECK(first->Fail(std::string(2000, 'x')).ok());
  const auto told = events.WaitFor(1);
  REQUIRE(told.size() == 1);
  CHECK((told[0].type == Happens::kStopped && told[0].member == "c"));
  CHECK(told[0].reason == "a: " + std::string(1000, 'x'));
  auto progress = rollout.Progress();
  REQUIRE(progress.ok());
  CHECK(progress->stopped == "a: " + std::string(1000, 'x'));
  CHECK(progress->members[0] ==
        RolloutMember{"a", 1, MemberState::kFailed, std::string(1000, 'x')});
  // A step that has begun goes on; it can fail, too.
  CHECK(second->Fail("no disk").ok());
  CHECK(rollout.Progress()->stopped == "a: " + std::string(1000, 'x'));
  CHECK(rollout.Stop("again").ok());
  CHECK(absl::IsDeadlineExceeded(rollout.Begin("d", 50).status()));
  CHECK(events.WaitFor(0).size() == 1);
  CHECK(rollout.Resume().ok());
  CHECK(rollout.Resume().ok());
  auto third = waits.get();
  REQUIRE(third.ok());
  CHECK(third->Done().ok());
  CHECK(events.WaitFor(2).back().type == Happens::kBegun);
  auto again = rollout.Begin("a", kLongMs);
  REQUIRE(again.ok());
  CHECK(again->Done().ok());
  // Stopped by an operator; members that wait have a step of the rollout that is started then.
  CHECK(rollout.Stop("by hand").ok());
  waits = Begin([&] { return others.Begin("e", kLongMs); });
  REQUIRE(events.WaitFor(3).size() == 3);
  CHECK(rollout.Start(2).ok());
  CHECK(!rollout.Progress()->stopped.has_value());
  auto next = waits.get();
  REQUIRE(next.ok());
  CHECK(next->generation() == 2);
  CHECK(next->Done().ok());
}

TEST_CASE("a report that is refused changes nothing, and can be repeated") {
  auto client = ConnectTo("/rollout-refused"), other = ConnectTo("/rollout-refused");
  Rollout rollout(client.get(), "/r", 1), others(other.get(), "/r", 1);
  REQUIRE(rollout.Start(1).ok());
  auto step = rollout.Begin("a", kLongMs);
  REQUIRE(step.ok());
  // Nobody may write the record.
  REQUIRE(
      other->SetAcl("/r/members/a", {{.permissions = kPermissionRead | kPermissionAdmin}}).ok());
  CHECK(ErrorOf(step->Done()) == ErrorCode::kNoAuth);
  CHECK(ErrorOf(step->Fail("no disk")) == ErrorCode::kNoAuth);
  CHECK(step->is_held());
  CHECK(StatesOf(&others) == std::map<std::string, MemberState>{{"a", MemberState::kRunning}});
  CHECK(absl::IsDeadlineExceeded(others.Begin("b", 50).status()));
  CHECK(!others.Progress()->stopped.has_value());
  REQUIRE(other->SetAcl("/r/members/a", {Acl()}).ok());
  CHECK(step->Fail("no disk").ok());
  CHECK(others.Progress()->stopped == "a: no disk");
  CHECK(!step->is_held());
  CHECK(absl::IsFailedPrecondition(step->Done()));
  // Of a step that was moved, nothing is left.
  const RolloutStep moved = *std::move(step);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is tested
  CHECK(absl::IsFailedPrecondition(step->Done()));
}

TEST_CASE("of two processes with the same member, one has the step, and the other waits for it") {
  auto client = ConnectTo("/rollout-twice"), other = ConnectTo("/rollout-twice");
  Rollout rollout(client.get(), "/r", 2), others(other.get(), "/r", 2);
  REQUIRE(rollout.Start(1).ok());
  auto step = rollout.Begin("a", kLongMs);
  REQUIRE(step.ok());
  CHECK(absl::IsDeadlineExceeded(others.Begin("a", 50).status()));
  // It waits for the end of the step with the other place.
  auto waits = Begin([&] { return others.Begin("a", kLongMs); });
  REQUIRE(WaitForChildren(client.get(), "/r/places/leases", 2));
  CHECK(step->Done().ok());
  REQUIRE(WaitForChildren(client.get(), "/r/places/leases", 0));
  REQUIRE(rollout.Start(2).ok());
  auto next = waits.get();
  REQUIRE(next.ok());
  CHECK(next->generation() == 2);
  // The session of a member that has died ends while its next process waits.
  waits = Begin([&] { return rollout.Begin("a", kLongMs); });
  REQUIRE(WaitForChildren(client.get(), "/r/places/leases", 2));
  REQUIRE(LoseSession(other.get()) != 0);
  auto again = waits.get();
  REQUIRE(again.ok());
  CHECK(again->Done().ok());
}

TEST_CASE("Begin returns an error when its session is lost or its client is closed") {
  auto client = ConnectTo("/rollout-closed"), other = ConnectTo("/rollout-closed");
  Rollout rollout(client.get(), "/r", 1), others(other.get(), "/r", 1);
  // In the order of what is awaited: a rollout, a place, the end of a stop.
  std::optional<RolloutStep> held;
  for (int state = 0; state < 3; ++state) {
    CAPTURE(state);
    if (state == 1) {
      REQUIRE(others.Start(1).ok());
      auto step = others.Begin("a", kLongMs);
      REQUIRE(step.ok());
      held = *std::move(step);
    }
    if (state == 2) {
      REQUIRE(others.Stop("by hand").ok());
      REQUIRE(held->Done().ok());
    }
    auto waits = Begin([&] { return rollout.Begin("b").status(); });
    if (state == 1) REQUIRE(WaitForLine(other.get(), 1));
    if (state == 2) REQUIRE(WaitForChildren(other.get(), "/r/places/leases", 1));
    REQUIRE(client->Sync().ok());
    REQUIRE(LoseSession(client.get()) != 0);
    const absl::Status status = waits.get();
    INFO(status.ToString());
    CHECK(IsLost(status));
    testing::WaitForSession(client.get());
  }
  auto waits = Begin([&] { return rollout.Begin("b").status(); });
  REQUIRE(WaitForChildren(other.get(), "/r/places/leases", 1));
  CHECK(client->Close().ok());
  const absl::Status status = waits.get();
  CHECK(!status.ok());
  CHECK(!absl::IsDeadlineExceeded(status));
  CHECK(WaitForChildren(other.get(), "/r/places/leases", 0));
}

TEST_CASE("while sessions are lost, so many members are in their steps, and each is done once") {
  constexpr size_t kAtATime = 2;
  constexpr int kMembers = 5;
  auto observer = ConnectTo("/rollout-many");
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Client*> losers;
  for (int i = 0; i < kMembers; ++i) {
    clients.push_back(ConnectTo("/rollout-many"));
    losers.push_back(clients.back().get());
  }
  Rollout rollout(observer.get(), "/r", kAtATime);
  REQUIRE(rollout.Start(1).ok());
  std::mutex mutex;
  std::map<std::pair<int, int64_t>, int> done, maybe;
  std::atomic<int> wrong{0}, too_many{0};
  std::atomic<bool> is_over{false};
  int64_t generation = 1;
  {
    std::vector<std::future<void>> members;
    members.reserve(kMembers);
    Losses ended(losers, 60, 23);
    for (int i = 0; i < kMembers; ++i) {
      members.push_back(Begin([&, i] {
        Rollout own(losers[static_cast<size_t>(i)], "/r", kAtATime);
        while (!is_over) {
          auto step = own.Begin("m" + std::to_string(i), 200);
          if (!step.ok()) {
            wrong += !IsLost(step.status()) && !absl::IsDeadlineExceeded(step.status());
            continue;
          }
          const int64_t number = step->generation();
          const absl::Status status = step->Done();
          std::lock_guard<std::mutex> lock(mutex);
          if (status.ok()) ++done[{i, number}];
          if (MayBeApplied(status)) ++maybe[{i, number}];
          wrong += !status.ok() && !IsLost(status) && !absl::IsAborted(status);
        }
      }));
    }
    const auto all_done = [&] {
      size_t count = 0;
      for (const auto& [id, state] : StatesOf(&rollout)) count += state == MemberState::kDone;
      return count == kMembers;
    };
    while (!ended.is_over() || !all_done()) {
      const auto steps = observer->List("/r/steps", {.linearizable = true});
      too_many += steps.ok() && steps->children.size() > kAtATime;
      wrong += !steps.ok();
      if (!ended.is_over() && all_done()) wrong += !rollout.Start(++generation).ok();
    }
    is_over = true;
    for (auto& each : members) each.wait();
  }
  CHECK(wrong == 0);
  CHECK(too_many == 0);
  for (const auto& [step, count] : done) CHECK(count == 1);
  for (int i = 0; i < kMembers; ++i) {
    for (int64_t number = 1; number <= generation; ++number) {
      CHECK(done.count({i, number}) + maybe.count({i, number}) >= 1);
    }
  }
}

}  // namespace quorate
