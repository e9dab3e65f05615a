// SPDX-License-Identifier: Apache-2.0

// Tests observers that are fed by followers. Member 1 is the one under test, and the test plays the
// others: the voters are 1, 2 and 3, the observers 4 and 5.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/core/testing/test_server.h"

namespace quorate::consensus {
namespace {

using Report = std::vector<FedObserver>;

const Membership kMembers{Ids({1, 2, 3}), Ids({4, 5}), {}, {}};

RaftOptions FeederOptions(uint32_t version = kVersionNewest) {
  RaftOptions options = Options(kMembers);
  options.feeds_observers = true;
  options.version = version;
  return options;
}

// --- At the leader -------------------------------------------------------------------------------

FedObserver Fed(uint32_t member, Index match) {
  return {MemberId{member}, match, kFirstDirectoryEpoch, kVersionNewest, true};
}

// One heartbeat interval in which all members answer; followers 2 and 3 send `reports`.
void Interval(Server* server, const std::optional<Report>& report2,
              const std::optional<Report>& report3 = std::nullopt) {
  server->Receive(2, 1, HeartbeatResponse{ReadRound{0}, report2});
  server->Receive(3, 1, HeartbeatResponse{ReadRound{0}, report3});
  server->Tick(kHeartbeatTicks);
}

template <typename Body>
size_t CountTo(const std::vector<Message>& messages, uint32_t to) {
  return static_cast<size_t>(std::count_if(messages.begin(), messages.end(), [&](const auto& m) {
    return m.to == MemberId{to} && std::holds_alternative<Body>(m.body);
  }));
}

// Returns the observers that the last heartbeat to `member` in `messages` names.
std::vector<MemberId> Given(const std::vector<Message>& messages, uint32_t member) {
  std::vector<MemberId> given;
  for (const Message& message : messages) {
    const auto* heartbeat = std::get_if<Heartbeat>(&message.body);
    if (heartbeat != nullptr && message.to == MemberId{member}) given = heartbeat->observers;
  }
  return given;
}

// A leader that has given both observers to 2, the only follower that is ready.
Server Leader() {
  Server server(kMembers);
  server.Lead();
  Interval(&server, Report{});
  Interval(&server, Report{});
  CHECK(Given(server.Take(), 2) == Ids({4, 5}));
  return server;
}

TEST_CASE("a leader sends nothing to an observer that a follower feeds") {
  Server server = Leader();
  server.AcknowledgeAll();
  for (int i = 0; i < 5; ++i) {
    REQUIRE(server.raft().Propose({Slice("x")}).ok());
    const Index last = server.raft().last_index();
    server.Acknowledge(2, last.value());
    Interval(&server, Report{Fed(4, last), Fed(5, last - 1)});
    const std::vector<Message> sent = server.Take();
    for (const Message& message : sent) CHECK(message.to <= MemberId{3});
    CHECK(CountTo<Heartbeat>(sent, 2) > 0);
    // The leader knows how far they are.
    CHECK(server.raft().match_index(MemberId{4}) == last);
    CHECK(server.raft().match_index(MemberId{5}) == last - 1);
    CHECK(server.raft().HasCaughtUp(MemberId{4}));
  }
}

TEST_CASE("observers are spread over the followers") {
  Server server(kMembers);
  server.Lead();
  Interval(&server, Report{}, Report{});
  Interval(&server, Report{}, Report{});
  const std::vector<Message> sent = server.Take();
  CHECK(Given(sent, 2) == Ids({4}));
  CHECK(Given(sent, 3) == Ids({5}));
}

TEST_CASE("a leader feeds an observer itself while no follower is ready") {
  Server server(kMembers);
  server.Lead();
  Interval(&server, std::nullopt);
  Interval(&server, std::nullopt);
  REQUIRE(server.raft().Propose({Slice("x")}).ok());
  const std::vector<Message> sent = server.Take();
  CHECK(CountTo<AppendRequest>(sent, 4) == 1);
  CHECK(CountTo<Heartbeat>(sent, 4) > 0);
}

TEST_CASE("an observer of an older version is not given away") {
  Server server(kMembers);
  server.Lead();
  server.Receive({MemberId{4}, MemberId{1}, Term{1}, HeartbeatResponse{}, kFirstDirectoryEpoch,
                  kVersionFeeding - 1, true});
  Interval(&server, Report{});
  Interval(&server, Report{});
  CHECK(Given(server.Take(), 2) == Ids({5}));
}

TEST_CASE("a leader takes observers back when their feeder is lost or does not hear from them") {
  SECTION("the connection to the feeder breaks") {
    Server server = Leader();
    server.raft().PeerUnreachable(MemberId{2});
    server.Tick(1);
    CHECK(CountTo<AppendRequest>(server.Take(), 4) == 1);
  }
  SECTION("the feeder is silent") {
    Server server = Leader();
    size_t sent = 0;
    for (int i = 0; i < kElectionTicks + 1; ++i) {
      server.Receive(3, 1, HeartbeatResponse{});
      server.Tick(1);
      sent += CountTo<AppendRequest>(server.Take(), 4);
    }
    CHECK(server.raft().role() == Role::kLeader);
    CHECK(sent > 0);
  }
  SECTION("the feeder does not hear from one of them, which then gets another feeder") {
    Server server = Leader();
    const Index last = server.raft().last_index();
    std::vector<MemberId> other;
    size_t sent = 0;
    for (int i = 0; i < 20 && other.empty(); ++i) {
      Interval(&server, Report{Fed(4, last)}, Report{});
      const std::vector<Message> messages = server.Take();
      sent += CountTo<AppendRequest>(messages, 5);
      if (sent > 0) server.Acknowledge(5, last.value());
      CHECK(CountTo<AppendRequest>(messages, 4) == 0);
      other = Given(messages, 3);
    }
    CHECK(sent > 0);
    CHECK(other == Ids({5}));
  }
}

TEST_CASE("an observer that becomes a voter is taken back first, and has to show what it has") {
  Server server = Leader();
  const Index last = server.raft().last_index();
  Interval(&server, Report{Fed(4, last), Fed(5, last)});
  server.Take();
  REQUIRE(server.raft().HasCaughtUp(MemberId{4}));
  CHECK(server.Change(Ids({1, 2, 3, 4}), Ids({5})).code() == absl::StatusCode::kUnavailable);
  // A report of the feeder that was under way does not count.
  Interval(&server, Report{Fed(4, last), Fed(5, last)});
  CHECK(server.Change(Ids({1, 2, 3, 4}), Ids({5})).code() == absl::StatusCode::kUnavailable);
  CHECK(CountTo<AppendRequest>(server.Take(), 4) > 0);
  server.Acknowledge(4, last.value());
  CHECK(server.Change(Ids({1, 2, 3, 4}), Ids({5})).ok());
}

TEST_CASE("a removed observer receives its removal from the leader") {
  Server server = Leader();
  REQUIRE(server.Change(Ids({1, 2, 3}), Ids({5})).ok());
  server.Take();
  server.Acknowledge(2, server.raft().last_index().value());
  Interval(&server, Report{});
  const std::vector<Message> sent = server.Take();
  CHECK(CountTo<AppendRequest>(sent, 4) == 1);
  CHECK(Given(sent, 2) == Ids({5}));
}

// --- At the follower -----------------------------------------------------------------------------

Entry At(uint64_t index) { return {Index{index}, Term{1}, EntryKind::kCommand, Slice("x")}; }

// A follower of 2 with the entries 1 to 3, of which 2 are committed.
Server Follower(RaftOptions options = FeederOptions()) {
  Server server(std::move(options), DiskOf(MemberState::kNormal));
  server.Receive(2, 1, AppendRequest{{}, {}, Index{2}, {At(1), At(2), At(3)}});
  server.Take();
  return server;
}

TEST_CASE("a follower feeds committed entries on behalf of its leader, and reports about it") {
  Server server = Follower();
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  std::vector<Message> sent = server.Take();
  REQUIRE(CountTo<Heartbeat>(sent, 4) == 1);
  REQUIRE(CountTo<AppendRequest>(sent, 4) == 1);
  for (const Message& message : sent) {
    CHECK(message.on_behalf_of == (message.to == MemberId{4} ? MemberId{2} : kNoMember));
  }
  // The observer lacks everything.
  const auto probe = std::get<AppendRequest>(sent.back().body);
  server.Receive(4, 1, AppendRejected{probe.prev_index, Index{0}, Term{0}});
  sent = server.Take();
  REQUIRE(CountTo<AppendRequest>(sent, 4) == 1);
  const auto append = std::get<AppendRequest>(sent.back().body);
  CHECK(append.entries == std::vector{At(1), At(2)});
  CHECK(append.commit == Index{2});
  server.Acknowledge(4, 2);
  server.Take();
  // The third entry follows when it is committed, and not before.
  server.Receive(2, 1, AppendRequest{Index{3}, Term{1}, Index{3}, {}, true});
  sent = server.Take();
  REQUIRE(CountTo<AppendRequest>(sent, 4) == 1);
  CHECK(std::get<AppendRequest>(sent.back().body).entries == std::vector{At(3)});
  server.Acknowledge(4, 3);
  server.Tick(kHeartbeatTicks);
  server.Receive(2, 1, Heartbeat{Index{3}, {}, Ids({4})});
  const auto answers = server.TakeBodies<HeartbeatResponse>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].second.fed == Report{Fed(4, Index{3})});
}

