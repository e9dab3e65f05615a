// SPDX-License-Identifier: Apache-2.0

// Section 5 of the Raft paper (Ongaro and Ousterhout, "In Search of an Understandable Consensus
// Algorithm", extended version), sentence by sentence.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

constexpr int kElectionTicks = 10;
constexpr int kHeartbeatTicks = 3;

// Returns entries 1, 2, ... of these terms. The payload of an entry names its index and term.
std::vector<Entry> Log(const std::vector<uint64_t>& terms) {
  std::vector<Entry> log;
  for (uint64_t term : terms) {
    const Index index{log.size() + 1};
    log.push_back({index, Term{term}, EntryKind::kCommand,
                   Slice(std::to_string(index.value()) + "@" + std::to_string(term))});
  }
  return log;
}

std::vector<uint64_t> TermsOf(const std::vector<Entry>& log) {
  std::vector<uint64_t> terms;
  for (const Entry& entry : log) terms.push_back(entry.term.value());
  return terms;
}

// Member 1 of a cluster. The test plays the other members.
class Server {
 public:
  explicit Server(uint32_t cluster_size = 3, uint64_t term = 0, std::vector<Entry> log = {},
                  uint64_t random = 0)
      : random_(random),
        member_(Options(cluster_size), {{Term{term}, kNoMember, Index{0}}, std::move(log)},
                &random_) {
    Take();
  }

  Raft& raft() { return member_.raft(); }
  TestMember& member() { return member_; }
  Term term() const { return member_.raft().term(); }
  Role role() const { return member_.raft().role(); }

  template <typename Body>
  void Receive(uint32_t from, uint64_t term, Body body) {
    raft().Step({MemberId{from}, MemberId{1}, Term{term}, std::move(body)});
    raft().CheckInvariants();
  }
  void Tick(int ticks = 1) {
    for (; ticks > 0; --ticks) raft().Tick();
    raft().CheckInvariants();
  }

  // Returns the messages that the member sends while its disk stalls.
  std::vector<Message> TakeBeforePersist() {
    member_.Collect();
    while (member_.can_apply()) member_.ApplyOne();
    return std::exchange(member_.outbox, {});
  }
  // Returns all messages that the member sends. Everything becomes durable and is applied.
  std::vector<Message> Take() {
    std::vector<Message> all;
    do {
      if (member_.unpersisted() > 0) member_.Persist(member_.unpersisted());
      for (Message& message : TakeBeforePersist()) all.push_back(std::move(message));
    } while (member_.unpersisted() > 0 || raft().HasOutput());
    return all;
  }
  // Returns the bodies of one kind among them.
  template <typename Body>
  std::vector<Body> TakeBodies() {
    std::vector<Body> bodies;
    for (const Message& message : Take()) {
      if (const auto* body = std::get_if<Body>(&message.body)) bodies.push_back(*body);
    }
    return bodies;
  }

  // Ticks until the election timeout, and wins the pre-vote (which the paper does not have).
  void BecomeCandidate() {
    Tick(kElectionTicks);
    const uint64_t next = term().value() + 1;
    for (uint32_t id = 2; role() == Role::kPreCandidate; ++id) {
      Receive(id, next, VoteResponse{true, true});
    }
    REQUIRE(role() == Role::kCandidate);
  }
  void BecomeLeader() {
    BecomeCandidate();
    Take();
    for (uint32_t id = 2; role() == Role::kCandidate; ++id) {
      Receive(id, term().value(), VoteResponse{false, true});
    }
    REQUIRE(role() == Role::kLeader);
  }
  void Acknowledge(uint32_t from, uint64_t match) {
    Receive(from, term().value(), AppendAccepted{Index{match}, Index{match}});
  }

 private:
  static RaftOptions Options(uint32_t cluster_size) {
    RaftOptions options;
    options.self = MemberId{1};
    for (uint32_t i = 1; i <= cluster_size; ++i) options.membership.voters.push_back(MemberId{i});
    options.election_ticks = kElectionTicks;
    options.heartbeat_ticks = kHeartbeatTicks;
    options.version = kVersionBase;  // no entries but those of the test
    return options;
  }

