// SPDX-License-Identifier: Apache-2.0

// Tests the rules of membership, compaction, snapshots, versions and member state for a single
// member; the test plays the others. Tests that need several members are in testdata/.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/membership.h"
#include "consensus/core/testing/test_server.h"

namespace quorate::consensus {
namespace {

// --- Membership ----------------------------------------------------------------------------------

TEST_CASE("a membership is in effect from when it is in the log until it is truncated") {
  Server server;
  const Membership grown{Ids({1, 2, 3}), Ids({4}), {}, {}};
  const Entry first{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  server.Receive(2, 1, AppendRequest{{}, {}, {}, {first, Control(2, 1, grown)}});
  CHECK(server.raft().membership() == grown);
  server.Receive(3, 2, AppendRequest{Index{1}, Term{1}, {}, {{Index{2}, Term{2}, {}, {}}}});
  CHECK(server.raft().membership() == Membership{Ids({1, 2, 3}), {}, {}, {}});
  server.Take();
  CHECK(server.member().membership == server.raft().membership());
}

TEST_CASE("a joint membership needs both majorities to commit, to read and to keep its leader") {
  Server server({Ids({1, 2, 3}), Ids({4, 5}), {}, {}});
  server.Lead();
  const Index before = server.raft().commit_index();
  REQUIRE(server.Change(Ids({1, 4, 5})).ok());
  server.Take();
  const uint64_t last = server.raft().last_index().value();
  server.Acknowledge(4, last);
  server.Acknowledge(5, last);
  CHECK(server.raft().commit_index() == before);
  // A round that confirms a read.
  server.raft().ReadIndex(1);
  server.Take();
  for (uint32_t from : {4, 5}) server.Receive(from, 1, HeartbeatResponse{ReadRound{1}});
  server.Take();
  CHECK(server.member().reads.empty());
  server.Receive(2, 1, HeartbeatResponse{ReadRound{1}});
  server.Take();
  CHECK(server.member().reads.size() == 1);
  server.Acknowledge(2, last);
  // The joint membership is committed. The final one follows, and is in effect already.
  CHECK(server.raft().commit_index() == Index{last});
  CHECK_FALSE(server.raft().membership().joint());
  CHECK(server.raft().last_index() == Index{last + 1});
}

TEST_CASE("a leader that hears only from the new voters during a change steps down") {
  for (bool hears_old : {false, true}) {
    Server server({Ids({1, 2, 3}), Ids({4, 5}), {}, {}});
    server.Lead();
    REQUIRE(server.Change(Ids({1, 4, 5})).ok());
    for (int i = 0; i < 2 * kElectionTicks; ++i) {
      for (uint32_t from : {4, 5}) server.Receive(from, 1, HeartbeatResponse{});
      if (hears_old) server.Receive(2, 1, HeartbeatResponse{});
      server.Tick(1);
    }
    CHECK((server.raft().role() == Role::kLeader) == hears_old);
  }
}

// Lets members 2 and 3 answer, and 4 and 5 be silent, for longer than a leader waits for a quorum.
void LoseNewVoters(Server* server) {
  for (int i = 0; i < 2 * kElectionTicks; ++i) {
    for (uint32_t from : {2, 3}) {
      server->Receive(from, server->raft().term().value(), HeartbeatResponse{});
    }
    server->Tick(1);
  }
  server->Take();
}

TEST_CASE("a leader whose new voters die takes the change back and commits what came meanwhile") {
  const Membership before{Ids({1, 2, 3}), Ids({4, 5}), {}, {}};
  Server server(before);
  server.Lead();
  REQUIRE(server.Change(Ids({1, 4, 5})).ok());
  server.Propose(1);
  const Index joint = server.raft().membership_index();
  const Index written = server.raft().last_index();
  LoseNewVoters(&server);
  REQUIRE(server.raft().role() == Role::kLeader);
  CHECK(server.raft().membership() == before);
  CHECK(server.raft().membership_index() == written + 1);
  CHECK(server.raft().commit_index() < joint);
  server.Acknowledge(2, server.raft().last_index().value());
  server.Take();
  CHECK(server.raft().commit_index() == server.raft().last_index());
  CHECK(server.raft().role() == Role::kLeader);
}

TEST_CASE("a change is not taken back after it was committed") {
  Server server({Ids({1, 2, 3}), Ids({4, 5}), {}, {}});
  server.Lead();
  REQUIRE(server.Change(Ids({1, 4, 5})).ok());
  server.AcknowledgeAll();
  REQUIRE_FALSE(server.raft().membership().joint());
  LoseNewVoters(&server);
  CHECK(server.raft().role() != Role::kLeader);
  CHECK(server.raft().membership().voters == Ids({1, 4, 5}));
}

TEST_CASE("a change that an earlier leader has begun is not taken back") {
  // That leader may have committed it, and set the new membership.
  Server server;
  const Membership joint{Ids({1, 4, 5}), {}, Ids({1, 2, 3}), {}};
  const Entry first{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  server.Receive(2, 1, AppendRequest{{}, {}, {}, {first, Control(2, 1, joint)}});
  server.Take();
  while (server.raft().role() == Role::kFollower) server.Tick(1);
  for (uint32_t from : {2, 4}) server.Receive(from, 2, VoteResponse{true, true});
  server.Take();
  for (uint32_t from : {2, 4}) server.Receive(from, 2, VoteResponse{false, true});
  REQUIRE(server.raft().role() == Role::kLeader);
  LoseNewVoters(&server);
  CHECK(server.raft().role() != Role::kLeader);
  CHECK(server.raft().membership() == joint);
}

TEST_CASE("a change that was made from an earlier membership is refused") {
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  server.Lead();
  const Index base = server.raft().membership_index();
  const Membership target{Ids({1, 2, 3}), {}, {}, {}};
  CHECK(absl::IsAborted(server.raft().ChangeMembership(target, base + 1)));
  REQUIRE(server.raft().ChangeMembership(target, base).ok());
  CHECK_FALSE(server.raft().MembershipIsCommitted());
  server.AcknowledgeAll();
  CHECK(server.raft().MembershipIsCommitted());
  const Membership again{Ids({1, 2, 3}), Ids({4}), {}, {}};
  CHECK(absl::IsAborted(server.raft().ChangeMembership(again, base)));
  CHECK(server.raft().ChangeMembership(again, server.raft().membership_index()).ok());
}

TEST_CASE(
    "a change keeps the addresses of the members that it leaves, and new ones count at once") {
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  server.Lead();
  const auto addresses = [](std::vector<uint32_t> members, const std::string& suffix) {
    std::map<MemberId, std::string> all;
    for (uint32_t member : members) all[MemberId{member}] = std::to_string(member) + suffix;
    return all;
  };
  REQUIRE(server.raft()
              .ChangeMembership({Ids({1, 2, 3}), Ids({4}), {}, addresses({1, 2, 3, 4}, "a")})
              .ok());
  server.AcknowledgeAll();
  REQUIRE(server.raft().ChangeMembership({Ids({1, 2, 4}), {}, {}, addresses({1, 2, 4}, "b")}).ok());
  std::map<MemberId, std::string> joint = addresses({1, 2, 4}, "b");
  joint[MemberId{3}] = "3a";
  CHECK(server.raft().membership().addresses == joint);
  server.AcknowledgeAll();
  server.AcknowledgeAll();
  CHECK(server.raft().membership() ==
        Membership{Ids({1, 2, 4}), {}, {}, addresses({1, 2, 4}, "b")});
}

TEST_CASE("a refused change of membership names the reason") {
  using Catch::Matchers::Contains;
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  CHECK(absl::IsFailedPrecondition(server.Change(Ids({1, 2}))));  // this member does not lead
  server.Lead();
  CHECK(absl::IsInvalidArgument(server.Change({})));
  CHECK(absl::IsInvalidArgument(
      server.raft().ChangeMembership({Ids({1, 2}), {}, Ids({1, 2, 3}), {}})));
  CHECK(absl::IsUnavailable(server.Change(Ids({1, 2, 3, 9}))));  // not a learner
  server.Acknowledge(4, server.raft().last_index().value(), /*voting=*/false);
  CHECK_THAT(std::string(server.Change(Ids({1, 2, 3, 4})).message()), Contains("recovering"));
  server.AcknowledgeAll();
  server.raft().PeerUnreachable(MemberId{4});
  CHECK_THAT(std::string(server.Change(Ids({1, 2, 3, 4})).message()), Contains("connection broke"));
  server.AcknowledgeAll();
  server.raft().TransferLeadership(MemberId{3}).IgnoreError();
  CHECK(absl::IsFailedPrecondition(server.Change(Ids({1, 2, 3, 4}))));
  server.raft().CancelTransfer();
  CHECK(server.Change(Ids({1, 2, 3, 4})).ok());
  CHECK_THAT(std::string(server.Change(Ids({1, 2})).message()), Contains("under way"));
}

TEST_CASE("a learner becomes a voter only when it has caught up within an election timeout") {
  using Catch::Matchers::Contains;
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  server.Lead();
  const auto promote = [&] { return server.Change(Ids({1, 2, 3, 4})); };
  const uint64_t before = server.raft().last_index().value();
  server.Propose(4);
  const uint64_t last = before + 4;
  // A round of four entries, of which the learner makes one durable in each half election timeout.
  server.Tick(1);
  for (uint64_t next = 1; next <= 4; ++next) {
    for (uint32_t from : {2, 3}) server.Acknowledge(from, last);
    for (int tick = 0; tick < kElectionTicks / 2; ++tick) {
      server.Tick(1);
      server.Receive(4, 1, HeartbeatResponse{});
    }
    if (next < 4) server.Acknowledge(4, before + next);
    server.Take();
  }
  absl::Status refused = promote();
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(std::string(refused.message()), Contains("member 4") && Contains("lags by 1 entries"));
  // The round is complete, and was too slow. The learner has everything by now, but it is not known
  // how fast it would get more.
  server.Acknowledge(4, last);
  refused = promote();
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(
      std::string(refused.message()),
      Contains("lags by 0 entries") && Contains("its last round of catching up took 20 ticks"));
  server.Tick(1);
  CHECK(promote().ok());
}

TEST_CASE("a learner that lags by many entries of a short time becomes a voter") {
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  server.Lead();
  server.Propose(2000);
  for (uint32_t from : {2, 3}) server.Acknowledge(from, server.raft().last_index().value());
  CHECK(server.Change(Ids({1, 2, 3, 4})).ok());
}

TEST_CASE("a learner that has lost entries has to catch up again") {
  using Catch::Matchers::Contains;
  Server server({Ids({1, 2, 3}), Ids({4}), {}, {}});
  server.Lead();
  server.Propose(5);
  server.AcknowledgeAll();
  const uint64_t last = server.raft().last_index().value();
  server.raft().PeerUnreachable(MemberId{4});
  server.Take();
  server.Receive(4, 1, AppendRejected{Index{last}, Index{last - 3}, Term{1}});
  server.Take();
  server.Acknowledge(4, last - 3);
  const absl::Status refused = server.Change(Ids({1, 2, 3, 4}));
  CHECK(absl::IsUnavailable(refused));
  CHECK_THAT(std::string(refused.message()), Contains("its first round of catching up"));
  server.AcknowledgeAll();
  CHECK(server.Change(Ids({1, 2, 3, 4})).ok());
}

TEST_CASE("a change needs a quorum of the new voters that was heard from") {
  Server server({Ids({1, 2, 3}), {}, {}, {}});
  server.Lead();
  for (int i = 0; i < kElectionTicks; ++i) {
    server.Tick(1);
    server.Receive(2, 1, HeartbeatResponse{});
  }
  CHECK(absl::IsUnavailable(server.Change(Ids({1, 3}))));
  CHECK(server.Change(Ids({1, 2})).ok());
}

TEST_CASE("a removed leader hands over when its removal is committed, and reports the removal") {
  Server server;
  server.Lead();
  REQUIRE(server.Change(Ids({2, 3})).ok());
  server.AcknowledgeAll();
  CHECK_FALSE(server.raft().membership().joint());
  CHECK_FALSE(server.member().status.removed);
  server.Take();
  // The leader does not count itself: one of two voters is not a majority.
  server.Acknowledge(2, server.raft().last_index().value());
  server.Take();
  CHECK_FALSE(server.member().status.removed);
  server.Acknowledge(3, server.raft().last_index().value());
  CHECK(server.TakeBodies<TimeoutNow>().size() == 1);
  CHECK(server.member().status.removed);
  CHECK(absl::IsFailedPrecondition(server.raft().Propose({Slice("x")})));
  for (int i = 0; i < kElectionTicks; ++i) {
    for (uint32_t from : {2, 3}) server.Receive(from, 1, HeartbeatResponse{});
    server.Tick(1);
  }
  CHECK(server.raft().role() == Role::kFollower);
  server.Tick(10 * kElectionTicks);
  CHECK(server.raft().role() == Role::kFollower);  // it does not campaign
}

TEST_CASE("a member whose removal is not committed still campaigns") {
  Server server;
  const Membership without{Ids({2, 3, 4}), {}, {}, {}};
  const Entry first{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  server.Receive(2, 1, AppendRequest{{}, {}, Index{1}, {first, Control(2, 1, without)}});
  server.Take();
  server.Tick(2 * kElectionTicks);
  CHECK(server.raft().role() == Role::kPreCandidate);
}

// --- Compaction and snapshots --------------------------------------------------------------------

TEST_CASE("the log is kept up to a bound for a follower that was heard from recently") {
  Server server;
  server.Lead();
  server.Propose(20);
  const uint64_t last = server.raft().last_index().value();
  server.Acknowledge(2, last);
  server.Acknowledge(3, last - 3);
  server.Take();
  server.member().Checkpoint();
  server.Take();
  CHECK(server.raft().base_index() == Index{last - 3});
  server.Propose(20);
  server.Acknowledge(2, last + 20);
  server.Take();
  server.member().Checkpoint();
  server.Take();
  CHECK(server.raft().base_index() == Index{last + 20 - 5});
  // The log is not kept for a silent follower.
  for (int i = 0; i < kElectionTicks; ++i) {
    server.Receive(2, 1, HeartbeatResponse{});
    server.Tick(1);
  }
  CHECK(server.raft().base_index() == Index{last + 20});
}

SnapshotMeta SomeMeta(uint64_t index, uint64_t term) {
  return {Index{index}, Term{term}, {Ids({1, 2, 3}), {}, {}, {}}, kVersionMembership};
}

TEST_CASE("a snapshot is accepted from the leader of the current term only") {
  Server server;
  server.Receive(2, 5, Heartbeat{});
  server.Take();
  server.Receive(3, 4, SnapshotChunk{SomeMeta(9, 3), 0, false, Slice("x")});
  server.Receive(3, 5, SnapshotChunk{SomeMeta(9, 3), 0, false, Slice("x")});  // a second leader
  server.Receive(2, 5, SnapshotChunk{SomeMeta(9, 6), 0, false, Slice("x")});  // from a future term
  server.Take();
  CHECK_FALSE(server.member().can_stage());
  server.Receive(2, 5, SnapshotChunk{SomeMeta(9, 3), 7, false, Slice("x")});  // not the first chunk
  const auto acks = server.TakeBodies<SnapshotAck>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].second == SnapshotAck{Index{9}, 0, false});
  server.Receive(2, 5, SnapshotChunk{SomeMeta(9, 3), 0, false, Slice("x")});
  server.Take();
  CHECK(server.member().can_stage());
}

TEST_CASE("a snapshot of entries that the member already has is not installed") {
  Server server;
  const std::vector<Entry> log = {{Index{1}, Term{1}, EntryKind::kNoOp, {}},
                                  {Index{2}, Term{1}, EntryKind::kCommand, Slice("x")}};
  server.Receive(2, 1, AppendRequest{{}, {}, Index{1}, log});
  server.Take();
  for (uint64_t index : {1, 2}) {
    server.Receive(2, 1, SnapshotChunk{SomeMeta(index, 1), 0, true, Slice("x")});
    const auto acks = server.TakeBodies<SnapshotAck>();
    REQUIRE(acks.size() == 1);
    CHECK(acks[0].second.done);
    CHECK_FALSE(server.member().can_stage());
  }
}

TEST_CASE("while a snapshot is installed, heartbeats are answered and nothing else happens") {
  Server server;
  std::vector<Entry> log;
  SnapshotMeta meta{{}, {}, {Ids({1, 2, 3}), {}, {}, {}}, kVersionBase};
  for (uint64_t i = 1; i <= 4; ++i) {
    log.push_back({Index{i}, Term{2}, EntryKind::kCommand, Slice("x")});
    Follow(log.back(), &meta);
  }
  const std::string checkpoint = CheckpointOf(log);
  server.Receive(2, 3, SnapshotChunk{meta, 0, false, Slice(checkpoint.substr(0, 10))});
  server.Take();
  server.member().StageOne();
  // The same chunk arrives twice.
  server.Receive(2, 3, SnapshotChunk{meta, 0, false, Slice(checkpoint.substr(0, 10))});
  const auto acks = server.TakeBodies<SnapshotAck>();
  REQUIRE(acks.size() == 2);
  CHECK(acks[1].second == SnapshotAck{Index{4}, 10, false});
  server.Receive(2, 3, SnapshotChunk{meta, 10, true, Slice(checkpoint.substr(10))});
  server.Take();
  server.member().StageOne();
  server.Take();
  REQUIRE(server.member().can_install());
  server.Receive(2, 3, Heartbeat{Index{4}, ReadRound{2}});
  CHECK(server.TakeBodies<HeartbeatResponse>().size() == 1);
  server.Receive(2, 3, AppendRequest{{}, {}, {}, {log[0]}});
  CHECK(server.raft().last_index() == Index{0});
  // The member does not vote for a log that ends before the snapshot that is being installed.
  server.Tick(kElectionTicks);
  server.Receive(3, 4, VoteRequest{true, false, Index{3}, Term{2}});
  const auto votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK_FALSE(votes[0].second.granted);
  server.Tick(10 * kElectionTicks);
  CHECK(server.raft().role() == Role::kFollower);
  server.Receive(2, 3, Heartbeat{});
  server.member().Install();
  server.Take();
  CHECK(server.raft().base_index() == Index{4});
  CHECK(server.raft().commit_index() == Index{4});
  // The log continues after the snapshot. Entries before it are known to be equal.
  const Entry next{Index{5}, Term{3}, EntryKind::kCommand, Slice("y")};
  server.Receive(2, 3, AppendRequest{Index{3}, Term{2}, Index{5}, {log[3], next}});
  server.Take();
  CHECK(server.raft().commit_index() == Index{5});
}

// --- Versions ------------------------------------------------------------------------------------

TEST_CASE("a version is raised once every member understands it") {
  RaftOptions options = Options({Ids({1}), Ids({2}), {}, {}});
  Server server(options, {});
  server.Tick(1);
  server.Take();
  REQUIRE(server.member().status.leader_established);
  CHECK(server.raft().last_index() == Index{1});
  server.Receive({MemberId{2}, MemberId{1}, Term{1}, HeartbeatResponse{}, 1, kVersionBase, true});
  server.Take();
  CHECK(server.raft().cluster_version() == kVersionBase);
  const absl::Status refused = server.Change(Ids({1}));
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Matchers::Contains("members: 2"));
  server.Receive({MemberId{2}, MemberId{1}, Term{1}, HeartbeatResponse{}, 1, kVersionNewest, true});
  server.Take();
  CHECK(server.raft().cluster_version() == kVersionNewest);
}

// --- Member state --------------------------------------------------------------------------------

TEST_CASE("a new member votes only for a bootstrap candidate") {
  Server server({Ids({1, 2, 3}), {}, {}, {}}, MemberState::kNew);
  server.Receive(2, 1, VoteRequest{});
  auto votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK_FALSE(votes[0].second.granted);
  CHECK(server.raft().member_state() == MemberState::kNew);
  server.Receive(2, 2, VoteRequest{false, false, {}, {}, /*bootstrap=*/true});
  votes = server.TakeBodies<VoteResponse>();
  REQUIRE(votes.size() == 1);
  CHECK(votes[0].second.granted);
  CHECK(server.member().disk().hard_state.member_state == MemberState::kNormal);
}

TEST_CASE("a member does not help to bootstrap again if its bootstrap leader lost its directory") {
  // The candidate, and whether it asks as a bootstrap candidate or with the pre-vote of a new
  // member.
  for (const uint32_t candidate : {2u, 3u}) {
    for (const bool pre_vote : {false, true}) {
      CAPTURE(candidate, pre_vote);
      const auto granted = [&](Server* server, uint64_t term) {
        server->Receive(candidate, term, VoteRequest{pre_vote, false, {}, {}, !pre_vote},
                        /*voting=*/!pre_vote);
        const auto votes = server->TakeBodies<VoteResponse>();
        REQUIRE(votes.size() == 1);
        return votes[0].second.granted;
      };
      TestMember::Disk voted_for_2 = DiskOf(MemberState::kNormal);
      voted_for_2.hard_state.term = Term{1};
      voted_for_2.hard_state.vote = MemberId{2};
      const Membership three{Ids({1, 2, 3}), {}, {}, {}};
      Server server(Options(three), voted_for_2);
      // No message of the bootstrap leader has arrived yet, unless it is the one that asks.
      CHECK(granted(&server, 2) == (candidate == 2 && !pre_vote));
      server.Receive(2, 1, VoteResponse{true, false}, /*voting=*/false);
      server.Take();
      if (!(candidate == 2 && !pre_vote)) CHECK_FALSE(granted(&server, 3));
      // The leader's directory is not lost. It did not bootstrap the cluster, or it would have the
      // entry.
      Server other(Options(three), voted_for_2);
      other.Receive(2, 1, VoteResponse{true, false}, /*voting=*/true);
      other.Take();
      CHECK(granted(&other, 2) == !(candidate == 2 && pre_vote));
      // A candidate with the cluster's log gets the vote, whatever happened to the bootstrap
      // leader.
      Server third(Options(three), voted_for_2);
      third.Receive(3, 2, VoteRequest{false, false, Index{1}, Term{1}});
      const auto votes = third.TakeBodies<VoteResponse>();
      REQUIRE(votes.size() == 1);
      CHECK(votes[0].second.granted);
    }
  }
}

TEST_CASE("a candidate does not bootstrap again if its bootstrap leader lost its directory") {
  for (const bool is_new : {true, false}) {
    CAPTURE(is_new);
    TestMember::Disk disk = DiskOf(MemberState::kNormal);
    disk.hard_state.term = Term{1};
    disk.hard_state.vote = MemberId{2};
    Server server(Options({Ids({1, 2, 3}), {}, {}, {}}), disk);
    while (server.raft().role() == Role::kFollower) server.Tick(1);
    server.Take();
    for (const uint32_t voter : {2u, 3u}) {
      server.Receive(voter, 2, VoteResponse{true, true}, /*voting=*/voter == 2 && !is_new);
    }
    CHECK(server.raft().role() == (is_new ? Role::kFollower : Role::kCandidate));
  }
}

TEST_CASE("a bootstrap leader's first entry is durable before the leader sends it") {
  FixedRandom random(0);
  TestMember member(Options({Ids({1, 2, 3}), {}, {}, {}}), DiskOf(MemberState::kNormal), &random);
  Raft& raft = member.raft();
  const auto receive = [&](uint32_t from, uint64_t term, auto body) {
    raft.Step({MemberId{from}, MemberId{1}, Term{term}, std::move(body), 1, kVersionNewest, true});
    member.Collect();
  };
  const auto sends_entries = [&] {
    member.Collect();
    bool any = false;
    for (const Message& message : std::exchange(member.outbox, {})) {
      const auto* append = std::get_if<AppendRequest>(&message.body);
      any = any || (append != nullptr && !append->entries.empty());
    }
    return any;
  };
  while (raft.role() == Role::kFollower) raft.Tick();
  receive(2, 1, VoteResponse{true, true});
  member.Persist(member.unpersisted());
  receive(2, 1, VoteResponse{false, true});
  REQUIRE(raft.role() == Role::kLeader);
  CHECK_FALSE(sends_entries());
  for (int round = 0; round < 3; ++round) {
    receive(2, 1, AppendAccepted{});
    receive(3, 1, HeartbeatResponse{});
    for (int i = 0; i < kHeartbeatTicks; ++i) raft.Tick();
    CHECK_FALSE(sends_entries());
  }
  member.Persist(member.unpersisted());
  CHECK(sends_entries());
}

TEST_CASE("on any sign of a cluster a new member becomes recovering, and does not vote") {
  for (int sign = 0; sign < 4; ++sign) {
    Server server({Ids({1, 2, 3}), {}, {}, {}}, MemberState::kNew);
    if (sign == 0) server.Receive(2, 1, Heartbeat{});
    if (sign == 1) server.Receive(2, 1, AppendRequest{});
    if (sign == 2) server.Receive(2, 1, SnapshotChunk{SomeMeta(5, 1), 0, false, Slice("x")});
    if (sign == 3) server.Receive(2, 2, VoteRequest{true, false, Index{1}, Term{1}});
    server.Take();
    CHECK(server.member().disk().hard_state.member_state == MemberState::kRecovering);
    server.Tick(10 * kElectionTicks);
    CHECK(server.raft().role() == Role::kFollower);
    server.Take();
    server.Receive(3, 7, VoteRequest{false, false, Index{9}, Term{6}, true});
    const auto votes = server.TakeBodies<VoteResponse>();
    REQUIRE(votes.size() == 1);
    CHECK_FALSE(votes[0].second.granted);
  }
}

// Member 1 with a new directory, in a cluster that member 2 leads in term 4.
class Newcomer : public Server {
 public:
  explicit Newcomer(uint32_t version)
      : Server({Ids({1, 2, 3}), {}, {}, {}}, MemberState::kNew), version_(version) {
    Append(0, 0, 1, 1);
    for (const Message& message : Take()) {
      CHECK_FALSE(message.voting);
      CHECK(message.directory_epoch == kNoDirectoryEpoch);
    }
  }
  // Sends a message from member `from`, which runs a program of version_.
  template <typename Body>
  void Say(uint32_t from, Body body, uint64_t term = 4) {
    Receive({MemberId{from}, MemberId{1}, Term{term}, std::move(body), kFirstDirectoryEpoch,
             version_, true});
  }
  // Sends an append of the entry `index` of term 4, which follows an entry of `prev_term`.
  void Append(uint64_t prev, uint64_t prev_term, uint64_t index, uint64_t commit) {
    const Entry entry{Index{index}, Term{4}, EntryKind::kNoOp, {}};
    Say(2, AppendRequest{Index{prev}, Term{prev_term}, Index{commit}, {entry}});
  }
  // Returns the members that this one asks about its directories, and the directory epoch in each
  // request.
  std::map<MemberId, uint64_t> Questions() {
    Tick(kHeartbeatTicks);
    std::map<MemberId, uint64_t> questions;
    for (const Message& message : Take()) {
      if (std::holds_alternative<DirectoryEpochRequest>(message.body)) {
        questions[message.to] = message.directory_epoch;
      }
    }
    return questions;
  }

