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
  return {MemberId{member}, match, kFirstDirectoryEpoch};
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

TEST_CASE("a leader sends only heartbeats to an observer that a follower feeds") {
  Server server = Leader();
  server.AcknowledgeAll();
  for (int i = 0; i < 5; ++i) {
    REQUIRE(server.raft().Propose({Slice("x")}).ok());
    const Index last = server.raft().last_index();
    server.Acknowledge(2, last.value());
    Interval(&server, Report{Fed(4, last), Fed(5, last - 1)});
    const std::vector<Message> sent = server.Take();
    for (const Message& message : sent) {
      if (message.to <= MemberId{3}) continue;
      // Only the follower that feeds an observer knows which entries the observer has.
      const auto* heartbeat = std::get_if<Heartbeat>(&message.body);
      REQUIRE(heartbeat != nullptr);
      CHECK(heartbeat->commit == Index{0});
    }
    for (uint32_t member : {2, 4, 5}) CHECK(CountTo<Heartbeat>(sent, member) > 0);
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
  SECTION("the connection to the feeder breaks, and is not made again in time") {
    Server server = Leader();
    server.raft().PeerUnreachable(MemberId{2});
    size_t sent = 0;
    for (int i = 0; i < kElectionTicks + 1; ++i) {
      server.Receive(3, 1, HeartbeatResponse{});
      server.Tick(1);
      CHECK(sent == 0);
      sent += CountTo<AppendRequest>(server.Take(), 4);
      if (sent > 0) break;
    }
    CHECK(sent > 0);
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

TEST_CASE("a feeder whose connection breaks shortly keeps its observers") {
  Server server = Leader();
  const Index last = server.raft().last_index();
  for (int i = 0; i < 10; ++i) {
    server.raft().PeerUnreachable(MemberId{2});
    server.Tick(1);
    Interval(&server, Report{Fed(4, last), Fed(5, last)}, Report{});
    const std::vector<Message> sent = server.Take();
    CHECK(CountTo<AppendRequest>(sent, 4) == 0);
    CHECK(Given(sent, 2) == Ids({4, 5}));
  }
}

TEST_CASE("an observer that its feeder does not reach from the first is taken back sooner") {
  RaftOptions options = Options(kMembers);
  options.heartbeat_ticks = 1;
  options.election_ticks = 100;
  Server server(options, DiskOf(MemberState::kNormal));
  server.Lead();
  int ticks = 0;
  size_t sent = 0;
  for (; sent == 0 && ticks < 50; ++ticks) {
    server.Receive(2, 1,
                   HeartbeatResponse{ReadRound{0}, Report{Fed(5, server.raft().last_index())}});
    server.Receive(3, 1, HeartbeatResponse{});
    server.Tick(1);
    const std::vector<Message> messages = server.Take();
    CHECK(CountTo<Heartbeat>(messages, 4) == 1);  // whoever feeds it
    CHECK(CountTo<AppendRequest>(messages, 5) == 0);
    sent = CountTo<AppendRequest>(messages, 4);
  }
  CHECK(sent == 1);
  CHECK(ticks == 5);
}

TEST_CASE("observers are not given to a follower that is behind") {
  RaftOptions options = Options(kMembers);
  SECTION("from the first") {
    options.heartbeat_ticks = 1;
    Server server(options, DiskOf(MemberState::kNormal));
    server.Lead();
    server.Propose(50);
    for (uint32_t member : {3, 4, 5})
      server.Acknowledge(member, server.raft().last_index().value());
    server.Tick(kElectionTicks - 1);
    for (int i = 0; i < 100; ++i) {
      for (uint32_t member : {3, 4, 5}) server.Receive(member, 1, HeartbeatResponse{});
      server.Receive(2, 1, HeartbeatResponse{ReadRound{0}, Report{}});
      server.Tick(1);
      CHECK(Given(server.Take(), 2).empty());
    }
    // It catches up.
    server.AcknowledgeAll();
    server.Receive(2, 1, HeartbeatResponse{ReadRound{0}, Report{}});
    server.Tick(2);
    CHECK(Given(server.Take(), 2) == Ids({4, 5}));
  }
  SECTION("later, and its observers with it") {
    Server server(options, DiskOf(MemberState::kNormal));
    server.Lead();
    Interval(&server, Report{});
    Interval(&server, Report{});
    REQUIRE(Given(server.Take(), 2) == Ids({4, 5}));
    const Index before = server.raft().last_index();
    size_t sent = 0;
    for (int i = 0; i < 2 * kElectionTicks / kHeartbeatTicks; ++i) {
      server.Propose(1);
      server.Acknowledge(3, server.raft().last_index().value());
      Interval(&server, Report{Fed(4, before), Fed(5, before)});
      sent += CountTo<AppendRequest>(server.Take(), 4);
    }
    CHECK(server.raft().commit_index() == server.raft().last_index());
    CHECK(sent > 0);
  }
}

TEST_CASE("a follower that feeds and ceases to vote gets a feeder only after it feeds nobody") {
  Server server = Leader();
  REQUIRE(server.Change(Ids({1, 3}), Ids({2, 4, 5})).ok());
  // The leader says that it feeds nobody any more, feeds the observers, and then gives all away.
  std::vector<MemberId> given;
  int ticks_until_given = 0;
  size_t lists = 0;
  for (int tick = 1; tick <= 60 && given != Ids({2, 4, 5}); ++tick) {
    for (uint32_t member : {2, 3, 4, 5}) {
      server.Acknowledge(member, server.raft().last_index().value());
    }
    std::vector<FedObserver> report;
    for (MemberId member : given) report.push_back(Fed(member.value(), server.raft().last_index()));
    server.Receive(3, 1, HeartbeatResponse{ReadRound{0}, report});
    server.Tick(1);
    for (const Message& message : server.Take()) {
      const auto* heartbeat = std::get_if<Heartbeat>(&message.body);
      if (heartbeat == nullptr) continue;
      if (message.to == MemberId{3}) given = heartbeat->observers;
      if (message.to == MemberId{2}) {
        CHECK(heartbeat->observers.empty());
        ++lists;
      }
    }
    const bool is_given = std::count(given.begin(), given.end(), MemberId{2}) > 0;
    if (!is_given) ticks_until_given = tick;
    if (is_given) CHECK(lists > 1);
  }
  CHECK(given == Ids({2, 4, 5}));
  CHECK(ticks_until_given >= kElectionTicks);
}

TEST_CASE("an observer that is fed counts as in sync while there are writes, and not if it lags") {
  Server server = Leader();
  const Index first = server.raft().last_index();
  Index before = first;
  for (int i = 0; i < 10; ++i) {
    const Index reported = before;
    before = server.raft().last_index();
    server.Propose(1);
    server.Acknowledge(2, server.raft().last_index().value());
    server.Acknowledge(3, server.raft().last_index().value());
    Interval(&server, Report{Fed(4, reported), Fed(5, first)});
    server.Take();
    if (i < 4) continue;
    CHECK(server.raft().match_index(MemberId{4}) < server.raft().commit_index());
    CHECK(server.raft().IsInSync(MemberId{4}));
    CHECK_FALSE(server.raft().IsInSync(MemberId{5}));
    CHECK(server.raft().IsInSync(MemberId{2}));
  }
  // A follower that the leader sends entries to itself is in sync only if it has acknowledged all of them.
  server.Propose(1);
  server.Acknowledge(2, server.raft().last_index().value());
  CHECK(server.raft().IsInSync(MemberId{2}));
  CHECK_FALSE(server.raft().IsInSync(MemberId{3}));
}

TEST_CASE("what another directory of an observer had does not count") {
  Server server = Leader();
  const Index last = server.raft().last_index();
  Interval(&server, Report{{MemberId{4}, last, kFirstDirectoryEpoch + 1}, Fed(5, last)});
  CHECK(server.raft().match_index(MemberId{4}) == Index{0});
  CHECK(server.raft().match_index(MemberId{5}) == last);
}

TEST_CASE("a leader completes the transfer of a checkpoint before it gives the observer away") {
  RaftOptions options = Options(kMembers);
  options.snapshot_chunk_bytes = 50;
  Server server(options, DiskOf(MemberState::kNormal));
  server.Lead();
  server.Propose(30);
  for (uint32_t member : {2, 3, 5}) server.Acknowledge(member, server.raft().last_index().value());
  server.Take();
  server.member().Checkpoint();
  server.Tick(1);
  server.Take();
  const Index last = server.raft().last_index();
  const Index checkpoint = server.member().disk().checkpoint->index;
  server.Receive(4, 1, AppendRejected{last, Index{0}, Term{0}});
  server.Take();
  uint64_t acked = 0;
  for (int i = 0; i < 5; ++i) {
    while (server.member().can_read_snapshot()) server.member().AnswerSnapshotRead();
    for (const auto& [to, chunk] : server.TakeBodies<SnapshotChunk>()) {
      if (chunk.offset == acked) acked += chunk.bytes.size();
      server.Receive(4, 1, SnapshotAck{checkpoint, acked, false});
      REQUIRE(!chunk.last);
    }
    Interval(&server, Report{Fed(5, last)});
    const std::vector<Message> sent = server.Take();
    CHECK(Given(sent, 2) != Ids({4, 5}));
    CHECK(acked > 0);
  }
  server.Receive(4, 1, SnapshotAck{checkpoint, 0, true});
  server.Acknowledge(4, last.value());
  Interval(&server, Report{Fed(5, last)});
  CHECK(Given(server.Take(), 2) == Ids({4, 5}));
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

TEST_CASE(
    "a follower stops feeding observers when its leader tells it so, or it has another leader") {
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

TEST_CASE(
    "a log read of the time as leader brings a follower to feed nothing that is not committed") {
  TestMember::Disk disk = DiskOf(MemberState::kNormal);
  disk.hard_state.term = Term{1};
  disk.hard_state.commit = Index{4};
  for (uint64_t i = 1; i <= 10; ++i) disk.log.push_back(At(i));
  Server server(FeederOptions(), disk);
  while (server.raft().role() == Role::kFollower) server.raft().Tick();
  server.Take();
  server.Receive(2, 2, VoteResponse{true, true});
  server.Take();
  server.Receive(2, 2, VoteResponse{false, true});
  server.Take();
  REQUIRE(server.raft().role() == Role::kLeader);
  // The observer has two entries. The third to the tenth are read for it.
  server.Receive(4, 2, AppendRejected{Index{10}, Index{2}, Term{1}});
  server.Receive(4, 2, AppendAccepted{Index{2}, Index{2}});
  server.Take();
  REQUIRE(server.member().can_read_log());
  // 2 leads, and has other entries from the fifth on.
  server.Receive(2, 3, Heartbeat{Index{2}, {}, Ids({4})});
  server.Receive(4, 3, AppendRejected{Index{4}, Index{2}, Term{1}});
  server.Receive(4, 3, AppendAccepted{Index{2}, Index{2}});
  server.Take();
  REQUIRE(server.raft().commit_index() == Index{4});
  Index fed;
  while (server.member().can_read_log()) {
    server.member().AnswerLogRead();
    for (const auto& [to, append] : server.TakeBodies<AppendRequest>()) {
      REQUIRE(to == MemberId{4});
      for (const Entry& entry : append.entries) fed = std::max(fed, entry.index);
    }
  }
  CHECK(fed == Index{4});
}

TEST_CASE("a follower that ceases to vote, or to hear heartbeats, feeds nobody") {
  Server server = Follower();
  server.Receive(2, 1, Heartbeat{Index{2}, {}, Ids({4})});
  server.Take();
  server.Acknowledge(4, 2);
  SECTION("it is an observer now, and is fed itself") {
    const Membership demoted{Ids({2, 3}), Ids({1, 4, 5}), {}, {}};
    Message append{MemberId{3}, MemberId{1}, Term{1},
                   AppendRequest{Index{3}, Term{1}, Index{2}, {Control(4, 1, demoted)}}};
    append.on_behalf_of = MemberId{2};
    server.Receive(append);
    server.Tick(kHeartbeatTicks);
  }
  SECTION("only entries arrive from the leader") {
    for (int i = 0; i < kElectionTicks; ++i) {
      server.Receive(2, 1, AppendRequest{Index{3}, Term{1}, Index{2}, {}});
      server.Tick(1);
    }
  }
  server.Take();
  server.Receive(2, 1, AppendRequest{Index{3}, Term{1}, Index{3}, {}});
  CHECK(server.raft().leader() == MemberId{2});
  for (const Message& message : server.Take()) CHECK(message.to != MemberId{4});
  server.Receive(2, 1, Heartbeat{Index{3}, {}, Ids({4})});
  CHECK((CountTo<Heartbeat>(server.Take(), 4) > 0) ==
        server.raft().membership().IsVoter(MemberId{1}));
}

// A follower of 2 with 30 entries and a checkpoint of them, which sends the checkpoint to 4.
Server SendingCheckpoint() {
  Server server(FeederOptions(), DiskOf(MemberState::kNormal));
  std::vector<Entry> entries{
      Control(1, 1, kMembers),
      {Index{2}, Term{1}, EntryKind::kVersion, Slice(EncodeVersion(kVersionNewest))}};
  for (uint64_t i = 3; i <= 30; ++i) entries.push_back(At(i));
  server.Receive(2, 1, AppendRequest{{}, {}, Index{30}, entries});
  server.Take();
  server.member().Checkpoint();
  server.Take();
  server.Receive(2, 1, Heartbeat{Index{30}, {}, Ids({4})});
  server.Take();
  server.Receive(4, 1, AppendRejected{Index{30}, Index{0}, Term{0}});
  server.Take();
  REQUIRE(server.member().can_read_snapshot());
  server.member().AnswerSnapshotRead();
  REQUIRE(server.raft().base_index() == Index{25});
  return server;
}

// 2 sends the entries up to `last`, of which a checkpoint is made.
void MoveOn(Server* server, uint64_t last) {
  std::vector<Entry> entries;
  const Index prev = server->raft().last_index();
  for (uint64_t i = prev.value() + 1; i <= last; ++i) entries.push_back(At(i));
  server->Receive(2, server->raft().term().value(),
                  AppendRequest{prev, Term{1}, Index{last}, entries});
  server->Take();
  server->member().Checkpoint();
  server->Tick(1);
  server->Take();
}

TEST_CASE("a follower feeds an observer that has staged a newer checkpoint than its log has") {
  Server server = SendingCheckpoint();
  REQUIRE(CountTo<SnapshotChunk>(server.Take(), 4) == 1);
  const bool done = GENERATE(false, true);
  server.Receive(4, 1, SnapshotAck{Index{100}, 5, false});
  if (done) server.Receive(4, 1, SnapshotAck{Index{100}, 0, true});
  // The first chunk is sent again.
  server.Take();
  while (server.member().can_read_snapshot()) server.member().AnswerSnapshotRead();
  const auto chunks = server.TakeBodies<SnapshotChunk>();
  REQUIRE(chunks.size() == 1);
  CHECK(chunks[0].second.meta.index == Index{30});
  server.Receive(4, 1, SnapshotAck{Index{30}, 0, true});
  CHECK(CountTo<AppendRequest>(server.Take(), 4) == 1);
}

TEST_CASE("a follower keeps its log for an observer that receives a checkpoint, and not longer") {
  Server server = SendingCheckpoint();
  SECTION("during the transfer") {
    MoveOn(&server, 60);
    CHECK(server.raft().base_index() == Index{30});
  }
  SECTION("after a change of leader") {
    server.Receive(2, 2, Heartbeat{Index{30}, {}});
    MoveOn(&server, 60);
    CHECK(server.raft().base_index() == Index{30});
  }
  SECTION("until the observer has caught up") {
    server.Receive(4, 1, SnapshotAck{Index{30}, 0, true});
    server.Acknowledge(4, 30);
    server.Tick(1);
    MoveOn(&server, 60);
    CHECK(server.raft().base_index() == Index{55});
  }
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

TEST_CASE("an observer that was restarted shows its feeder that it has to compare the logs") {
  TestMember::Disk disk = DiskOf(MemberState::kNormal);
  disk.hard_state.term = Term{1};
  disk.log = {At(1), At(2)};
  RaftOptions options = Options({Ids({2, 3, 4}), Ids({1}), {}, {}});
  Server server(options, disk);
  ReceiveFor(&server, 3, 2, 1, Heartbeat{Index{2}, {}});
  CHECK(server.TakeBodies<AppendAccepted>() ==
        std::vector{std::pair(MemberId{3}, AppendAccepted{Index{0}, Index{0}})});
  server.Receive(2, 1, Heartbeat{Index{2}, {}});
  CHECK(server.TakeBodies<AppendAccepted>() ==
        std::vector{std::pair(MemberId{2}, AppendAccepted{Index{0}, Index{0}})});
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