  FixedRandom random_;
  TestMember member_;
};

AppendRequest Append(uint64_t prev_index, uint64_t prev_term, uint64_t commit,
                     const std::vector<uint64_t>& terms = {}) {
  AppendRequest request{Index{prev_index}, Term{prev_term}, Index{commit}, {}};
  for (uint64_t term : terms) {
    const Index index{prev_index + request.entries.size() + 1};
    request.entries.push_back({index, Term{term}, EntryKind::kCommand,
                               Slice(std::to_string(index.value()) + "@" + std::to_string(term))});
  }
  return request;
}

VoteRequest Vote(uint64_t last_index, uint64_t last_term) {
  return {false, false, Index{last_index}, Term{last_term}};
}

// --- 5.1 Raft basics -----------------------------------------------------------------------------

TEST_CASE(
    "5.1 if one server's current term is smaller than the other's, it updates to the larger") {
  for (Role role : {Role::kFollower, Role::kPreCandidate, Role::kCandidate, Role::kLeader}) {
    Server server(3, 1);
    if (role == Role::kPreCandidate) server.Tick(kElectionTicks);
    if (role == Role::kCandidate) server.BecomeCandidate();
    if (role == Role::kLeader) server.BecomeLeader();
    REQUIRE(server.role() == role);
    server.Receive(2, 7, Append(0, 0, 0));
    CHECK(server.term() == Term{7});
    CHECK(server.role() == Role::kFollower);
    server.Take();
    CHECK(server.member().disk().hard_state.term == Term{7});
  }
}

TEST_CASE(
    "5.1 a candidate or leader that discovers that its term is out of date reverts to follower") {
  Server candidate(3, 1);
  candidate.BecomeCandidate();
  candidate.Receive(2, 3, VoteResponse{false, false});
  CHECK(candidate.role() == Role::kFollower);
  CHECK(candidate.term() == Term{3});

  Server leader(3, 1);
  leader.BecomeLeader();
  leader.Receive(2, 3, HeartbeatResponse{});
  CHECK(leader.role() == Role::kFollower);
  CHECK(leader.raft().leader() == kNoMember);
}

TEST_CASE("5.1 a request with a stale term number is rejected") {
  Server server(3, 5, Log({1}));
  server.Receive(2, 4, Append(1, 1, 1, {4}));
  server.Receive(2, 4, Heartbeat{Index{1}, ReadRound{3}});
  server.Receive(3, 4, Vote(9, 4));
  CHECK(server.raft().last_index() == Index{1});
  CHECK(server.raft().commit_index() == Index{0});
  CHECK(server.raft().leader() == kNoMember);
  const std::vector<Message> answers = server.Take();
  REQUIRE(answers.size() == 3);
  for (const Message& answer : answers) CHECK(answer.term == Term{5});
  CHECK(std::holds_alternative<AppendRejected>(answers[0].body));
  CHECK(std::get<HeartbeatResponse>(answers[1].body).read_round == ReadRound{0});
  CHECK_FALSE(std::get<VoteResponse>(answers[2].body).granted);
}

// --- 5.2 Leader election -------------------------------------------------------------------------

TEST_CASE("5.2 when servers start up, they begin as followers") {
  Server server(3, 4, Log({1, 4}));
  CHECK(server.role() == Role::kFollower);
  CHECK(server.raft().leader() == kNoMember);
}

TEST_CASE("5.2 a server remains a follower as long as it receives valid RPCs from a leader") {
  Server server(3, 1);
  for (int i = 0; i < 10; ++i) {
    server.Tick(kElectionTicks - 1);
    CHECK(server.role() == Role::kFollower);
    if (i % 2 == 0) {
      server.Receive(2, 1, Heartbeat{});
    } else {
      server.Receive(2, 1, Append(0, 0, 0));
    }
  }
  server.Tick(kElectionTicks);
  CHECK(server.role() != Role::kFollower);
}