 private:
  const uint32_t version_;
};

TEST_CASE("a member recovers after its leader's acknowledgement and a newly committed entry") {
  Newcomer server(kVersionMembershipInLog);
  CHECK(server.Questions() == std::map<MemberId, uint64_t>{{MemberId{2}, 0}, {MemberId{3}, 0}});
  // Member 3 never answers.
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, 7});
  auto questions = server.Questions();
  const uint64_t directory_epoch = questions[MemberId{2}];
  CHECK(directory_epoch > 7);
  CHECK(server.TakeBodies<ReadIndexRequest>().empty());
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, 7});  // an answer to an earlier request
  CHECK(server.TakeBodies<ReadIndexRequest>().empty());
  server.Say(2, DirectoryEpochResponse{directory_epoch, directory_epoch});
  const auto reads = server.TakeBodies<ReadIndexRequest>();
  REQUIRE(reads.size() == 1);
  CHECK(reads[0].second.recovering);
  server.Say(2, ReadIndexResponse{reads[0].second.request_id, Index{2}});
  server.Append(1, 4, 2, 1);
  server.member().Collect();
  CHECK(server.raft().member_state() == MemberState::kRecovering);  // not durable yet
  server.Take();
  CHECK(server.raft().member_state() == MemberState::kRecovering);  // not committed yet
  server.Say(2, Heartbeat{Index{2}, {}});
  server.member().Collect();
  CHECK(server.raft().member_state() == MemberState::kNormal);
  // A restart would find it recovering.
  CHECK(server.member().status.member_state == MemberState::kRecovering);
  server.Take();
  CHECK(server.member().status.member_state == MemberState::kNormal);
  CHECK(server.member().disk().hard_state.vote == MemberId{2});
  CHECK(server.member().disk().directory_epoch == directory_epoch);
  server.Say(2, Heartbeat{});
  for (const Message& message : server.Take()) {
    CHECK(message.voting);
    CHECK(message.directory_epoch == directory_epoch);
  }
  // Member 3 may still hear from the lost directory. It is asked until it has recorded the new one.
  const auto announced_to = [&server] {
    std::vector<MemberId> members;
    for (int i = 0; i < kElectionTicks; ++i) {
      server.Tick(1);
      server.Say(2, Heartbeat{});
      for (const auto& [to, request] : server.TakeBodies<DirectoryEpochRequest>())
        members.push_back(to);
    }
    return members;
  };
  CHECK(announced_to() == Ids({3}));
  server.Say(3, DirectoryEpochResponse{directory_epoch, kDirectoryEpochInUse});
  CHECK(announced_to() == Ids({3}));
  server.Say(3, DirectoryEpochResponse{directory_epoch, directory_epoch});
  CHECK(announced_to().empty());
}