TEST_CASE("a follower sends heartbeats only for regular heartbeats of its leader") {
  Server server = Follower();
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  CHECK(CountTo<Heartbeat>(server.Take(), 4) == 1);
  // A round of reads.
  server.Receive(2, 1, Heartbeat{Index{2}, ReadRound{1}, Ids({4})});
  CHECK(CountTo<Heartbeat>(server.Take(), 4) == 0);
  // The leader is silent.
  server.Tick(kElectionTicks - 1);
  CHECK(CountTo<Heartbeat>(server.Take(), 4) == 0);
}

TEST_CASE("a follower stops feeding when it is told to, or has another leader") {
  Server server = Follower();
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  server.Take();
  SECTION("told to") { server.Receive(2, 1, Heartbeat{Index{2}, {}}); }
  SECTION("another leader") { server.Receive(3, 2, Heartbeat{Index{2}, {}}); }
  server.Take();
  server.Acknowledge(4, 2);
  server.Receive(server.raft().leader().value(), server.raft().term().value(),
                 AppendRequest{Index{3}, Term{1}, Index{3}, {}});
  for (const Message& message : server.Take()) CHECK(message.to != MemberId{4});
}

TEST_CASE("a follower feeds nobody unless it is configured to, and both programs know of it") {
  RaftOptions options = FeederOptions();
  SECTION("not configured") { options.feeds_observers = false; }
  SECTION("an old program") { options.version = kVersionFeeding - 1; }
  Server server = Follower(options);
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  for (const Message& message : server.Take()) {
    CHECK(message.to == MemberId{2});
    if (const auto* answer = std::get_if<HeartbeatResponse>(&message.body)) CHECK(!answer->fed);
  }
}

