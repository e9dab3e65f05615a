// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/member_change.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::rpc {
namespace {

using Kind = MemberChange::Kind;

ServerLines Three() {
  ServerLines lines;
  for (uint32_t id = 1; id <= 3; ++id) {
    lines[id].host = "host" + std::to_string(id);
    lines[id].peer_port = 2888;
    lines[id].election_port = 3888;
    lines[id].client_port = 2181;
  }
  return lines;
}

TEST_CASE("a new member gets its vote in a second step") {
  const MemberChange add{Kind::kAdd, 4, "host4:2888:3888;2181"};
  auto next = NextStep(add, Three());
  REQUIRE(next.ok());
  REQUIRE(next->size() == 4);
  CHECK(next->at(4).observer);
  next = NextStep(add, *next);
  REQUIRE(next.ok());
  CHECK_FALSE(next->at(4).observer);
  CHECK(*NextStep(add, *next) == *next);
}

TEST_CASE("a new member takes the place of another one in the step that gives it its vote") {
  MemberChange replace{Kind::kReplace, 3, "host4:2888:3888;2181"};
  replace.new_id = 4;
  auto next = NextStep(replace, Three());
  REQUIRE(next.ok());
  REQUIRE(next->size() == 4);
  CHECK(next->at(4).observer);
  next = NextStep(replace, *next);
  REQUIRE(next.ok());
  CHECK(next->size() == 3);
  CHECK_FALSE(next->contains(3));
  CHECK_FALSE(next->at(4).observer);
  CHECK(*NextStep(replace, *next) == *next);

  ServerLines observed = Three();
  observed[3].observer = true;
  CHECK(absl::IsInvalidArgument(NextStep(replace, observed).status()));
  MemberChange replace_observer = replace;
  replace_observer.server_line = "host4:2888:3888:observer;2181";
  CHECK(absl::IsInvalidArgument(NextStep(replace_observer, Three()).status()));
  next = NextStep(replace_observer, *NextStep(replace_observer, observed));
  REQUIRE(next.ok());
  CHECK(next->at(4).observer);
  CHECK_FALSE(next->contains(3));
  CHECK(*NextStep(replace_observer, *next) == *next);

  replace.id = 9;
  CHECK(absl::IsNotFound(NextStep(replace, Three()).status()));
}

TEST_CASE("a member that has a vote of its own replaces nobody") {
  MemberChange replace{Kind::kReplace, 3, "host4:2888:3888;2181"};
  replace.new_id = 4;
  ServerLines four = Three();
  four[4] = *ParseServerLine("host4:2888:3888;2181");
  CHECK(absl::IsAlreadyExists(NextStep(replace, four).status()));
  four[4].observer = true;
  four[4].host = "elsewhere";
  CHECK(absl::IsAlreadyExists(NextStep(replace, four).status()));
}

TEST_CASE("a replacement gets its vote although the other member was removed meanwhile") {
  MemberChange replace{Kind::kReplace, 3, "host4:2888:3888;2181"};
  replace.new_id = 4;
  ServerLines now = Three();
  now.erase(3);
  now[4] = *ParseServerLine("host4:2888:3888:observer;2181");
  const auto next = NextStep(replace, now);
  REQUIRE(next.ok());
  CHECK_FALSE(next->at(4).observer);
  replace.server_line = "other:2888:3888;2181";
  CHECK(absl::IsAlreadyExists(NextStep(replace, now).status()));
}

TEST_CASE("an observer stays one, until it is promoted") {
  const auto next = NextStep({Kind::kAdd, 4, "host4:2888:3888:observer;2181"}, Three());
  REQUIRE(next.ok());
  CHECK(next->at(4).observer);
  CHECK(*NextStep({Kind::kAdd, 4, "host4:2888:3888:observer;2181"}, *next) == *next);
  const auto promoted = NextStep({Kind::kPromote, 4, ""}, *next);
  REQUIRE(promoted.ok());
  CHECK_FALSE(promoted->at(4).observer);
  CHECK(*NextStep({Kind::kDemote, 4, ""}, *promoted) == *next);
}

TEST_CASE("a number that is taken is not given to another address") {
  const auto next = NextStep({Kind::kAdd, 3, "other:2888:3888;2181"}, Three());
  CHECK(absl::IsAlreadyExists(next.status()));
  const auto moved = NextStep({Kind::kMove, 3, "other:2888:3888;2181"}, Three());
  REQUIRE(moved.ok());
  CHECK(moved->at(3).host == "other");
  CHECK_FALSE(moved->at(3).observer);
}

TEST_CASE("adding a voter as an observer does not take its vote") {
  CHECK(absl::IsAlreadyExists(
      NextStep({Kind::kAdd, 3, "host3:2888:3888:observer;2181"}, Three()).status()));
}

TEST_CASE("what is not there cannot be changed, and may be removed again") {
  CHECK(absl::IsNotFound(NextStep({Kind::kPromote, 9, ""}, Three()).status()));
  CHECK(absl::IsNotFound(NextStep({Kind::kMove, 9, "a:1:2"}, Three()).status()));
  CHECK(*NextStep({Kind::kRemove, 9, ""}, Three()) == Three());
  const auto next = NextStep({Kind::kRemove, 2, ""}, Three());
  REQUIRE(next.ok());
  CHECK(next->count(2) == 0);
  CHECK(absl::IsInvalidArgument(NextStep({Kind::kAdd, 9, "nonsense"}, Three()).status()));
}

// Three voters, of which 1 leads and those in `ready` are up to date.
ClusterView View(const std::vector<uint32_t>& ready) {
  ClusterView view;
  view.self = view.leader = consensus::MemberId(1);
  view.is_leader = true;
  for (const auto& [id, line] : Three()) {
    const bool is_ready = std::find(ready.begin(), ready.end(), id) != ready.end();
    ClusterView::Member& member = view.members.emplace_back();
    member.id = consensus::MemberId(id);
    member.reachable = is_ready && id != 1;
    member.in_sync = is_ready;
    member.addresses = line;
  }
  return view;
}

TEST_CASE("a change keeps a majority that is up to date, and the leader its vote") {
  const auto reason = [](const ClusterView& view, const MemberChange& change) {
    return ReasonNotToChange(view, *NextStep(change, *LinesOf(view)));
  };
  const ClusterView all = View({1, 2, 3});
  CHECK(reason(all, {Kind::kRemove, 3}).empty());
  CHECK(reason(all, {Kind::kDemote, 2}).empty());
  CHECK(reason(all, {Kind::kAdd, 4, "host4:2888:3888;2181"}).empty());
  for (const Kind kind : {Kind::kRemove, Kind::kDemote}) {
    CHECK_THAT(reason(all, {kind, 1}), Catch::Contains("member 1 leads"));
  }
  const ClusterView two = View({1, 2});
  CHECK(reason(two, {Kind::kRemove, 3}).empty());
  CHECK_THAT(reason(two, {Kind::kRemove, 2}), Catch::Contains("1 of 2 voters"));
  CHECK_THAT(reason(two, {Kind::kDemote, 2}), Catch::Contains("1 of 2 voters"));
  // An observer does not count, and of four voters three have to be ready.
  ClusterView four = View({1, 2});
  ClusterView::Member& observer = four.members.emplace_back();
  observer.id = consensus::MemberId(4);
  observer.observer = observer.reachable = true;
  observer.addresses = *ParseServerLine("host4:2888:3888;2181");
  CHECK_THAT(reason(four, {Kind::kPromote, 4}), Catch::Contains("2 of 4 voters"));
  observer.in_sync = true;
  CHECK(reason(four, {Kind::kPromote, 4}).empty());
}

TEST_CASE("members whose addresses are not known cannot be changed") {
  ClusterView view = View({1, 2, 3});
  view.members[1].observer = true;
  CHECK(LinesOf(view)->at(2).observer);
  view.members[1].addresses.reset();
  CHECK(absl::IsFailedPrecondition(LinesOf(view).status()));
}

}  // namespace
}  // namespace quorate::rpc