TEST_CASE("under a leader of an older version a member recovers after all acknowledgements") {
  Newcomer server(kVersionMembershipInLog - 1);
  server.Questions();
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, 0});
  CHECK(server.Questions() == std::map<MemberId, uint64_t>{{MemberId{3}, 0}});
  // This is an epoch that an older program derived from its clock.
  server.Say(3, DirectoryEpochResponse{kNoDirectoryEpoch, 1'700'000'000'000});
  const auto questions = server.Questions();
  REQUIRE(questions.size() == 2);
  const uint64_t directory_epoch = questions.begin()->second;
  CHECK(directory_epoch > 1'700'000'000'000);
  server.Say(2, DirectoryEpochResponse{directory_epoch, directory_epoch});
  CHECK(server.TakeBodies<ReadIndexRequest>().empty());
  server.Say(3, DirectoryEpochResponse{directory_epoch, directory_epoch});
  const auto reads = server.TakeBodies<ReadIndexRequest>();
  REQUIRE(reads.size() == 1);
  server.Say(2, ReadIndexResponse{reads[0].second.request_id, Index{1}});
  server.Take();
  CHECK(server.raft().member_state() == MemberState::kNormal);
}

TEST_CASE("the read index of an earlier leader does not count") {
  Newcomer server(kVersionMembershipInLog);
  server.Questions();
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, 0});
  const uint64_t directory_epoch = server.Questions()[MemberId{2}];
  server.Say(2, DirectoryEpochResponse{directory_epoch, directory_epoch});
  const auto reads = server.TakeBodies<ReadIndexRequest>();
  REQUIRE(reads.size() == 1);
  server.Say(3, Heartbeat{}, 5);
  server.Say(3, ReadIndexResponse{reads[0].second.request_id, Index{1}}, 5);
  server.Take();
  CHECK(server.raft().member_state() == MemberState::kRecovering);
}