TEST_CASE("5.2 a vote granted keeps a server a follower for another election timeout") {
  Server server(3, 1);
  server.Tick(kElectionTicks - 1);
  server.Receive(2, 2, Vote(0, 0));
  server.Tick(kElectionTicks - 1);
  CHECK(server.role() == Role::kFollower);
}

TEST_CASE("5.2 leaders send periodic heartbeats to all followers") {
  Server server;
  server.BecomeLeader();
  server.Take();
  for (int i = 0; i < 3; ++i) {
    server.Tick(kHeartbeatTicks - 1);
    CHECK(server.TakeBodies<Heartbeat>().empty());
    server.Tick();
    CHECK(server.TakeBodies<Heartbeat>().size() == 2);
    server.Receive(2, 1, HeartbeatResponse{});
  }
}

TEST_CASE("5.2 to begin an election it increments its term, votes for itself and requests votes") {
  Server server(3, 2, Log({1, 2}));
  server.BecomeCandidate();
  CHECK(server.term() == Term{3});
  const std::vector<VoteRequest> requests = server.TakeBodies<VoteRequest>();
  std::vector<VoteRequest> votes;
  for (const VoteRequest& request : requests) {
    if (!request.pre_vote) votes.push_back(request);
  }
  CHECK(votes == std::vector<VoteRequest>(2, Vote(2, 2)));
  CHECK(server.member().disk().hard_state.vote == MemberId{1});
  CHECK(server.member().disk().hard_state.term == Term{3});
}

TEST_CASE("5.2 a candidate wins an election if it receives votes from a majority of the servers") {
  struct Case {
    uint32_t servers;
    int granted;
    int rejected;
    Role role;
  };
  const Case cases[] = {
      {3, 1, 0, Role::kLeader},    {3, 0, 0, Role::kCandidate}, {3, 0, 1, Role::kCandidate},
      {3, 0, 2, Role::kFollower},  {3, 1, 1, Role::kLeader},    {5, 2, 0, Role::kLeader},
      {5, 2, 2, Role::kLeader},    {5, 1, 2, Role::kCandidate}, {5, 1, 3, Role::kFollower},
      {4, 1, 0, Role::kCandidate}, {4, 2, 1, Role::kLeader},    {4, 1, 2, Role::kFollower},
  };
  for (const Case& c : cases) {
    CAPTURE(c.servers, c.granted, c.rejected);
    Server server(c.servers);
    server.BecomeCandidate();
    server.Take();
    uint32_t from = 2;
    for (int i = 0; i < c.granted; ++i) server.Receive(from++, 1, VoteResponse{false, true});
    for (int i = 0; i < c.rejected; ++i) server.Receive(from++, 1, VoteResponse{false, false});
    CHECK(server.role() == c.role);
  }
}

TEST_CASE("5.2 a vote counts once, however often it comes") {
  Server server(5);
  server.BecomeCandidate();
  server.Take();
  for (int i = 0; i < 4; ++i) server.Receive(2, 1, VoteResponse{false, true});
  CHECK(server.role() == Role::kCandidate);
}

TEST_CASE("5.2 each server votes for at most one candidate in a term, first come, first served") {
  Server server(3, 1);
  server.Receive(2, 2, Vote(0, 0));
  server.Receive(3, 2, Vote(0, 0));
  server.Receive(2, 2, Vote(0, 0));
  std::vector<MemberId> granted, rejected;
  for (const Message& message : server.Take()) {
    const auto& vote = std::get<VoteResponse>(message.body);
    (vote.granted ? granted : rejected).push_back(message.to);
  }
  CHECK(granted == std::vector<MemberId>(2, MemberId{2}));
  CHECK(rejected == std::vector<MemberId>{MemberId{3}});
  // In the next term the server may vote again.
  server.Receive(3, 3, Vote(0, 0));
  CHECK(server.TakeBodies<VoteResponse>() == std::vector<VoteResponse>{{false, true}});
}

