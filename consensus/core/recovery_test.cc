// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/recovery.h"

#include <catch2/catch.hpp>

#include "consensus/core/peers.h"

namespace quorate::consensus {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kB{2};
constexpr Term kTerm{3};
constexpr int kElectionTicks = 10;
constexpr int kHeartbeatTicks = 2;

using Members = Recovery::Members;

TEST_CASE("the members that have not answered are asked once in a heartbeat interval") {
  Recovery recovery;
  CHECK_FALSE(recovery.Tick(kElectionTicks, kHeartbeatTicks));
  CHECK(recovery.Tick(kElectionTicks, kHeartbeatTicks));
  CHECK(recovery.TakeMembersToAsk({kA, kB}, /*has_epoch=*/false) == Members{kA, kB});
  CHECK_FALSE(recovery.Tick(kElectionTicks, kHeartbeatTicks));
  recovery.RecordKnown(kA, 5);
  CHECK(recovery.TakeMembersToAsk({kA, kB}, false) == Members{kB});
  // The members have to record the epoch that is chosen then.
  CHECK(recovery.TakeMembersToAsk({kA, kB}, /*has_epoch=*/true) == Members{kA, kB});
  recovery.RecordAcknowledged(kB);
  CHECK(recovery.TakeMembersToAsk({kA, kB}, true) == Members{kA});
}

TEST_CASE("the epoch is greater than those that are known, and than those of earlier terms") {
  Recovery recovery;
  CHECK_FALSE(recovery.AllHaveAnswered({kA}));
  recovery.RecordKnown(kA, 5);
  CHECK(recovery.AllHaveAnswered({kA}));
  CHECK_FALSE(recovery.AllHaveAnswered({kA, kB}));
  CHECK(recovery.ChooseEpoch(kTerm) == FirstDirectoryEpochOf(kTerm));
  const uint64_t later = FirstDirectoryEpochOf(kTerm) + 7;
  recovery.RecordKnown(kB, later);
  recovery.RecordAcknowledged(kA);
  CHECK(recovery.ChooseEpoch(kTerm) == later + 1);
  CHECK_FALSE(recovery.HasAcknowledged(kA));  // of the epoch before
}

TEST_CASE("the read index counts if the leader that was asked answers in the same term") {
  Recovery recovery;
  recovery.RecordAcknowledged(kA);
  CHECK(recovery.AllHaveAcknowledged({kA}));
  recovery.BeginRead(77, kA, kTerm);
  CHECK(recovery.is_reading());
  CHECK_FALSE(recovery.RecordRead(76, kA, kTerm, Index{9}));
  CHECK(recovery.RecordRead(77, kB, kTerm, Index{9}));
  CHECK(recovery.RecordRead(77, kA, kTerm + 1, Index{9}));
  CHECK_FALSE(recovery.read_index());
  CHECK(recovery.RecordRead(77, kA, kTerm, Index{9}));
  CHECK(recovery.read_index() == Index{9});
  recovery.KeepReadOf(kA, kTerm, {kA});
  CHECK(recovery.read_index() == Index{9});
}

TEST_CASE("the read index is forgotten with its leader, its term or who had acknowledged") {
  const auto leader = GENERATE(as<MemberId>{}, kA, kB);
  const auto term = GENERATE(as<Term>{}, kTerm, kTerm + 1);
  const auto needed = GENERATE(Members{kA}, Members{kA, kB});
  Recovery recovery;
  recovery.RecordAcknowledged(kA);
  recovery.BeginRead(77, kA, kTerm);
  recovery.RecordAcknowledged(kB);  // after the request
  recovery.RecordRead(77, kA, kTerm, Index{9});
  recovery.KeepReadOf(leader, term, needed);
  const bool is_kept = leader == kA && term == kTerm && needed == Members{kA};
  CHECK(recovery.read_index().has_value() == is_kept);
  CHECK(recovery.is_reading() == is_kept);
}

TEST_CASE("a read index that does not come is asked for again after an election timeout") {
  Recovery recovery;
  recovery.RecordAcknowledged(kA);
  recovery.BeginRead(77, kA, kTerm);
  for (int i = 1; i < kElectionTicks; ++i) recovery.Tick(kElectionTicks, kHeartbeatTicks);
  CHECK(recovery.is_reading());
  recovery.Tick(kElectionTicks, kHeartbeatTicks);
  CHECK_FALSE(recovery.is_reading());
}

}  // namespace
}  // namespace quorate::consensus