TEST_CASE("directory epochs grow from term to term, and in a term with the known epochs") {
  std::vector<uint64_t> directory_epochs;
  for (uint64_t term : {4, 5}) {
    for (uint64_t known : {0, 1}) {
      Newcomer server(kVersionMembershipInLog);
      server.Say(2, Heartbeat{}, term);
      server.Say(
          2, DirectoryEpochResponse{kNoDirectoryEpoch, known == 0 ? 0 : directory_epochs.back()},
          term);
      directory_epochs.push_back(server.Questions()[MemberId{2}]);
    }
  }
  CHECK(std::is_sorted(directory_epochs.begin(), directory_epochs.end()));
  CHECK(std::set<uint64_t>(directory_epochs.begin(), directory_epochs.end()).size() ==
        directory_epochs.size());
}

TEST_CASE("a leader answers a recovering member's read index request with a new entry") {
  Server server;
  server.Lead();
  const Index last = server.raft().last_index();
  server.Receive(2, 1, HeartbeatResponse{}, /*voting=*/false);
  server.Receive(2, 1, ReadIndexRequest{9, true}, /*voting=*/false);
  server.Take();
  CHECK(server.raft().last_index() == last + 1);
  // The commit of the entry does not count the member that asked.
  server.Acknowledge(2, last.value() + 1, /*voting=*/false);
  CHECK(server.raft().commit_index() == last);
  server.Acknowledge(3, last.value() + 1);
  CHECK(server.raft().commit_index() == last + 1);
  server.Take();
  server.Receive(3, 1, HeartbeatResponse{ReadRound{1}});
  const auto answers = server.TakeBodies<ReadIndexResponse>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].second == ReadIndexResponse{9, last + 1});
  // A member that counts has lost nothing. Therefore no entry is appended for it.
  server.Receive(3, 1, ReadIndexRequest{9, true});
  server.Take();
  CHECK(server.raft().last_index() == last + 1);
}