TEST_CASE("5.2 once a candidate wins, it sends messages to all others to establish its authority") {
  Server server(5);
  server.BecomeLeader();
  const std::vector<Message> messages = server.TakeBeforePersist();
  REQUIRE(messages.size() == 4);
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK(messages[i].to == MemberId{i + 2});
    CHECK(std::holds_alternative<AppendRequest>(messages[i].body));
  }
}

TEST_CASE("5.2 a candidate recognizes a leader of its own term and returns to follower state") {
  for (bool heartbeat : {false, true}) {
    Server server(3, 1);
    server.BecomeCandidate();
    if (heartbeat) {
      server.Receive(2, 2, Heartbeat{});
    } else {
      server.Receive(2, 2, Append(0, 0, 0));
    }
    CHECK(server.role() == Role::kFollower);
    CHECK(server.raft().leader() == MemberId{2});
    CHECK(server.term() == Term{2});
  }
}

TEST_CASE("5.2 a candidate rejects an RPC of a smaller term and continues in candidate state") {
  Server server(3, 1);
  server.BecomeCandidate();
  server.Take();
  server.Receive(2, 1, Append(0, 0, 0, {1}));
  CHECK(server.role() == Role::kCandidate);
  CHECK(server.raft().last_index() == Index{0});
  CHECK(server.TakeBodies<AppendRejected>().size() == 1);
}

TEST_CASE("5.2 after a split vote each candidate times out and starts a new election") {
  Server server(3, 1);
  server.BecomeCandidate();
  server.Take();
  CHECK(server.term() == Term{2});
  server.BecomeCandidate();
  CHECK(server.term() == Term{3});
}

TEST_CASE("5.2 election timeouts are chosen randomly from a fixed interval") {
  for (uint64_t random = 0; random < 2 * kElectionTicks; ++random) {
    Server server(3, 1, {}, random);
    int ticks = 0;
    for (; server.role() == Role::kFollower; ++ticks) server.Tick();
    CHECK(ticks == kElectionTicks + static_cast<int>(random % kElectionTicks));
  }
}

// --- 5.3 Log replication -------------------------------------------------------------------------

TEST_CASE("5.3 the leader appends a command to its log and issues AppendEntries in parallel") {
  Server server;
  server.BecomeLeader();
  server.Take();
  server.Acknowledge(2, 1);
  server.Acknowledge(3, 1);
  server.Take();
  REQUIRE(server.raft().Propose({Slice("x")}).ok());
  CHECK(server.raft().last_index() == Index{2});
  // The leader sends in parallel to its own write too.
  std::vector<MemberId> to;
  for (const Message& message : server.TakeBeforePersist()) {
    const auto& request = std::get<AppendRequest>(message.body);
    CHECK(request.prev_index == Index{1});
    REQUIRE(request.entries.size() == 1);
    CHECK(request.entries[0] == Entry{Index{2}, Term{1}, EntryKind::kCommand, Slice("x")});
    to.push_back(message.to);
  }
  CHECK(to == std::vector<MemberId>{MemberId{2}, MemberId{3}});
}

TEST_CASE("5.3 an entry is committed once it is replicated on a majority of the servers") {
  for (uint32_t servers : {1u, 2u, 3u, 4u, 5u, 7u}) {
    for (uint32_t acknowledged = 0; acknowledged < servers; ++acknowledged) {
      for (bool own_disk : {false, true}) {
        CAPTURE(servers, acknowledged, own_disk);
        if (servers == 1) continue;
        Server server(servers);
        server.BecomeLeader();
        server.Take();
        for (uint32_t i = 2; i <= servers; ++i) server.Acknowledge(i, 1);
        server.Take();
        REQUIRE(server.raft().Propose({Slice("x")}).ok());
        own_disk ? server.Take() : server.TakeBeforePersist();
        for (uint32_t i = 0; i < acknowledged; ++i) server.Acknowledge(i + 2, 2);
        const uint32_t copies = acknowledged + (own_disk ? 1 : 0);
        CHECK((server.raft().commit_index() == Index{2}) == (copies > servers / 2));
      }
    }
  }
}

