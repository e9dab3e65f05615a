// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_settings.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::consensus {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kB{2};
constexpr MemberId kC{3};
constexpr MemberId kD{4};

Membership Voters(std::vector<MemberId> voters) { return {std::move(voters), {}, {}, {}}; }

Entry MembershipEntry(uint64_t index, const Membership& membership) {
  return {Index{index}, Term{1}, EntryKind::kMembership, Slice(EncodeMembership(membership))};
}

Entry VersionEntry(uint64_t index, uint32_t version) {
  return {Index{index}, Term{1}, EntryKind::kVersion, Slice(EncodeVersion(version))};
}

SnapshotMeta Checkpoint(uint64_t index, const Membership& membership, uint32_t version) {
  return {Index{index}, Term{1}, membership, version, {}};
}

TEST_CASE("a setting is in effect from its entry on, and until the entry is truncated") {
  LogSettings settings({}, Voters({kA, kB, kC}), {});
  settings.TakeMembershipChange();
  settings.Follow(MembershipEntry(4, Voters({kA, kB, kD})));
  settings.Follow(VersionEntry(6, 5));
  CHECK(settings.membership() == Voters({kA, kB, kD}));
  CHECK(settings.membership_index() == Index{4});
  CHECK(settings.version() == 5);
  CHECK(settings.VersionAt(Index{5}) == kVersionBase);
  CHECK(settings.TakeMembershipChange());
  CHECK_FALSE(settings.TakeMembershipChange());
  settings.TruncateAfter(Index{4});
  CHECK(settings.version() == kVersionBase);
  CHECK_FALSE(settings.membership_changed());
  settings.TruncateAfter(Index{3});
  CHECK(settings.membership() == Voters({kA, kB, kC}));
  CHECK(settings.TakeMembershipChange());
}

TEST_CASE("a version never decreases") {
  LogSettings settings({}, Voters({kA}), {VersionEntry(2, 5), VersionEntry(3, 4)});
  CHECK(settings.version() == 5);
}

TEST_CASE("what a checkpoint includes is not taken from the log again") {
  const auto checkpoint = Checkpoint(7, Voters({kA, kB}), 3);
  LogSettings settings(checkpoint, Voters({kD}),
                       {MembershipEntry(5, Voters({kC})), VersionEntry(6, 2), VersionEntry(8, 4)});
  CHECK(settings.membership() == Voters({kA, kB}));
  CHECK(settings.VersionAt(Index{7}) == 3);
  CHECK(settings.version() == 4);
  CHECK(settings.membership_changed());
}

TEST_CASE("a member whose removal is not committed may still be elected, and is not removed") {
  LogSettings settings({}, Voters({kA, kB, kC}), {});
  CHECK_FALSE(settings.IsRemoved(Index{0}, kD));  // it is about to join
  settings.Follow(MembershipEntry(4, Voters({kA, kB})));
  CHECK(settings.IsVoterFrom(Index{3}, kC));
  CHECK_FALSE(settings.IsRemoved(Index{3}, kC));
  CHECK_FALSE(settings.IsVoterFrom(Index{4}, kC));
  CHECK(settings.IsRemoved(Index{4}, kC));
  settings.CompactTo(Index{4});
  CHECK(settings.IsRemoved(Index{4}, kC));
  CHECK(settings.IsVoterFrom(Index{4}, kB));
}

TEST_CASE("entries from one that needs a newer program on are not understood") {
  LogSettings settings({}, Voters({kA}), {VersionEntry(3, 4), VersionEntry(6, 5)});
  CHECK(settings.LastUnderstoodBy(5, Index{9}) == Index{9});
  CHECK(settings.LastUnderstoodBy(4, Index{9}) == Index{5});
  CHECK(settings.LastUnderstoodBy(3, Index{9}) == Index{2});
}

TEST_CASE("a membership comes from the configuration until the log or a checkpoint sets it") {
  LogSettings settings({}, Voters({kA, kB}), {});
  CHECK(settings.MembershipIsConfigured());
  settings.Follow(MembershipEntry(3, Voters({kA, kB})));
  CHECK_FALSE(settings.MembershipIsConfigured());
  // An old checkpoint does not tell where its membership comes from; an entry before it does.
  const auto old = Checkpoint(7, Voters({kA, kB}), kVersionMembershipInLog - 1);
  CHECK(LogSettings(old, Voters({kA}), {}).MembershipIsConfigured());
  CHECK_FALSE(LogSettings(old, Voters({kA}), {MembershipEntry(5, Voters({kA, kB}))})
                  .MembershipIsConfigured());
  settings.Reset(old);
  CHECK(settings.MembershipIsConfigured());
  settings.Reset(Checkpoint(9, Voters({kA, kB}), kVersionMembershipInLog));
  CHECK_FALSE(settings.MembershipIsConfigured());
  Membership joint = JoinMemberships(Voters({kA}), Voters({kB}));
  settings.Reset(Checkpoint(9, joint, kVersionMembershipInLog - 1));
  CHECK_FALSE(settings.MembershipIsConfigured());
}

TEST_CASE("a member that was started with other members is known until it agrees") {
  LogSettings settings({}, Voters({kA, kB}), {});
  CHECK(settings.Differing() == nullptr);
  CHECK_FALSE(settings.RecordConfigured(kB, Voters({kA, kB})));
  CHECK(settings.RecordConfigured(kB, Voters({kB, kC})));
  REQUIRE(settings.Differing() != nullptr);
  CHECK(settings.Differing()->first == kB);
  CHECK(settings.Differing()->second == Voters({kB, kC}));
  CHECK_FALSE(settings.RecordConfigured(kB, Voters({kA, kB})));
  CHECK(settings.Differing() == nullptr);
  CHECK(settings.RecordConfigured(kB, Voters({kB, kC})));
  settings.Follow(MembershipEntry(3, Voters({kA, kB})));  // the log decides
  CHECK(settings.Differing() == nullptr);
}

}  // namespace
}  // namespace quorate::consensus
