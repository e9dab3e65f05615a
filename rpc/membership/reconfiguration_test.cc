// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/reconfiguration.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

ServerLines Members(const std::string& text) {
  auto members = GoalOf({.new_members = text}, {}, 0);
  INFO(members.status().ToString());
  REQUIRE(members.ok());
  return *members;
}

const char* const kThree =
    "server.1=a:1:2;3\nserver.2=b:1:2:participant;3\n3=c:1:2:observer;3\nversion=1a";

std::string TextOf(const absl::StatusOr<ServerLines>& members) {
  return members.ok() ? FormatMembers(*members, "0") : std::string(members.status().message());
}

bool Never(uint32_t) { return false; }
bool Always(uint32_t) { return true; }

}  // namespace

TEST_CASE("a reconfiguration and its outcome are the same after encoding and decoding") {
  const Reconfiguration request{.joining = "server.4=d:1:2;3",
                                .leaving = std::nullopt,
                                .new_members = "",
                                .based_on = 0x100000000,
                                .identities = {{"super", ""}, {"ip", "10.0.0.1"}}};
  const std::string bytes = Encode(request);
  const auto decoded = DecodeReconfiguration(bytes);
  REQUIRE(decoded.ok());
  CHECK(*decoded == request);
  CHECK_FALSE(DecodeReconfiguration(bytes + "x").ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(DecodeReconfiguration(bytes.substr(0, size)).ok());
  }
  const ReconfigurationOutcome outcome{true, tree::ErrorCode::kNewConfigNoQuorum, tree::Zxid(7)};
  CHECK(*DecodeReconfigurationOutcome(Encode(outcome)) == outcome);
  CHECK_FALSE(DecodeReconfigurationOutcome("").ok());
}

TEST_CASE("members leave first, and then join") {
  const ServerLines now = Members(kThree);
  CHECK(TextOf(GoalOf({.joining = "server.4=d:1:2;3,5=e:1:2:OBSERVER;h:3", .leaving = "1, 3,99"},
                      now, 2)) ==
        "server.2=b:1:2:participant;0.0.0.0:3\nserver.4=d:1:2:participant;0.0.0.0:3\n"
        "server.5=e:1:2:observer;h:3\nversion=0");
  // One that is there gets the new line, and one that leaves and joins is there afterwards.
  CHECK(TextOf(GoalOf({.joining = "3=c:5:6;7", .leaving = "3"}, now, 2)) ==
        "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3\n"
        "server.3=c:5:6:participant;0.0.0.0:7\nversion=0");
  // All members: the other texts are ignored, as a version is.
  CHECK(TextOf(
            GoalOf({.joining = "?", .leaving = "?", .new_members = "2=b:1:2;3,4=d:1:2"}, now, 2)) ==
        "server.2=b:1:2:participant;0.0.0.0:3\nserver.4=d:1:2:participant\nversion=0");
}

TEST_CASE("malformed texts and members that cannot be are refused") {
  const ServerLines now = Members(kThree);
  for (const char* joining :
       {"x", "4", "server.0=d:1:2;3", "server.255=d:1:2;3", "4=d:1:2", "4=d:1;3", "4=d;3",
        "server.x=d:1:2;3", "4=a:1:9;3", "group.1=1:2", "server.4=d:1:2;3,weight.4=2"}) {
    INFO(joining);
    CHECK(absl::IsInvalidArgument(GoalOf({.joining = joining}, now, 1).status()));
  }
  CHECK(absl::IsInvalidArgument(GoalOf({.leaving = "one"}, now, 1).status()));
  CHECK(absl::IsInvalidArgument(GoalOf({.new_members = "weight.1=2"}, now, 1).status()));
  CHECK(absl::IsInvalidArgument(GoalOf({.new_members = ""}, now, 1).status()));
  CHECK(absl::IsInvalidArgument(GoalOf({.leaving = "1"}, now, 2).status()));
  CHECK(GoalOf({.leaving = "1"}, now, 1).ok());
}

TEST_CASE("a member gets its vote when it has caught up, and others leave in the same change") {
  const ServerLines now = Members("1=a:1:2;3,2=b:1:2;3");
  const ServerLines goal = Members("2=b:1:2;3,4=d:1:2;3,5=e:1:2:observer;3");
  CHECK(NextStep(now, now, Never).kind == MembershipStep::Kind::kDone);
  const MembershipStep first = NextStep(now, goal, Never);
  CHECK(first.kind == MembershipStep::Kind::kPropose);
  CHECK(AreSame(first.members, Members("1=a:1:2;3,2=b:1:2;3,4=d:1:2:observer;3")));
  const MembershipStep wait = NextStep(first.members, goal, Never);
  CHECK(wait.kind == MembershipStep::Kind::kWait);
  CHECK(wait.waits_for == 4);
  const MembershipStep last = NextStep(first.members, goal, Always);
  CHECK(last.kind == MembershipStep::Kind::kPropose);
  CHECK(AreSame(last.members, goal));
}

TEST_CASE("observers join, and members leave, in one change without waiting") {
  const ServerLines now = Members(kThree);
  const ServerLines goal = Members("1=a:1:2;3,3=c:1:2:observer;3,4=d:1:2:observer;3");
  const MembershipStep step = NextStep(now, goal, Never);
  CHECK(step.kind == MembershipStep::Kind::kPropose);
  CHECK(AreSame(step.members, goal));
}

TEST_CASE("an observer that gets a vote at another address moves first") {
  const ServerLines now = Members(kThree);
  const ServerLines goal = Members("1=a:1:2;3,2=b:1:2;3,3=new:1:2;3");
  const MembershipStep step = NextStep(now, goal, Always);
  CHECK(AreSame(step.members, Members("1=a:1:2;3,2=b:1:2;3,3=new:1:2:observer;3")));
  CHECK(AreSame(NextStep(step.members, goal, Always).members, goal));
}

TEST_CASE("a new member takes the address of an observer that leaves, and not of a voter") {
  const ServerLines now = Members("1=a:1:2;3,2=b:1:2;3,3=c:1:2:observer;3");
  const ServerLines goal = Members("1=a:1:2;3,2=b:1:2;3,4=c:1:2;3");
  CHECK(AreSame(NextStep(now, goal, Never).members,
                Members("1=a:1:2;3,2=b:1:2;3,4=c:1:2:observer;3")));
  const Reconfiguration request{.joining = "4=b:1:2;3", .leaving = "2"};
  CHECK_FALSE(GoalOf(request, now, 1).ok());
  const Reconfiguration as_observer{.joining = "4=b:1:2:observer;3", .leaving = "2"};
  CHECK(GoalOf(as_observer, now, 1).ok());
}

TEST_CASE("the version of the members is read from the text") {
  CHECK(VersionOf("") == 0);
  CHECK(VersionOf("server.1=a:1:2") == 0);
  CHECK(VersionOf("server.1=a:1:2\nversion=1000000ab") == 0x1000000ab);
  CHECK(VersionOf("server.1=a:1:2\nversion=x") == 0);
}

}  // namespace quorate::rpc
