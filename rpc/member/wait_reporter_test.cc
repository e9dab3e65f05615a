// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/wait_reporter.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using consensus::Index;
using consensus::MemberId;
using consensus::MemberState;
using std::chrono::seconds;

constexpr std::chrono::steady_clock::time_point kStart{seconds(1000)};

TEST_CASE("a wait is reported after five seconds, and then once a minute") {
  WaitReporter reporter;
  std::vector<int64_t> reported;
  for (int second = 0; second <= 130; ++second) {
    const auto waited = reporter.Tick(true, kStart + seconds(second));
    if (waited.has_value()) reported.push_back(waited->count());
  }
  CHECK(reported == std::vector<int64_t>{5, 65, 125});
}

TEST_CASE("short waits are not reported, and each wait is measured by itself") {
  WaitReporter reporter;
  for (int second = 0; second < 100; ++second) {
    CHECK_FALSE(reporter.Tick(second % 5 != 0, kStart + seconds(second)).has_value());
  }
  CHECK_FALSE(reporter.Tick(false, kStart + seconds(100)).has_value());
  CHECK_FALSE(reporter.Tick(true, kStart + seconds(103)).has_value());
  CHECK_FALSE(reporter.Tick(true, kStart + seconds(107)).has_value());
  CHECK(reporter.Tick(true, kStart + seconds(109)) == seconds(6));
}

TEST_CASE("a thread that was paused reports once for the pause") {
  WaitReporter reporter;
  CHECK_FALSE(reporter.Tick(true, kStart).has_value());
  CHECK(reporter.Tick(true, kStart + seconds(500)) == seconds(500));
  CHECK_FALSE(reporter.Tick(true, kStart + seconds(501)).has_value());
}

// Returns the facts of server 1 in a cluster of 1, 2 and 3.
WaitFacts Facts() {
  WaitFacts facts;
  facts.self = MemberId(1);
  facts.others = {{MemberId(2), true, ""}, {MemberId(3), true, ""}};
  return facts;
}

TEST_CASE("a voter without a majority names those that it does not reach, and why") {
  WaitFacts facts = Facts();
  facts.others[0] = {MemberId(2), false, "b:2888: Connection refused"};
  facts.others[1].reached = false;
  CHECK_THAT(WaitText(facts), Contains("2 of the 3 voters have to be there") &&
                                  EndsWith("not reached: server 2 (b:2888: Connection refused), "
                                           "server 3"));
  facts.others[1].reached = true;
  CHECK_THAT(WaitText(facts), Contains("enough voters for a majority are reached") &&
                                  Contains("not reached: server 2"));
}

TEST_CASE("an empty member says that a cluster begins with all voters, or waits for a leader") {
  WaitFacts facts = Facts();
  facts.member_state = MemberState::kNew;
  CHECK_THAT(WaitText(facts), Contains("one that has data has to become leader first"));
  facts.others[0].reached = false;
  CHECK_THAT(WaitText(facts), Contains("a leader, or all 3 voters: its data directory is empty") &&
                                  EndsWith("when all of them are there; not reached: server 2"));
  facts.member_state = MemberState::kRecovering;
  CHECK(WaitText(facts) == "a leader, which fills it; not reached: server 2");
  facts.member_state = MemberState::kNew;
  facts.is_voter = false;
  CHECK(WaitText(facts) == "a leader, which fills it; not reached: server 2");
}

TEST_CASE("a member with a leader says what is missing: connection, snapshot, entries or answer") {
  WaitFacts facts = Facts();
  facts.leader = MemberId(2);
  facts.leader_silent_ms = 40;
  CHECK_THAT(WaitText(facts), Contains("server 2, to confirm what is committed; its last message "
                                       "came 40 ms ago"));
  facts.commit = Index(0x20);
  facts.applied = Index(0x1f);
  CHECK_THAT(WaitText(facts), Contains("zxid 0x1f is applied of 0x20"));
  facts.snapshot_bytes = 5u << 20;
  CHECK_THAT(WaitText(facts), Contains("snapshot from the leader, server 2: 5 MiB"));
  facts.others[0] = {MemberId(2), false, "b:2888: no answer"};
  CHECK(WaitText(facts) == "the connection to the leader: server 2 (b:2888: no answer)");
  facts.leader = MemberId(1);
  CHECK_THAT(WaitText(facts), Contains("it leads, and the first entry of its term"));
}

TEST_CASE("what only a person can mend comes first") {
  WaitFacts facts = Facts();
  facts.leader = MemberId(2);
  facts.differs_from = MemberId(3);
  CHECK_THAT(WaitText(facts), Contains("of server 3 to name the same members"));
  CHECK_THAT(WaitText(facts), Contains("restart this one"));
  facts.log_full = true;
  CHECK(WaitText(facts) == "free space on the disk of its log");
  facts.log_out_of_descriptors = true;
  CHECK_THAT(WaitText(facts), Contains("too many files are open (raise ulimit -n"));
  facts.refused_by = MemberId(3);
  CHECK_THAT(WaitText(facts), Contains("the number 1 to be free: server 3 says"));
  facts.removed = true;
  CHECK_THAT(WaitText(facts), Contains("it was removed from the cluster"));
}

}  // namespace
}  // namespace quorate::rpc
