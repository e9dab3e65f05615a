// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/progress.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

constexpr size_t kMessagesMax = 3;
constexpr size_t kBytesMax = 1000;
constexpr int kElectionTicks = 10;
constexpr int kStallTicks = 50;

Progress Probing(uint64_t last) {
  return Progress(MemberId{2}, Index{last}, kMessagesMax, kBytesMax);
}

// Returns a progress in replicate, in which everything up to `match` is acknowledged.
Progress Replicating(uint64_t match) {
  Progress progress = Probing(match);
  progress.Sent(Index{match}, 0, Index{0});
  progress.Acknowledged(Index{match}, Index{match});
  REQUIRE(progress.state() == Progress::State::kReplicate);
  return progress;
}

TEST_CASE("one probe is in flight at a time, and is repeated without entries") {
  Progress progress = Probing(5);
  CHECK(progress.next() == Index{6});
  REQUIRE(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kProbe);
  progress.Sent(Index{7}, 200, Index{3});
  CHECK_FALSE(progress.ProbeDue());
  CHECK(progress.next() == Index{6});
  progress.ProbeAgain();
  CHECK(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kUnconfirmed);
  // The repeated probe is not answered either.
  progress.Sent(Index{5}, 0, Index{3});
  progress.ProbeAgain();
  CHECK(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kUnconfirmed);
  CHECK(progress.next() == Index{6});
  // The logs differ at that index: the next probe has entries.
  progress.Sent(Index{5}, 0, Index{3});
  CHECK(progress.Rejected(Index{5}, Index{4}));
  CHECK(progress.state() == Progress::State::kProbe);
}

TEST_CASE("an answer to the probe leads to replicate, an older answer does not") {
  Progress progress = Probing(5);
  progress.Sent(Index{7}, 200, Index{3});
  CHECK(progress.Acknowledged(Index{4}, Index{4}));
  CHECK(progress.state() == Progress::State::kProbe);
  CHECK(progress.match() == Index{4});
  // The entries were received, but are not durable yet: the next request continues after them.
  CHECK_FALSE(progress.Acknowledged(Index{4}, Index{7}));
  CHECK(progress.state() == Progress::State::kReplicate);
  CHECK(progress.next() == Index{8});
  CHECK(progress.match() == Index{4});
}

TEST_CASE("the window is limited in messages and bytes, and acknowledgements open it") {
  Progress progress = Replicating(1);
  for (uint64_t i = 2; i <= 4; ++i) {
    REQUIRE_FALSE(progress.WindowFull());
    progress.Sent(Index{i}, 100, Index{1});
  }
  CHECK(progress.WindowFull());
  CHECK(progress.next() == Index{5});
  CHECK(progress.Acknowledged(Index{3}, Index{4}));
  CHECK_FALSE(progress.WindowFull());
  progress.Sent(Index{5}, 900, Index{1});
  CHECK(progress.WindowFull());
  progress.CheckInvariants(Index{5});
  CHECK(progress.Acknowledged(Index{4}, Index{5}));
  CHECK_FALSE(progress.WindowFull());
}

TEST_CASE("a rejection lowers next once, and not below the acknowledged index") {
  Progress progress = Replicating(2);
  progress.Sent(Index{5}, 100, Index{1});
  progress.Sent(Index{6}, 100, Index{1});
  CHECK_FALSE(progress.Rejected(Index{2}, Index{1}));  // acknowledged in the meantime
  CHECK_FALSE(progress.Rejected(Index{9}, Index{8}));  // never sent
  CHECK(progress.Rejected(Index{5}, Index{3}));
  CHECK(progress.state() == Progress::State::kProbe);
  CHECK(progress.next() == Index{4});
  CHECK(progress.ProbeDue());
  CHECK_FALSE(progress.WindowFull());
  // The rejections of the later requests are outdated.
  CHECK_FALSE(progress.Rejected(Index{6}, Index{0}));
  CHECK(progress.next() == Index{4});
  progress.Sent(Index{3}, 0, Index{1});
  CHECK(progress.Rejected(Index{3}, Index{0}));
  CHECK(progress.next() == Index{3});
}

