// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/members.h"

#include <catch2/catch.hpp>
#include <string>

#include "consensus/core/membership.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::rpc {
namespace {

using consensus::EntryKind;
using consensus::MemberId;
using consensus::Membership;
using tree::Zxid;

ServerLine LineOf(const std::string& text) {
  const auto line = ParseServerLine(text);
  REQUIRE(line.ok());
  return *line;
}

TEST_CASE("members keep their addresses and roles in the membership of the log") {
  const ServerLines members = {{1, LineOf("a:2888:3888;2181")},
                               {2, LineOf("[::1]:2888:3888:observer;[::1]:2182")},
                               {7, LineOf("b:2888:3888")}};
  const auto membership = MembershipOf(members);
  REQUIRE(membership.ok());
  CHECK(membership->voters == std::vector<MemberId>{MemberId(1), MemberId(7)});
  CHECK(membership->learners == std::vector<MemberId>{MemberId(2)});
  const ServerLines read = MembersOf(*membership, {});
  REQUIRE(read.size() == 3);
  CHECK(FormatServerLine(read.at(1)) == "a:2888:3888:participant;0.0.0.0:2181");
  CHECK(FormatServerLine(read.at(2)) == "[::1]:2888:3888:observer;[::1]:2182");
  CHECK(FormatServerLine(read.at(7)) == "b:2888:3888:participant");
}

TEST_CASE("the membership decides on the role, and the configuration fills missing addresses") {
  Membership membership;
  membership.voters = {MemberId(1), MemberId(2)};
  membership.learners = {MemberId(3), MemberId(4)};
  membership.addresses[MemberId(2)] = "b:1:2:observer";
  const ServerLines configured = {
      {1, LineOf("a:1:2")}, {2, LineOf("old:1:2")}, {3, LineOf("c:1:2")}};
  const ServerLines members = MembersOf(membership, configured);
  REQUIRE(members.size() == 3);
  CHECK(members.at(1).host == "a");
  CHECK(members.at(2).host == "b");
  CHECK_FALSE(members.at(2).observer);
  CHECK(members.at(3).observer);
}

TEST_CASE("the text of a change names what becomes of each member that changes") {
  const ServerLines now = {
      {1, LineOf("a:1:2")}, {2, LineOf("b:1:2")}, {3, LineOf("c:1:2:observer")}};
  CHECK(ChangeText(now, now).empty());
  ServerLines next = now;
  next[3].observer = false;
  next[4] = LineOf("d:1:2:observer");
  next[5] = LineOf("e:1:2");
  next.erase(1);
  next[2] = LineOf("new:1:2:observer");
  CHECK(ChangeText(now, next) ==
        "member 2 becomes an observer, member 2 moves to new:1:2:observer, member 3 gets a vote, "
        "member 4 is added as an observer, member 5 is added, member 1 is removed");
}

TEST_CASE("members that cannot work are refused") {
  const auto refusal = [](const ServerLines& members) {
    return std::string(MembershipOf(members).status().message());
  };
  CHECK_THAT(refusal({{1, LineOf("a:1:2")}, {2, LineOf("a:1:3")}}),
             Catch::Contains("1 and 2 have the same address, a:1"));
  CHECK_THAT(refusal({{1, LineOf("a:1:1")}}), Catch::Contains("must not be the same"));
  CHECK_THAT(refusal({{1, LineOf("a:1")}}), Catch::Contains("needs two ports"));
  CHECK_THAT(refusal({{1, LineOf("a:1:2:observer")}}), Catch::Contains("a vote"));
  CHECK_THAT(refusal({}), Catch::Contains("a vote"));
  for (const char* line : {"0.0.0.0:1:2", "[::]:1:2"}) {
    CHECK_THAT(refusal({{1, LineOf(line)}}), Catch::Contains("cannot reach it there"));
  }
  for (const char* host : {"a b", "a\nserver.2=b", "[x", "a;b", "a=b"}) {
    ServerLine line = LineOf("a:1:2");
    line.host = host;
    CHECK_THAT(refusal({{1, line}}), Catch::Contains("server.1=") && Catch::Contains("host"));
  }
}

TEST_CASE("a membership with addresses becomes the data of /zookeeper/config, with an event") {
  tree::Tree tree;
  tree::RecordingListener listener;
  tree::Stat before, after;
  REQUIRE(tree.FindStat("/zookeeper/config", &before));
  const auto membership = MembershipOf({{1, LineOf("a:1:2;3")}, {2, LineOf("b:1:2:observer;3")}});
  REQUIRE(membership.ok());
  const std::string payload = EncodeMembership(*membership);
  ApplyControl(EntryKind::kMembership, payload, Zxid(0x1a), &tree, &listener);
  CHECK(tree.last_zxid() == Zxid(0x1a));
  CHECK(listener.events == std::vector<std::string>{"changed /zookeeper/config"});
  CHECK(listener.last_event_zxid == Zxid(0x1a));
  std::string_view data;
  bool has_data = false;
  const tree::Identity anyone{"world", "anyone"};
  REQUIRE(tree.GetData("/zookeeper/config", {&anyone, 1}, &data, &has_data, &after) ==
          tree::ErrorCode::kOk);
  CHECK(data ==
        "server.1=a:1:2:participant;0.0.0.0:3\n"
        "server.2=b:1:2:observer;0.0.0.0:3\n"
        "version=1a");
  CHECK(after.mzxid == Zxid(0x1a));
  CHECK(after.version == -1);
  CHECK(after.czxid == before.czxid);
  CHECK(after.cversion == before.cversion);
  CHECK(tree.digest() == tree.ComputeDigest());
  CHECK(tree.data_bytes() > data.size());
}

TEST_CASE("entries that show no new members only advance the zxid") {
  tree::Tree tree;
  tree::RecordingListener listener;
  const uint64_t digest = tree.digest();
  Membership membership;
  membership.voters = {MemberId(1)};
  ApplyControl(EntryKind::kMembership, EncodeMembership(membership), Zxid(1), &tree, &listener);
  membership.addresses[MemberId(1)] = "a:1:2";
  membership.outgoing = {MemberId(1)};
  ApplyControl(EntryKind::kMembership, EncodeMembership(membership), Zxid(2), &tree, &listener);
  ApplyControl(EntryKind::kNoOp, "", Zxid(3), &tree, &listener);
  ApplyControl(EntryKind::kVersion, consensus::EncodeVersion(9), Zxid(4), &tree, &listener);
  CHECK(tree.last_zxid() == Zxid(4));
  CHECK(listener.events.empty());
  CHECK(tree.digest() == digest);
}

}  // namespace
}  // namespace quorate::rpc