TEST_CASE("an observer that has received more from the leader than its feeder has is fed further") {
  Server server = Follower();
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  server.Take();
  server.Acknowledge(4, 9);
  server.Take();
  server.Receive(2, 1, AppendRequest{Index{3}, Term{1}, Index{3}, {}, true});
  const std::vector<Message> sent = server.Take();
  REQUIRE(CountTo<AppendRequest>(sent, 4) == 1);
  CHECK(std::get<AppendRequest>(sent.back().body).entries == std::vector{At(3)});
}

// --- At the observer -----------------------------------------------------------------------------

// Member 1 is an observer.
Server Observer() {
  RaftOptions options = Options({Ids({2, 3, 4}), Ids({1}), {}, {}});
  return Server(std::move(options), DiskOf(MemberState::kNormal));
}

void ReceiveFor(Server* server, uint32_t from, uint32_t leader, uint64_t term, auto body) {
  Message message{MemberId{from}, MemberId{1}, Term{term}, std::move(body)};
  message.on_behalf_of = MemberId{leader};
  server->Receive(std::move(message));
}

TEST_CASE("an observer acknowledges to its feeder, and asks its leader for reads") {
  Server server = Observer();
  ReceiveFor(&server, 3, 2, 1, AppendRequest{{}, {}, Index{2}, {At(1), At(2)}});
  CHECK(server.raft().leader() == MemberId{2});
  CHECK(server.raft().commit_index() == Index{2});
  server.raft().ReadIndex(7);
  std::vector<Message> sent = server.Take();
  CHECK(CountTo<AppendAccepted>(sent, 3) == 1);
  CHECK(CountTo<ReadIndexRequest>(sent, 2) == 1);
  CHECK(sent.size() == 2);
  ReceiveFor(&server, 3, 2, 1, Heartbeat{Index{2}, {}});
  sent = server.Take();
  CHECK(CountTo<HeartbeatResponse>(sent, 3) == 1);
  // The leader feeds it again.
  server.Receive(2, 1, AppendRequest{Index{2}, Term{1}, Index{3}, {At(3)}});
  sent = server.Take();
  CHECK(CountTo<AppendAccepted>(sent, 2) == 1);
  CHECK(sent.size() == 1);
}

TEST_CASE("an observer believes no feeder of another leader or of an older term") {
  Server server = Observer();
  server.Receive(2, 2, AppendRequest{{}, {}, Index{1}, {At(1)}});
  server.Take();
  SECTION("another leader of the term") {
    ReceiveFor(&server, 3, 4, 2, AppendRequest{Index{1}, Term{1}, Index{2}, {At(2)}});
  }
  SECTION("an older term") {
    ReceiveFor(&server, 3, 2, 1, AppendRequest{Index{1}, Term{1}, Index{2}, {At(2)}});
  }
  SECTION("a message that no follower sends for its leader") {
    ReceiveFor(&server, 3, 2, 2, TimeoutNow{});
  }
  SECTION("the receiver cannot be the leader") {
    ReceiveFor(&server, 3, 1, 3, AppendRequest{Index{1}, Term{1}, Index{2}, {At(2)}});
  }
  CHECK(server.raft().leader() == MemberId{2});
  CHECK(server.raft().last_index() == Index{1});
}

}  // namespace
}  // namespace quorate::consensus
