// SPDX-License-Identifier: Apache-2.0

// Tests the rules that apply while only the configuration determines the members of the cluster:
// members that were started with different server lines must not lead at the same time.
#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/core/testing/test_server.h"

namespace quorate::consensus {
namespace {

TEST_CASE("the membership is in the log before the version that implies it") {
  Server server;
  server.Lead();
  const std::vector<Entry>& log = server.member().log();
  const auto is = [&](EntryKind kind) {
    return std::find_if(log.begin(), log.end(), [&](const Entry& e) { return e.kind == kind; });
  };
  REQUIRE(is(EntryKind::kMembership) != log.end());
  CHECK(is(EntryKind::kMembership) < is(EntryKind::kVersion));
  CHECK(*DecodeMembership(is(EntryKind::kMembership)->payload.view()) ==
        server.raft().membership());
  // The membership was appended only once.
  CHECK(std::count_if(log.begin(), log.end(),
                      [](const Entry& e) { return e.kind == EntryKind::kMembership; }) == 1);
}

void AskForPreVotes(Server* server) {
  while (server->raft().role() == Role::kFollower) server->raft().Tick();
}

// Makes member 1 ask for pre-votes, and answers as member 3, which was started with `other`.
void AskTheOther(Server* server, const Membership& other) {
  AskForPreVotes(server);
  const uint64_t term = server->raft().term().value() + 1;
  server->Receive(3, term, VoteResponse{true, true, other}, /*voting=*/false, kNoDirectoryEpoch);
}

TEST_CASE("a cluster is not bootstrapped with a member that was started with other members") {
  Server server({Ids({1, 2, 3}), {}, {}, {}}, MemberState::kNew);
  const Membership own = server.raft().membership();
  const bool other_voters = GENERATE(true, false);
  const Membership other = other_voters ? Membership{Ids({3, 4, 5}), {}, {}, {}}
                                        : Membership{Ids({1, 2, 3}), Ids({4}), {}, {}};
  AskTheOther(&server, other);
  const uint64_t term = server.raft().term().value() + 1;
  server.Receive(2, term, VoteResponse{true, true, own}, /*voting=*/false, kNoDirectoryEpoch);
  server.Take();
  CHECK(server.raft().member_state() == MemberState::kNew);
  CHECK(server.raft().term() == Term{0});
  CHECK(server.member().status.differs_from == MemberId{3});
  CHECK(server.member().status.other_configured == other);
  // When the members agree, the member campaigns.
  server.Tick(10 * kElectionTicks);
  AskTheOther(&server, own);
  server.Receive(2, term, VoteResponse{true, true, own}, /*voting=*/false, kNoDirectoryEpoch);
  server.Take();
  CHECK(server.raft().role() == Role::kCandidate);
  CHECK(server.member().status.differs_from == kNoMember);
}

TEST_CASE("a member that learns of a different configuration does not become leader") {
  // A version that stored no membership made the directories, and no log has one yet.
  Server server;
  AskTheOther(&server, {Ids({1, 2, 3, 4, 5}), {}, {}, {}});
  server.Receive(2, 1, VoteResponse{true, true, server.raft().membership()});
  server.Take();
  CHECK(server.raft().role() == Role::kFollower);
  CHECK(server.raft().term() == Term{0});
  // The member does not forget the difference, however long member 3 is silent: member 3 may lead a
  // majority of its own members in the meantime.
  const Membership own = server.raft().membership();
  server.Tick(100 * kElectionTicks);
  AskForPreVotes(&server);
  server.Receive(2, server.raft().term().value() + 1, VoteResponse{true, true, own});
  server.Take();
  CHECK(server.raft().role() == Role::kFollower);
  CHECK(server.raft().term() == Term{0});
  CHECK(server.member().status.differs_from == MemberId{3});
  // An answer without a membership changes nothing.
  AskForPreVotes(&server);
  server.Receive(3, server.raft().term().value() + 1, VoteResponse{true, true});
  server.Take();
  CHECK(server.member().status.differs_from == MemberId{3});
  // The difference ends when member 3 was started with the same membership.
  server.Tick(10 * kElectionTicks);
  AskForPreVotes(&server);
  server.Receive(3, server.raft().term().value() + 1, VoteResponse{true, true, own});
  server.Take();
  CHECK(server.raft().role() == Role::kCandidate);
  CHECK(server.member().status.differs_from == kNoMember);
}

TEST_CASE("an equal answer of one member does not cancel the different one of another") {
  Server server({Ids({1, 2, 3, 4, 5}), {}, {}, {}});
  const Membership own = server.raft().membership();
  AskForPreVotes(&server);
  for (uint32_t from : {3, 4}) {
    server.Receive(from, 1, VoteResponse{true, true, Membership{Ids({3, 4}), {}, {}, {}}});
  }
  server.Receive(4, 1, VoteResponse{true, true, own});
  server.Receive(2, 1, VoteResponse{true, true, own});
  server.Receive(5, 1, VoteResponse{true, true, own});
  server.Take();
  CHECK(server.raft().role() == Role::kFollower);
  CHECK(server.member().status.differs_from == MemberId{3});
}

TEST_CASE("a leadership transfer needs a pre-vote if no log entry sets the membership") {
  Server server;
  const Membership own = server.raft().membership();
  const bool differs = GENERATE(true, false);
  if (differs) AskTheOther(&server, {Ids({1, 2, 3, 4, 5}), {}, {}, {}});
  server.Receive(2, 1, Heartbeat{});
  server.Take();
  server.Receive(2, 1, TimeoutNow{});
  const auto requests = server.TakeBodies<VoteRequest>();
  REQUIRE(requests.size() == 2);
  for (const auto& [to, request] : requests) {
    CHECK(request.pre_vote);
    // Members that still hear from the leader answer such a request.
    CHECK(request.leadership_transfer);
  }
  CHECK(server.raft().term() == Term{1});
  server.Receive(2, 2, VoteResponse{true, true, own});
  const auto votes = server.TakeBodies<VoteRequest>();
  if (differs) {
    CHECK(server.raft().role() == Role::kFollower);
    CHECK(server.raft().term() == Term{1});
    CHECK(votes.empty());
  } else {
    CHECK(server.raft().role() == Role::kCandidate);
    REQUIRE(votes.size() == 2);
    CHECK(votes[0].second.leadership_transfer);
  }
}

TEST_CASE("a leadership transfer needs no pre-vote if a log entry sets the membership") {
  Server server;
  server.Receive(2, 1, AppendRequest{{}, {}, {}, {Control(1, 1, server.raft().membership())}});
  server.Take();
  server.Receive(2, 1, TimeoutNow{});
  const auto votes = server.TakeBodies<VoteRequest>();
  CHECK(server.raft().role() == Role::kCandidate);
  REQUIRE(votes.size() == 2);
  CHECK_FALSE(votes[0].second.pre_vote);
}

// Returns the disk of a member whose log is empty after a checkpoint of `version`.
TestMember::Disk DiskBehindCheckpoint(uint32_t version, Membership membership) {
  TestMember::Disk disk = DiskOf(MemberState::kNormal);
  disk.hard_state.term = Term{1};
  for (uint64_t i = 1; i <= 9; ++i) {
    disk.log.push_back({Index{i}, Term{1}, EntryKind::kNoOp, {}});
  }
  disk.base = Index{9};
  disk.checkpoint = SnapshotMeta{Index{9}, Term{1}, std::move(membership), version};
  return disk;
}

// Returns the membership that `server` sends in a granted pre-vote as the one with which it was
// started.
std::optional<Membership> ConfiguredOf(Server* server) {
  server->Tick(10 * kElectionTicks);
  server->Take();
  const uint64_t term = server->raft().term().value() + 9;
  server->Receive(2, term, VoteRequest{true, false, Index{99}, Term{term}});
  const auto votes = server->TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  REQUIRE(votes[0].second.granted);
  return votes[0].second.configured;
}

TEST_CASE("a checkpoint of an old version may have a configured membership") {
  const Membership own{Ids({1, 2, 3}), {}, {}, {}};
  const bool before = GENERATE(true, false);
  const uint32_t version = before ? kVersionMembershipInLog - 1 : kVersionMembershipInLog;
  {
    Server server(Options(own), DiskBehindCheckpoint(version, own));
    CHECK(ConfiguredOf(&server) == (before ? std::optional(own) : std::nullopt));
    // An entry after the checkpoint sets the membership, until the entry is truncated.
    const Entry entry{Index{10}, Term{2}, EntryKind::kMembership, Slice(EncodeMembership(own))};
    server.Receive(2, 2, AppendRequest{Index{9}, Term{1}, Index{9}, {entry}});
    server.Take();
    CHECK_FALSE(ConfiguredOf(&server));
    const Entry other{Index{10}, Term{3}, EntryKind::kNoOp, {}};
    server.Receive(3, 3, AppendRequest{Index{9}, Term{1}, Index{9}, {other}});
    server.Take();
    CHECK(ConfiguredOf(&server) == (before ? std::optional(own) : std::nullopt));
  }
  Server server(Options(own), DiskBehindCheckpoint(version, own));
  AskTheOther(&server, {Ids({1, 2, 3, 4, 5}), {}, {}, {}});
  server.Receive(2, 2, VoteResponse{true, true, own});
  server.Take();
  CHECK(server.raft().role() == (before ? Role::kFollower : Role::kCandidate));
}

TEST_CASE("a joint membership in a checkpoint comes from the log") {
  const Membership joint{Ids({1, 2, 3}), {}, Ids({1, 2}), {}};
  Server server(Options({Ids({1, 2, 3}), {}, {}, {}}),
                DiskBehindCheckpoint(kVersionMembershipInLog - 1, joint));
  CHECK_FALSE(ConfiguredOf(&server));
}

TEST_CASE("a pre-vote has the configured membership until a log entry sets one") {
  Server server;
  server.Receive(2, 1, VoteRequest{true, false, {}, {}});
  auto votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK(votes[0].second.configured == server.raft().membership());
  // A request of a member that cannot decode a membership.
  server.Receive({MemberId{2}, MemberId{1}, Term{1}, VoteRequest{true, false, {}, {}}, 1,
                  kVersionMembershipInLog - 1, true});
  votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK_FALSE(votes[0].second.configured);
  server.Receive(2, 1, AppendRequest{{}, {}, {}, {Control(1, 1, server.raft().membership())}});
  server.Take();
  server.Tick(10 * kElectionTicks);
  server.Take();
  server.Receive(2, 9, VoteRequest{true, false, Index{1}, Term{1}});
  votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK(votes[0].second.granted);
  CHECK_FALSE(votes[0].second.configured);
}

}  // namespace
}  // namespace quorate::consensus