TEST_CASE("5.3 a commit also commits all preceding entries, those of previous leaders too") {
  for (const std::vector<uint64_t>& terms : {std::vector<uint64_t>{}, {2}, {1, 2}, {1, 1, 2, 2}}) {
    Server server(3, 2, Log(terms));
    server.BecomeLeader();
    server.Take();
    CHECK(server.raft().commit_index() == Index{0});
    server.Acknowledge(2, terms.size() + 1);
    CHECK(server.raft().commit_index() == Index{terms.size() + 1});
    server.Take();
    std::vector<uint64_t> expected = terms;
    expected.push_back(3);
    CHECK(TermsOf(server.member().applied()) == expected);
  }
}

TEST_CASE("5.3 the leader includes the highest committed index in future AppendEntries") {
  Server server;
  server.BecomeLeader();
  server.Take();
  server.Acknowledge(2, 1);
  server.Acknowledge(3, 1);
  for (const AppendRequest& request : server.TakeBodies<AppendRequest>()) {
    CHECK(request.commit == Index{1});
  }
  REQUIRE(server.raft().Propose({Slice("x")}).ok());
  const std::vector<AppendRequest> requests = server.TakeBodies<AppendRequest>();
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].commit == Index{1});
}

TEST_CASE("5.3 once a follower learns that an entry is committed, it applies it, in log order") {
  for (uint64_t commit = 0; commit <= 4; ++commit) {
    Server server(3, 1);
    server.Receive(2, 1, Append(0, 0, commit, {1, 1, 1}));
    server.Take();
    // The follower does not commit beyond the entries that the request has compared.
    const uint64_t expected = std::min<uint64_t>(commit, 3);
    CHECK(server.raft().commit_index() == Index{expected});
    REQUIRE(server.member().applied().size() == expected);
    for (size_t i = 0; i < expected; ++i) {
      CHECK(server.member().applied()[i].index == Index{i + 1});
    }
  }
}

TEST_CASE("5.3 a follower commits no more of its log than the request showed to be the leader's") {
  Server server(3, 2, Log({1, 1, 1}));
  server.Receive(2, 2, Append(1, 1, 3));
  CHECK(server.raft().commit_index() == Index{1});
}

TEST_CASE("5.3 a follower that does not find the preceding entry refuses the new entries") {
  struct Case {
    uint64_t prev_index, prev_term;
    bool success;
    uint64_t candidate_index, candidate_term;
  };
  // The follower's log is 1@1 2@2.
  const Case cases[] = {
      {0, 0, true, 0, 0},  {1, 1, true, 0, 0},  {2, 2, true, 0, 0},  {1, 2, false, 1, 1},
      {2, 1, false, 1, 1}, {3, 3, false, 2, 2}, {9, 1, false, 1, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.prev_index, c.prev_term);
    Server server(3, 3, Log({1, 2}));
    server.Receive(2, 3, Append(c.prev_index, c.prev_term, 0));
    const std::vector<Message> answers = server.Take();
    REQUIRE(answers.size() == 1);
    CHECK(server.raft().last_index() == Index{2});
    if (c.success) {
      CHECK(std::holds_alternative<AppendAccepted>(answers[0].body));
      continue;
    }
    const auto* rejected = std::get_if<AppendRejected>(&answers[0].body);
    REQUIRE(rejected != nullptr);
    CHECK(rejected->prev_index == Index{c.prev_index});
    CHECK(rejected->candidate_index == Index{c.candidate_index});
    CHECK(rejected->candidate_term == Term{c.candidate_term});
  }
}

TEST_CASE("5.3 conflicting entries in a follower's log are overwritten with the leader's") {
  struct Case {
    uint64_t prev_index, prev_term;
    std::vector<uint64_t> terms, expected;
  };
  // The follower's log is 1@1 2@2.
  const Case cases[] = {
      {2, 2, {3}, {1, 2, 3}}, {1, 1, {3, 4}, {1, 3, 4}}, {0, 0, {1}, {1, 2}},
      {0, 0, {3}, {3}},       {0, 0, {1, 2}, {1, 2}},    {1, 1, {}, {1, 2}},
  };
  for (const Case& c : cases) {
    Server server(3, 4, Log({1, 2}));
    server.Receive(2, 4, Append(c.prev_index, c.prev_term, 0, c.terms));
    server.Take();
    CHECK(TermsOf(server.member().disk().log) == c.expected);
  }
}