// Lets member 2 be silent until its directory does not count as in use, while member 3 is heard
// from.
void LetFallSilent(Server* server) {
  for (int i = 0; i < 5; ++i) {
    server->Tick(kElectionTicks - 1);
    server->Receive(3, server->raft().term().value(), HeartbeatResponse{});
  }
  server->Take();
}

TEST_CASE("a leader counts neither recovering members nor acknowledgements of a lost directory") {
  Server server;
  server.Lead();
  LetFallSilent(&server);
  server.Propose(1);
  const uint64_t last = server.raft().last_index().value();
  server.Acknowledge(2, last, /*voting=*/false, /*directory_epoch=*/2);
  CHECK(server.raft().commit_index() == Index{last - 1});
  CHECK(absl::IsFailedPrecondition(server.raft().TransferLeadership(MemberId{2})));
  server.Acknowledge(2, last, /*voting=*/true, /*directory_epoch=*/1);
  CHECK(server.raft().commit_index() == Index{last - 1});
  const auto acknowledgement = server.TakeBodies<DirectoryEpochResponse>();
  REQUIRE(acknowledgement.size() == 1);
  CHECK(acknowledgement[0].second == DirectoryEpochResponse{1, 2});
  // Member 2 is normal now.
  server.Receive(2, 1, HeartbeatResponse{}, /*voting=*/true, /*directory_epoch=*/2);
  CHECK(server.raft().commit_index() == Index{last});
  // A still later directory has no entries.
  LetFallSilent(&server);
  server.Receive(2, 1, HeartbeatResponse{}, /*voting=*/false, /*directory_epoch=*/3);
  CHECK(server.raft().match_index(MemberId{2}) == Index{0});
}

