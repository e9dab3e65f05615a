// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/member_command.h"

#include <catch2/catch.hpp>

namespace quorate::tools {
namespace {

using Kind = MemberChange::Kind;

rpc::ServerLines Three() {
  rpc::ServerLines lines;
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

  rpc::ServerLines observed = Three();
  observed[3].observer = true;
  next = NextStep(replace, *NextStep(replace, observed));
  REQUIRE(next.ok());
  CHECK(next->at(4).observer);
  CHECK_FALSE(next->contains(3));

  replace.id = 9;
  CHECK(absl::IsNotFound(NextStep(replace, Three()).status()));
}

TEST_CASE("the report of a change says its state and the reason") {
  v1::MemberChange change;
  CHECK(ChangeReport(change) ==
        "No change of the members was asked for since this leader leads.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_RUNNING);
  change.set_what("member 3 is removed");
  CHECK(ChangeReport(change) == "Running: member 3 is removed.\n");
  change.set_detail("a majority of the voters has to acknowledge it");
  CHECK(ChangeReport(change) ==
        "Running: member 3 is removed.\nWaits: a majority of the voters has to acknowledge it.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_DONE);
  CHECK(ChangeReport(change) == "Done: member 3 is removed.\n");
  change.set_state(v1::MEMBER_CHANGE_STATE_FAILED);
  change.set_detail("too few voters");
  CHECK(ChangeReport(change) == "Failed: member 3 is removed.\nWhy: too few voters.\n");
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

}  // namespace
}  // namespace quorate::tools
