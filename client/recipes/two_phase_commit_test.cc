// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/two_phase_commit.h"

#include "client/recipes/recipes_test.h"

namespace quorate {
namespace {

using testing::Begin;
using testing::ConnectTo;

constexpr int kWaitMs = 30;
constexpr int kLongMs = 20'000;

}  // namespace

TEST_CASE("if all participants vote yes, the decision is commit") {
  const auto client = ConnectTo("/2pc");
  const auto other = ConnectTo("/2pc");
  auto coordinator = TwoPhaseCoordinator::Begin(client.get(), "/t/1", {"a", "b"}, "do it");
  REQUIRE(coordinator.ok());
  CHECK(ErrorOf(TwoPhaseCoordinator::Begin(client.get(), "/t/1", {"a"}, "").status()) ==
        ErrorCode::kNodeExists);
  CHECK(TwoPhaseCoordinator::Begin(client.get(), "/t/2", {}, "").status().code() ==
        absl::StatusCode::kInvalidArgument);
  TwoPhaseParticipant a(client.get(), "/t/1", "a");
  TwoPhaseParticipant b(other.get(), "/t/1", "b");
  CHECK(*b.Request() == "do it");
  CHECK(a.Acknowledge().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(coordinator->Finish(kLongMs).code() == absl::StatusCode::kFailedPrecondition);
  auto decides = Begin([&] { return coordinator->Decide(kLongMs); });
  auto waits =
      Begin([&] { return TwoPhaseParticipant(other.get(), "/t/1", "a").WaitForDecision(); });
  CHECK(*a.Vote(true));
  CHECK(*a.Vote(false));  // the first vote counts
  CHECK(absl::IsDeadlineExceeded(a.WaitForDecision(kWaitMs).status()));
  CHECK(absl::IsDeadlineExceeded(a.WaitForDecision(kWaitMs).status()));
  CHECK(*b.Vote(true));
  CHECK(*decides.get() == Decision::kCommit);
  CHECK(*waits.get() == Decision::kCommit);
  REQUIRE(a.Acknowledge().ok());
  REQUIRE(a.Acknowledge().ok());
  CHECK(absl::IsDeadlineExceeded(coordinator->Finish(kWaitMs)));
  auto finishes = Begin([&] { return coordinator->Finish(); });
  CHECK(*b.WaitForDecision() == Decision::kCommit);
  REQUIRE(b.Acknowledge().ok());
  CHECK(finishes.get().ok());
  CHECK(ErrorOf(b.WaitForDecision().status()) == ErrorCode::kNoNode);
  CHECK(b.Acknowledge().ok());
  CHECK_FALSE(client->Exists("/t/1")->has_value());
}

TEST_CASE("if one participant votes no, the decision is abort") {
  const auto client = ConnectTo("/2pc-no");
  auto coordinator = TwoPhaseCoordinator::Begin(client.get(), "/t", {"a", "b", "c"}, "");
  REQUIRE(coordinator.ok());
  TwoPhaseParticipant a(client.get(), "/t", "a");
  TwoPhaseParticipant b(client.get(), "/t", "b");
  TwoPhaseParticipant c(client.get(), "/t", "c");
  CHECK(*a.Vote(true));
  CHECK_FALSE(*b.Vote(false));
  CHECK_FALSE(*b.Vote(true));
  CHECK(absl::IsAborted(c.Vote(true).status()));
  CHECK(*coordinator->Decide() == Decision::kAbort);
  for (TwoPhaseParticipant* each : {&a, &b, &c}) {
    CHECK(*each->WaitForDecision() == Decision::kAbort);
    CHECK(each->Acknowledge().ok());
  }
  CHECK(coordinator->Finish(kLongMs).ok());
  CHECK(coordinator->Finish(kLongMs).ok());
  CHECK(ErrorOf(TwoPhaseParticipant(client.get(), "/t", "a").Vote(true).status()) ==
        ErrorCode::kNoNode);
}

TEST_CASE("if a participant does not vote in time, the decision is abort") {
  const auto client = ConnectTo("/2pc-late");
  auto coordinator = TwoPhaseCoordinator::Begin(client.get(), "/t", {"a", "b"}, "");
  REQUIRE(coordinator.ok());
  TwoPhaseParticipant a(client.get(), "/t", "a");
  CHECK(*a.Vote(true));
  CHECK(*coordinator->Decide(kWaitMs) == Decision::kAbort);
  CHECK(absl::IsAborted(TwoPhaseParticipant(client.get(), "/t", "b").Vote(true).status()));
  CHECK(*a.WaitForDecision() == Decision::kAbort);
  // A client that takes the coordinator's place gets the decision without waiting.
  auto resumed = TwoPhaseCoordinator::Resume(client.get(), "/t");
  REQUIRE(resumed.ok());
  CHECK(*resumed->Decide() == Decision::kAbort);
  CHECK(ErrorOf(TwoPhaseCoordinator::Resume(client.get(), "/none").status()) == ErrorCode::kNoNode);
}

TEST_CASE("the last yes vote decides without a coordinator") {
  const auto client = ConnectTo("/2pc-alone");
  REQUIRE(TwoPhaseCoordinator::Begin(client.get(), "/t", {"a", "b"}, "").ok());
  CHECK(*TwoPhaseParticipant(client.get(), "/t", "b").Vote(true));
  CHECK(*TwoPhaseParticipant(client.get(), "/t", "a").Vote(true));
  CHECK(*TwoPhaseParticipant(client.get(), "/t", "b").WaitForDecision(kLongMs) ==
        Decision::kCommit);
}

}  // namespace quorate