TEST_CASE(
    "entries acknowledged without a directory epoch do not count after a message of the lost "
    "directory") {
  Server server;
  while (server.raft().role() == Role::kFollower) server.raft().Tick();
  server.Receive(3, server.raft().term().value() + 1, VoteResponse{true, true});
  server.Take();
  server.Receive(3, server.raft().term().value(), VoteResponse{false, true});
  REQUIRE(server.raft().role() == Role::kLeader);
  server.Take();
  // This is the first message of member 2's new directory.
  server.Acknowledge(2, 1, /*voting=*/false, kNoDirectoryEpoch);
  CHECK(server.raft().match_index(MemberId{2}) == Index{1});
  CHECK(server.raft().commit_index() == Index{0});
  // This is a late message of the earlier directory.
  server.Receive(2, server.raft().term().value(), HeartbeatResponse{}, /*voting=*/true,
                 /*directory_epoch=*/1);
  CHECK(server.raft().match_index(MemberId{2}) == Index{0});
  CHECK(server.raft().commit_index() == Index{0});
}

TEST_CASE("a directory in use is not displaced by another directory of the same member") {
  // Not the constant itself: GENERATE would keep references, also to the temporaries after
  // it.
  const uint64_t directory_epoch =
      GENERATE(uint64_t{kNoDirectoryEpoch}, kFirstDirectoryEpoch + 1, uint64_t{1} << 40);
  const bool voting = GENERATE(false, true);
  Server server;
  server.Lead();
  const Index last = server.raft().last_index();
  server.Receive(2, 1, HeartbeatResponse{}, voting, directory_epoch);
  const auto answers = server.TakeBodies<DirectoryEpochResponse>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].second == DirectoryEpochResponse{directory_epoch, kDirectoryEpochInUse});
  CHECK(server.raft().match_index(MemberId{2}) == last);
  // The directory in use counts as before.
  server.Propose(1);
  server.Acknowledge(2, last.value() + 1);
  CHECK(server.raft().commit_index() == last + 1);
}