TEST_CASE("5.3 figure 7: the leader brings each kind of follower log into agreement with its own") {
  const std::vector<uint64_t> leader_terms = {1, 1, 1, 4, 4, 5, 5, 6, 6, 6};
  const std::vector<std::vector<uint64_t>> followers = {
      {1, 1, 1, 4, 4, 5, 5, 6, 6},
      {1, 1, 1, 4},
      {1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6},
      {1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7},
      {1, 1, 1, 4, 4, 4, 4},
      {1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3},
  };
  for (const std::vector<uint64_t>& terms : followers) {
    Server leader(3, 7, Log(leader_terms));
    leader.BecomeLeader();
    CHECK(leader.term() == Term{8});
    Server follower(3, 7, Log(terms));
    // The follower plays member 2, although it is called 1 in its own cluster.
    int rounds = 0;
    for (bool busy = true; busy && rounds < 50; ++rounds) {
      busy = false;
      std::vector<Message> requests = leader.Take();
      while (leader.member().can_read_log()) {
        leader.member().AnswerLogRead();
        busy = true;
      }
      for (Message& request : requests) {
        if (request.to != MemberId{2}) continue;
        follower.Receive(2, request.term.value(), std::get<AppendRequest>(request.body));
        for (const Message& answer : follower.Take()) {
          std::visit([&](const auto& body) { leader.Receive(2, 8, body); }, answer.body);
        }
        busy = true;
      }
    }
    CHECK(rounds < 12);
    CHECK(follower.member().disk().log == leader.member().disk().log);
    std::vector<uint64_t> expected = leader_terms;
    expected.push_back(8);
    CHECK(TermsOf(leader.member().disk().log) == expected);
    CHECK(leader.raft().match_index(MemberId{2}) == Index{11});
  }
}

TEST_CASE("5.3 a leader initializes all nextIndex values to the index just after its last one") {
  Server server(3, 2, Log({1, 2, 2}));
  server.BecomeLeader();
  const std::vector<AppendRequest> requests = server.TakeBodies<AppendRequest>();
  REQUIRE(requests.size() == 2);
  for (const AppendRequest& request : requests) {
    CHECK(request.prev_index == Index{3});
    CHECK(request.prev_term == Term{2});
    REQUIRE(request.entries.size() == 1);
    CHECK(request.entries[0].kind == EntryKind::kNoOp);
  }
}

TEST_CASE("5.3 the leader retries AppendEntries until all followers store all entries") {
  Server server;
  server.BecomeLeader();
  server.Take();
  // Member 2 answers only heartbeats, and messages to member 3 are lost. Both get the requests
  // again and again.
  for (int i = 0; i < 5; ++i) {
    server.Tick(kHeartbeatTicks);
    server.Receive(2, 1, HeartbeatResponse{});
    CHECK(server.TakeBodies<AppendRequest>().size() == 2);
  }
}

TEST_CASE("5.3 a leader never overwrites or deletes entries in its own log") {
  Server server(3, 1, Log({1, 1}));
  server.BecomeLeader();
  server.Take();
  const std::vector<Entry> before = server.member().log();
  // Another member that claims to lead in the same term is ignored.
  server.Receive(2, 2, Append(0, 0, 0, {2, 2}));
  server.Receive(2, 2, Append(9, 2, 0));
  server.Take();
  CHECK(server.role() == Role::kLeader);
  CHECK(server.member().log() == before);
}

TEST_CASE(
    "5.3 if a follower crashes, requests to it fail and are retried; repeated ones do no harm") {
  Server server(3, 1);
  for (int i = 0; i < 3; ++i) {
    server.Receive(2, 1, Append(0, 0, 2, {1, 1}));
    server.Take();
    CHECK(TermsOf(server.member().disk().log) == std::vector<uint64_t>{1, 1});
    CHECK(server.member().applied().size() == 2);
  }
}

