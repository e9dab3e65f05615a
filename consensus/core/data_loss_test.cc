// SPDX-License-Identifier: Apache-2.0

// Tests a member whose disk has lost entries that the member acknowledged.
#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/core/testing/test_server.h"

namespace quorate::consensus {
namespace {

// A follower with three entries of term 4 that is notified that it had acknowledged five.
class Loser : public Server {
 public:
  Loser() {
    Append(1, 3);
    Receive(2, 4, LossNotice{Index{5}, Term{4}});
    Take();
  }
  void Append(uint64_t first, uint64_t last) {
    AppendRequest request{Index{first - 1}, Term{first == 1 ? 0u : 4u}, Index{first - 1}, {}};
    for (uint64_t i = first; i <= last; ++i) {
      request.entries.push_back({Index{i}, Term{4}, EntryKind::kNoOp, {}});
    }
    Receive(2, 4, std::move(request));
  }
  // Returns whether the follower votes for member 3 in `term`.
  bool VotesFor(uint64_t term, Term last_term, Index last_index) {
    Tick(2 * kElectionTicks);
    Take();
    Receive(3, term, VoteRequest{false, false, last_index, last_term});
    const auto votes = TakeBodies<VoteResponse>();
    REQUIRE(votes.size() == 1);
    return votes[0].second.granted;
  }
  bool lacks_entries() { return member().status.lost_last > Index{0}; }
};

TEST_CASE("a member with a known loss votes only for candidates that have the lost entries") {
  Loser server;
  CHECK(server.member().status.lost_first == Index{4});
  CHECK(server.member().status.lost_last == Index{5});
  CHECK_FALSE(server.VotesFor(5, Term{4}, Index{4}));
  CHECK(server.VotesFor(6, Term{4}, Index{5}));
  CHECK(server.lacks_entries());
}

TEST_CASE("a member with a known loss does not campaign") {
  Loser server;
  server.Tick(10 * kElectionTicks);
  CHECK(server.raft().role() == Role::kFollower);
  server.Receive(2, 4, TimeoutNow{});
  CHECK(server.raft().role() == Role::kFollower);
}

TEST_CASE("a loss ends when the entries are durable again") {
  Loser server;
  server.Append(4, 4);
  server.Take();
  CHECK(server.lacks_entries());
  server.Append(5, 5);
  server.member().Collect();
  CHECK(server.lacks_entries());
  server.Take();
  CHECK_FALSE(server.lacks_entries());
  CHECK_FALSE(server.VotesFor(5, Term{4}, Index{4}));
}

TEST_CASE("a loss ends when a later leader has committed other entries in their place") {
  Loser server;
  const Entry other{Index{4}, Term{6}, EntryKind::kNoOp, {}};
  server.Receive(3, 6, AppendRequest{Index{3}, Term{4}, Index{3}, {other}});
  server.Take();
  CHECK(server.lacks_entries());
  server.Receive(3, 6, Heartbeat{Index{4}, ReadRound{1}});
  server.Take();
  CHECK_FALSE(server.lacks_entries());
}

TEST_CASE("a late or repeated notice of a loss changes nothing") {
  Loser server;
  server.Append(4, 5);
  server.Take();
  server.Receive(2, 4, LossNotice{Index{5}, Term{4}});
  server.Receive(2, 3, LossNotice{Index{9}, Term{3}});
  server.Receive(2, 4, LossNotice{Index{9}, Term{5}});
  server.Take();
  CHECK_FALSE(server.lacks_entries());
}

TEST_CASE("an older, longer log does not replace the lost entries") {
  // The disk has brought back entries that entries of term 4 had replaced.
  TestMember::Disk disk = DiskOf(MemberState::kNormal);
  disk.hard_state.term = Term{3};
  for (uint64_t i = 1; i <= 9; ++i) {
    disk.log.push_back({Index{i}, Term{3}, EntryKind::kNoOp, {}});
  }
  Server server(Options({Ids({1, 2, 3}), {}, {}, {}}), disk);
  server.Receive(2, 4, LossNotice{Index{5}, Term{4}});
  server.Take();
  CHECK(server.member().status.lost_first == Index{1});
  CHECK(server.member().status.lost_last == Index{5});
  server.Tick(10 * kElectionTicks);
  CHECK(server.raft().role() == Role::kFollower);
  const auto votes_for = [&server](uint64_t term, uint64_t last_index) {
    server.Tick(2 * kElectionTicks);
    server.Take();
    server.Receive(3, term, VoteRequest{false, false, Index{last_index}, Term{4}});
    const auto votes = server.TakeBodies<VoteResponse>();
    REQUIRE(votes.size() == 1);
    return votes[0].second.granted;
  };
  CHECK_FALSE(votes_for(5, 4));
  CHECK(votes_for(6, 5));
  AppendRequest request{Index{3}, Term{3}, Index{3}, {}};
  for (uint64_t i = 4; i <= 5; ++i) {
    request.entries.push_back({Index{i}, Term{4}, EntryKind::kNoOp, {}});
  }
  server.Receive(3, 6, request);
  server.Take();
  CHECK(server.member().status.lost_last == Index{0});
}

TEST_CASE("a leader notifies a follower that rejects acknowledged entries, if its version allows") {
  const uint32_t version = GENERATE(kVersionLossNotice - 1, kVersionLossNotice);
  Server server;
  server.Lead();
  server.Take();
  const Index last = server.raft().last_index();
  server.raft().PeerUnreachable(MemberId{2});
  server.Take();
  const AppendRejected rejection{last, Index{1}, Term{1}};
  server.Receive({MemberId{2}, MemberId{1}, server.raft().term(), rejection, 1, version, true});
  const auto notices = server.TakeBodies<LossNotice>();
  REQUIRE(notices.size() == (version == kVersionLossNotice ? 1 : 0));
  for (const auto& [to, notice] : notices) {
    CHECK(to == MemberId{2});
    CHECK(notice == LossNotice{last, server.raft().term()});
  }
  CHECK(server.raft().match_index(MemberId{2}) < last);
}

}  // namespace
}  // namespace quorate::consensus