TEST_CASE("a directory epoch that no election can have caused is ignored") {
  Server server;
  server.Lead();
  LetFallSilent(&server);
  server.Receive(2, 1, HeartbeatResponse{}, /*voting=*/true, ~uint64_t{0} - 1);
  server.Propose(1);
  server.Acknowledge(2, server.raft().last_index().value());
  CHECK(server.raft().commit_index() == server.raft().last_index());
}

TEST_CASE("a refused new directory reports the refusing member, and continues to ask") {
  Newcomer server(kVersionMembershipInLog);
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, kDirectoryEpochInUse});
  CHECK(server.Questions().contains(MemberId{2}));
  CHECK(server.member().status.refused_by == MemberId{2});
  server.Say(2, DirectoryEpochResponse{kNoDirectoryEpoch, 3});
  server.Take();
  CHECK(server.member().status.refused_by == kNoMember);
}

TEST_CASE("a single report of a later directory does not end the member") {
  Server server;
  // These are answers without a request, again and again.
  for (int i = 0; i < 20; ++i) server.Receive(2, 1, DirectoryEpochResponse{1, 8});
  server.Take();
  CHECK(server.member().status.later_directory_epoch == 0);
  server.Tick(kHeartbeatTicks);
  CHECK(server.TakeBodies<DirectoryEpochRequest>().size() == 1);
  // Member 2 itself denies it.
  server.Receive(2, 1, DirectoryEpochResponse{1, 1});
  server.Tick(10 * kElectionTicks);
  CHECK(server.TakeBodies<DirectoryEpochRequest>().empty());
  // This answer is for another directory than this one.
  server.Receive(2, 1, DirectoryEpochResponse{2, 8});
  server.Tick(kHeartbeatTicks);
  CHECK(server.TakeBodies<DirectoryEpochRequest>().empty());
}