// --- 5.4 Safety ----------------------------------------------------------------------------------

TEST_CASE(
    "5.4.1 the voter denies its vote if its own log is more up-to-date than the candidate's") {
  struct Case {
    std::vector<uint64_t> log;
    uint64_t last_index, last_term;
    bool granted;
  };
  const Case cases[] = {
      {{1}, 1, 1, true},     {{1}, 2, 1, true},  {{1, 1}, 1, 1, false}, {{1}, 1, 2, true},
      {{1, 1}, 1, 2, true},  {{2}, 1, 1, false}, {{2}, 2, 1, false},    {{1, 2}, 1, 2, false},
      {{2, 2}, 9, 1, false}, {{}, 0, 0, true},   {{1}, 0, 0, false},
  };
  for (const Case& c : cases) {
    for (bool pre_vote : {false, true}) {
      CAPTURE(c.log, c.last_index, c.last_term, pre_vote);
      Server server(3, 2, Log(c.log));
      VoteRequest request = Vote(c.last_index, c.last_term);
      request.pre_vote = pre_vote;
      server.Receive(2, 3, request);
      const std::vector<VoteResponse> answers = server.TakeBodies<VoteResponse>();
      REQUIRE(answers.size() == 1);
      CHECK(answers[0].pre_vote == pre_vote);
      CHECK(answers[0].granted == c.granted);
      CHECK(server.term() == (pre_vote ? Term{2} : Term{3}));
    }
  }
}

TEST_CASE("5.4.1 a new leader has all committed entries: it needs no transfer of them to itself") {
  Server server(3, 2, Log({1, 2}));
  server.BecomeLeader();
  server.Take();
  server.Acknowledge(3, 3);
  server.Take();
  CHECK(TermsOf(server.member().applied()) == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("5.4.2 only entries of the leader's current term are committed by counting replicas") {
  for (uint64_t match = 1; match <= 3; ++match) {
    Server server(3, 2, Log({1, 2}));
    server.BecomeLeader();
    server.Take();
    server.Acknowledge(2, match);
    CHECK(server.raft().commit_index() == (match == 3 ? Index{3} : Index{0}));
  }
}

TEST_CASE("5.4.2 an entry that only a minority made durable is not committed") {
  Server server(5);
  server.BecomeLeader();
  server.Take();
  server.Acknowledge(2, 1);
  CHECK(server.raft().commit_index() == Index{0});
  server.Acknowledge(2, 1);
  CHECK(server.raft().commit_index() == Index{0});
  server.Acknowledge(3, 1);
  CHECK(server.raft().commit_index() == Index{1});
}

// --- Figure 2 ------------------------------------------------------------------------------------

TEST_CASE("figure 2: persistent state is updated on stable storage before responding to RPCs") {
  Server voter(3, 1);
  voter.Receive(2, 2, Vote(0, 0));
  CHECK(voter.TakeBeforePersist().empty());
  CHECK(voter.TakeBodies<VoteResponse>() == std::vector<VoteResponse>{{false, true}});

  Server follower(3, 1);
  follower.Receive(2, 1, Append(0, 0, 0, {1}));
  CHECK(follower.TakeBeforePersist().empty());
  const std::vector<AppendAccepted> answers = follower.TakeBodies<AppendAccepted>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].match_index == Index{1});

  Server candidate(3, 1);
  candidate.BecomeCandidate();
  for (const Message& message : candidate.TakeBeforePersist()) {
    CHECK(std::get<VoteRequest>(message.body).pre_vote);
  }
  // The candidate's own vote is one of the two that it needs.
  candidate.Receive(2, 2, VoteResponse{false, true});
  CHECK(candidate.role() == Role::kCandidate);
  candidate.Take();
  CHECK(candidate.role() == Role::kLeader);
}

}  // namespace
}  // namespace quorate::consensus
