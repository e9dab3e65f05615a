// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/feed_plan.h"

#include <catch2/catch.hpp>
#include <vector>

namespace quorate::consensus {
namespace {

constexpr MemberId kA{2}, kB{3}, kObserver{4}, kOther{5};

void Tick(FeedPlan* plan, int ticks) {
  for (; ticks > 0; --ticks) plan->Tick();
}

TEST_CASE("a follower is ready for a time after each report") {
  FeedPlan plan;
  CHECK_FALSE(plan.IsReady(kA, 10));
  plan.Reported(kA);
  Tick(&plan, 9);
  CHECK(plan.IsReady(kA, 10));
  plan.Tick();
  CHECK_FALSE(plan.IsReady(kA, 10));
  plan.Reported(kA);
  CHECK(plan.IsReady(kA, 10));
}

TEST_CASE("an observer that is not reported after it was assigned is silent sooner") {
  FeedPlan plan;
  CHECK_FALSE(plan.IsSilent(kObserver, 4, 10));
  for (int i = 0; i < 2; ++i) {
    plan.Assign(kObserver, kA);
    Tick(&plan, 3);
    CHECK_FALSE(plan.IsSilent(kObserver, 4, 10));
    plan.Tick();
    CHECK(plan.IsSilent(kObserver, 4, 10));
    plan.ObserverReported(kObserver, Index{7});
    Tick(&plan, 9);
    CHECK_FALSE(plan.IsSilent(kObserver, 4, 10));
    plan.Tick();
    CHECK(plan.IsSilent(kObserver, 4, 10));
    plan.Hold(kObserver, 0);
  }
}

TEST_CASE("an observer is in sync if it has what was committed two heartbeat intervals earlier") {
  FeedPlan plan;
  plan.Assign(kObserver, kA);
  CHECK_FALSE(plan.IsInSync(kObserver));
  plan.ObserverReported(kObserver, Index{100});
  CHECK_FALSE(plan.IsInSync(kObserver));  // nothing is known yet of what was committed
  for (uint64_t commit : {10, 20, 30, 40}) plan.IntervalBegins(Index{commit});
  plan.ObserverReported(kObserver, Index{19});
  CHECK_FALSE(plan.IsInSync(kObserver));
  plan.ObserverReported(kObserver, Index{20});
  CHECK(plan.IsInSync(kObserver));
  plan.IntervalBegins(Index{50});
  CHECK(plan.IsInSync(kObserver));
  plan.ObserverReported(kObserver, Index{29});
  CHECK_FALSE(plan.IsInSync(kObserver));
  plan.ObserverReported(kObserver, Index{30});
  CHECK(plan.IsInSync(kObserver));
  SECTION("its directory is replaced") { plan.ForgetMatch(kObserver); }
  SECTION("it gets another feeder") {
    plan.Hold(kObserver, 0);
    plan.Assign(kObserver, kB);
  }
  CHECK_FALSE(plan.IsInSync(kObserver));
}

TEST_CASE("observers are spread over the followers that are ready") {
  FeedPlan plan;
  CHECK(plan.Choose(kObserver, {kA, kB}) == kA);
  plan.Assign(kObserver, kA);
  CHECK(plan.Choose(kOther, {kA, kB}) == kB);
  plan.Assign(kOther, kB);
  CHECK(plan.FeederOf(kOther) == kB);
  CHECK(plan.FedBy(kA) == std::vector{kObserver});
  CHECK(plan.FedBy(kNoMember).empty());
}

TEST_CASE("an observer that failed waits, longer each time, and avoids the feeder that failed") {
  FeedPlan plan;
  int waits[3] = {};
  for (int& ticks : waits) {
    plan.Assign(kObserver, kA);
    plan.ObserverReported(kObserver, Index{7});
    CHECK(plan.MatchOf(kObserver) == Index{7});
    Tick(&plan, 9);
    CHECK_FALSE(plan.IsSilent(kObserver, 10, 10));
    plan.Tick();
    CHECK(plan.IsSilent(kObserver, 10, 10));
    plan.Failed(kObserver, 10);
    CHECK(plan.FeederOf(kObserver) == kNoMember);
    CHECK(plan.Choose(kObserver, {kA, kB}) == kB);
    CHECK(plan.Choose(kObserver, {kA}) == kA);
    for (; !plan.MayAssign(kObserver); ++ticks) plan.Tick();
  }
  CHECK(waits[0] == 10);
  CHECK(waits[1] == 20);
  CHECK(waits[2] == 40);
  // Fed for long, the failures are forgotten.
  plan.Assign(kObserver, kA);
  Tick(&plan, 5000);
  plan.Failed(kObserver, 10);
  int ticks = 0;
  for (; !plan.MayAssign(kObserver); ++ticks) plan.Tick();
  CHECK(ticks == 10);
}

TEST_CASE("an observer that is held stays with the leader for that time") {
  FeedPlan plan;
  plan.Assign(kObserver, kA);
  plan.Hold(kObserver, 5);
  CHECK(plan.FeederOf(kObserver) == kNoMember);
  Tick(&plan, 4);
  CHECK_FALSE(plan.MayAssign(kObserver));
  plan.Tick();
  CHECK(plan.MayAssign(kObserver));
  plan.Assign(kObserver, kB);
  plan.ObserverReported(kObserver, Index{9});
  plan.ForgetMatch(kObserver);
  CHECK(plan.MatchOf(kObserver) == Index{0});
}

}  // namespace
}  // namespace quorate::consensus