TEST_CASE("a member ends when a majority has confirmed a later directory several times") {
  Server server;
  for (int round = 0; round < 10; ++round) {
    for (uint32_t from : {2, 3}) server.Receive(from, 1, DirectoryEpochResponse{1, 8});
    server.Tick(kHeartbeatTicks);
    server.Take();
    CHECK((server.member().status.later_directory_epoch == 8) == (round >= 3));
    if (round >= 3) break;
  }
}

TEST_CASE("a heartbeat meant for the lost directory commits nothing") {
  Server server({Ids({1, 2, 3}), {}, {}, {}}, MemberState::kNew);
  const Entry junk{Index{1}, Term{1}, EntryKind::kNoOp, {}};
  server.Receive(3, 1, AppendRequest{{}, {}, {}, {junk}});
  server.Receive(2, 2, Heartbeat{Index{1}, {}});
  CHECK(server.raft().commit_index() == Index{0});
}

TEST_CASE("a program that is too old for an offered snapshot reports that after a while") {
  RaftOptions options = Options({Ids({1, 2, 3}), {}, {}, {}});
  options.version = kVersionLossNotice;
  Server server(options, {});
  SnapshotMeta meta = SomeMeta(9, 1);
  meta.version = kVersionMembershipInLog;
  const SnapshotChunk chunk{meta, 0, false, Slice("x")};
  server.Receive(2, 1, chunk);
  server.Take();
  CHECK(server.member().status.version_needed == 0);
  for (int i = 0; i < kElectionTicks; ++i) {
    server.Receive(2, 1, chunk);
    server.Tick(1);
  }
  server.Take();
  CHECK(server.member().status.version_needed == kVersionMembershipInLog);
  // Entries show that this member does not need the snapshot.
  server.Receive(2, 1, AppendRequest{});
  server.Take();
  CHECK(server.member().status.version_needed == 0);
}

// --- Disk stall ----------------------------------------------------------------------------------

TEST_CASE("a leader whose disk stalls hands leadership over, or steps down if no member takes it") {
  RaftOptions options = Options({Ids({1, 2, 3}), {}, {}, {}});
  options.disk_stall_ticks = 5;
  Server server(options, {});
  server.Lead();
  REQUIRE(server.raft().Propose({Slice("x")}).ok());
  server.member().Collect();
  const uint64_t last = server.raft().last_index().value();
  auto tick = [&] {
    for (uint32_t from : {2, 3}) server.Acknowledge(from, last);
    server.Tick(1);
    server.member().Collect();
  };
  for (int i = 0; i < 4; ++i) tick();
  CHECK(server.raft().commit_index() == Index{last});  // by the other members
  CHECK(server.raft().Propose({}).ok());
  tick();
  CHECK(absl::IsFailedPrecondition(server.raft().Propose({Slice("y")})));
  server.raft().CancelTransfer();
  CHECK(absl::IsFailedPrecondition(server.raft().Propose({Slice("y")})));
  for (int i = 0; i < kElectionTicks; ++i) tick();
  CHECK(server.raft().role() == Role::kFollower);
  server.Tick(10 * kElectionTicks);
  CHECK(server.raft().role() == Role::kFollower);
}

}  // namespace
}  // namespace quorate::consensus
