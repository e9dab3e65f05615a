// SPDX-License-Identifier: Apache-2.0

#include "tools/administration/rolling_restart.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::tools {
namespace {

void AddMember(v1::MembersResponse* members, uint32_t id, v1::Role role, bool reachable = true,
               bool in_sync = true) {
  v1::Member* member = members->add_members();
  member->set_id(id);
  member->set_role(role);
  member->set_reachable(reachable);
  member->set_in_sync(in_sync);
  if (role == v1::ROLE_LEADER) members->set_leader(id);
}

v1::MembersResponse Three() {
  v1::MembersResponse members;
  AddMember(&members, 1, v1::ROLE_LEADER);
  AddMember(&members, 2, v1::ROLE_FOLLOWER);
  AddMember(&members, 3, v1::ROLE_FOLLOWER);
  return members;
}

TEST_CASE("observers are restarted first and the leader last") {
  v1::MembersResponse members = Three();
  AddMember(&members, 4, v1::ROLE_OBSERVER);
  CHECK(RestartOrder(members) == std::vector<uint32_t>{4, 2, 3, 1});
}

TEST_CASE("a restart is safe if a majority without the member is in sync") {
  CHECK(CheckRestartIsSafe(Three(), 1).ok());
  CHECK(CheckRestartIsSafe(Three(), 2).ok());
}

TEST_CASE("a restart that would lose the majority is refused, and names the missing members") {
  v1::MembersResponse members = Three();
  members.mutable_members(2)->set_in_sync(false);
  const absl::Status lagging = CheckRestartIsSafe(members, 2);
  CHECK(absl::IsFailedPrecondition(lagging));
  CHECK(lagging.message() ==
        "a restart of member 2 would stop the cluster: 1 of 3 voters would be left, 2 are needed "
        "(member 3 is not in sync)");
  members.mutable_members(2)->set_reachable(false);
  CHECK(std::string(CheckRestartIsSafe(members, 1).message()).find("member 3 is down") !=
        std::string::npos);
  CHECK(CheckRestartIsSafe(members, 3).ok());  // it is down already
}

TEST_CASE("the only voter, one of two voters, and members during a change are not restarted") {
  v1::MembersResponse one;
  AddMember(&one, 1, v1::ROLE_LEADER);
  CHECK_FALSE(CheckRestartIsSafe(one, 1).ok());
  v1::MembersResponse two = one;
  AddMember(&two, 2, v1::ROLE_FOLLOWER);
  CHECK_FALSE(CheckRestartIsSafe(two, 2).ok());
  v1::MembersResponse changing = Three();
  changing.set_changing(true);
  CHECK_FALSE(CheckRestartIsSafe(changing, 2).ok());
}

TEST_CASE("an observer can always be restarted, and does not count for the majority") {
  v1::MembersResponse members = Three();
  AddMember(&members, 4, v1::ROLE_OBSERVER);
  members.mutable_members(1)->set_reachable(false);
  CHECK(CheckRestartIsSafe(members, 4).ok());
  CHECK_FALSE(CheckRestartIsSafe(members, 3).ok());
}

}  // namespace
}  // namespace quorate::tools