TEST_CASE("a follower whose disk has lost acknowledged entries gets them again") {
  Progress progress = Replicating(5);
  progress.Sent(Index{6}, 100, Index{5});
  CHECK_FALSE(progress.Rejected(Index{5}, Index{4}));  // older than the acknowledgement
  progress.BecomeUnconfirmed();
  REQUIRE(progress.state() == Progress::State::kUnconfirmed);
  // Everything up to 6 was sent: the first probe is about 6, the next about the acknowledged index.
  REQUIRE(progress.next() == Index{7});
  progress.Sent(Index{6}, 0, Index{5});
  REQUIRE(progress.Rejected(Index{6}, Index{3}));
  REQUIRE(progress.next() == Index{6});
  CHECK(progress.match() == Index{5});
  progress.Sent(Index{5}, 0, Index{5});
  CHECK(progress.Rejected(Index{5}, Index{3}));
  CHECK(progress.match() == Index{3});
  CHECK(progress.next() == Index{4});
  progress.CheckInvariants(Index{6});
  progress.Sent(Index{6}, 100, Index{5});
  CHECK(progress.Acknowledged(Index{6}, Index{6}));
  CHECK(progress.state() == Progress::State::kReplicate);
}

TEST_CASE("entries not acknowledged for an election timeout are unconfirmed, and next stays") {
  Progress progress = Replicating(2);
  for (int i = 0; i < 3 * kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kReplicate);  // nothing is in flight
  progress.Sent(Index{4}, 100, Index{2});
  for (int i = 1; i < kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kReplicate);
  progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kUnconfirmed);
  CHECK(progress.next() == Index{5});
  // The entries have arrived, and only the disk is slow: nothing is sent again, and the window
  // stays full.
  progress.Sent(Index{4}, 0, Index{2});
  CHECK_FALSE(progress.Acknowledged(Index{2}, Index{4}));
  CHECK(progress.state() == Progress::State::kReplicate);
  CHECK(progress.next() == Index{5});
  progress.Sent(Index{5}, 100, Index{2});
  progress.Sent(Index{6}, 100, Index{2});
  CHECK(progress.WindowFull());
}

TEST_CASE("an awaited acknowledgement may be lost although no request is in flight") {
  Progress progress = Probing(5);
  progress.Sent(Index{7}, 200, Index{3});
  CHECK(progress.Acknowledged(Index{5}, Index{7}));
  REQUIRE(progress.state() == Progress::State::kReplicate);
  for (int i = 0; i < kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kUnconfirmed);
}

TEST_CASE("entries in flight are unconfirmed if the follower is heard from after a silence") {
  for (bool under_way : {false, true}) {
    Progress progress = Replicating(2);
    progress.Heard(4);
    if (under_way) progress.Sent(Index{3}, 100, Index{2});
    for (int i = 0; i < 3; ++i) progress.Tick(kElectionTicks, kStallTicks);
    progress.Heard(4);
    CHECK(progress.state() == Progress::State::kReplicate);
    for (int i = 0; i < 4; ++i) progress.Tick(kElectionTicks, kStallTicks);
    CHECK(progress.ticks_since_heard() == 4);
    progress.Heard(4);
    CHECK((progress.state() == Progress::State::kUnconfirmed) == under_way);
    CHECK(progress.ticks_since_heard() == 0);
  }
}

TEST_CASE("commit_sent counts only up to the last entry sent") {
  Progress progress = Replicating(2);
  progress.Sent(Index{2}, 0, Index{9});
  CHECK(progress.commit_sent() == Index{2});
  progress.Sent(Index{4}, 100, Index{9});
  CHECK(progress.commit_sent() == Index{4});
  progress.BecomeUnconfirmed();
  CHECK(progress.commit_sent() == Index{2});
}

TEST_CASE("read entries are used only if they begin at next") {
  Progress progress = Replicating(2);
  progress.LogReadRequested();
  CHECK(progress.log_read_outstanding());
  CHECK_FALSE(progress.LogReadAnswered(Index{9}));
  CHECK(progress.log_read_outstanding());
  CHECK(progress.LogReadAnswered(Index{3}));
  CHECK_FALSE(progress.log_read_outstanding());
  progress.KeepReadEntries({{Index{3}, Term{1}, EntryKind::kCommand, {}}});
  CHECK(progress.HasReadEntries());
  progress.Sent(Index{3}, 40, Index{0});
  CHECK_FALSE(progress.HasReadEntries());
}

}  // namespace
}  // namespace quorate::consensus
