// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/membership.h"

#include <catch2/catch.hpp>
#include <string>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

std::vector<MemberId> Ids(std::initializer_list<uint32_t> ids) {
  std::vector<MemberId> members;
  for (uint32_t id : ids) members.emplace_back(id);
  return members;
}

Membership Sample() {
  return {Ids({1, 2, 254}), Ids({3}), Ids({2, 3, 4}), {{MemberId{2}, "two:1"}, {MemberId{4}, ""}}};
}

TEST_CASE("a membership is decoded as it was encoded, and malformed bytes are refused") {
  const std::string bytes = EncodeMembership(Sample());
  REQUIRE(DecodeMembership(bytes).ok());
  CHECK(*DecodeMembership(bytes) == Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(DecodeMembership(bytes.substr(0, size)).ok());
  }
  CHECK_FALSE(DecodeMembership(bytes + '\0').ok());
  TestRandom random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string changed = bytes;
    changed[random.Below(changed.size())] = static_cast<char>(random.Below(256));
    const auto decoded = DecodeMembership(changed);
    if (decoded.ok()) CHECK(EncodeMembership(*decoded) == changed);
  }
}

TEST_CASE("an invalid membership is refused, and the error names the field") {
  using Catch::Matchers::Contains;
  auto message = [](auto change) {
    Membership membership = Sample();
    change(&membership);
    return std::string(ValidateMembership(membership).message());
  };
  CHECK(ValidateMembership(Sample()).ok());
  CHECK_THAT(message([](Membership* m) { m->voters.clear(); }), Contains("voters"));
  CHECK_THAT(message([](Membership* m) { m->voters = Ids({2, 2}); }), Contains("voters"));
  CHECK_THAT(message([](Membership* m) { m->voters = Ids({0}); }), Contains("voters"));
  CHECK_THAT(message([](Membership* m) { m->learners = Ids({2}); }), Contains("learners"));
  CHECK_THAT(message([](Membership* m) { m->outgoing = Ids({255}); }), Contains("outgoing"));
  CHECK_THAT(message([](Membership* m) { m->addresses.emplace(MemberId{9}, "a"); }),
             Contains("addresses"));
}

TEST_CASE("a joint membership keeps the addresses of members that leave") {
  const Membership from{
      Ids({1, 2, 3}), Ids({4}), {}, {{MemberId{1}, "old"}, {MemberId{3}, "three"}}};
  const Membership target{Ids({1, 2, 4}), Ids({3}), {}, {{MemberId{1}, "new"}}};
  const Membership joint = JoinMemberships(from, target);
  CHECK(joint.voters == target.voters);
  CHECK(joint.outgoing == from.voters);
  CHECK(joint.learners == target.learners);
  CHECK(joint.addresses.at(MemberId{1}) == "new");
  CHECK(joint.addresses.at(MemberId{3}) == "three");
  CHECK(ValidateMembership(joint).ok());
  const Membership final = LeaveJoint(joint);
  CHECK(final.voters == target.voters);
  CHECK_FALSE(final.joint());
  CHECK(ValidateMembership(final).ok());
}

TEST_CASE("Follow computes the metadata of a checkpoint from the entries") {
  SnapshotMeta meta;
  Follow({Index{1}, Term{1}, EntryKind::kNoOp, {}}, &meta);
  Follow({Index{2}, Term{3}, EntryKind::kVersion, Slice(EncodeVersion(2))}, &meta);
  Follow({Index{3}, Term{3}, EntryKind::kMembership, Slice(EncodeMembership(Sample()))}, &meta);
  Follow({Index{4}, Term{4}, EntryKind::kCommand, Slice("x")}, &meta);
  CHECK(meta == SnapshotMeta{Index{4}, Term{4}, Sample(), 2});
}

TEST_CASE("a setting history returns the newest value at each index") {
  SettingHistory<uint32_t> history(Index{0}, 1);
  history.Append(Index{5}, 2);
  history.Append(Index{8}, 3);
  CHECK(history.At(Index{4}) == 1);
  CHECK(history.At(Index{5}) == 2);
  CHECK(history.At(Index{100}) == 3);
  history.TruncateAfter(Index{7});
  CHECK(history.newest() == 2);
  history.Append(Index{8}, 4);
  history.CompactTo(Index{6});
  CHECK(history.settings().size() == 2);
  CHECK(history.At(Index{6}) == 2);
  history.CompactTo(Index{9});
  history.TruncateAfter(Index{0});
  CHECK(history.newest() == 4);
}

}  // namespace
}  // namespace quorate::consensus
