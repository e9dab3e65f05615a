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

// In replicate, with everything up to `match` acknowledged.
Progress Replicating(uint64_t match) {
  Progress progress = Probing(match);
  progress.Sent(Index{match}, 0, Index{0});
  progress.Acknowledged(Index{match}, Index{match});
  REQUIRE(progress.state() == Progress::State::kReplicate);
  return progress;
}

TEST_CASE("one probe is under way at a time, and is repeated without entries") {
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
  // This one is not answered, either.
  progress.Sent(Index{5}, 0, Index{3});
  progress.ProbeAgain();
  CHECK(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kUnconfirmed);
  CHECK(progress.next() == Index{6});
  // The logs do not agree there: the next one carries entries.
  progress.Sent(Index{5}, 0, Index{3});
  CHECK(progress.Rejected(Index{5}, Index{4}));
  CHECK(progress.state() == Progress::State::kProbe);
}

TEST_CASE("an answer to what was probed leads to replicate, an older one does not") {
  Progress progress = Probing(5);
  progress.Sent(Index{7}, 200, Index{3});
  CHECK(progress.Acknowledged(Index{4}, Index{4}));
  CHECK(progress.state() == Progress::State::kProbe);
  CHECK(progress.match() == Index{4});
  // Received, but not durable yet: the next request goes on after it.
  CHECK_FALSE(progress.Acknowledged(Index{4}, Index{7}));
  CHECK(progress.state() == Progress::State::kReplicate);
  CHECK(progress.next() == Index{8});
  CHECK(progress.match() == Index{4});
}

TEST_CASE("the window closes by messages and by bytes, and acknowledgements open it") {
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

TEST_CASE("a rejection lowers next, once, and not below what is acknowledged") {
  Progress progress = Replicating(2);
  progress.Sent(Index{5}, 100, Index{1});
  progress.Sent(Index{6}, 100, Index{1});
  CHECK_FALSE(progress.Rejected(Index{2}, Index{1}));  // acknowledged since
  CHECK_FALSE(progress.Rejected(Index{9}, Index{8}));  // never sent
  CHECK(progress.Rejected(Index{5}, Index{3}));
  CHECK(progress.state() == Progress::State::kProbe);
  CHECK(progress.next() == Index{4});
  CHECK(progress.ProbeDue());
  CHECK_FALSE(progress.WindowFull());
  // The rejections of later requests are outdated.
  CHECK_FALSE(progress.Rejected(Index{6}, Index{0}));
  CHECK(progress.next() == Index{4});
  progress.Sent(Index{3}, 0, Index{1});
  CHECK(progress.Rejected(Index{3}, Index{0}));
  CHECK(progress.next() == Index{3});
}

TEST_CASE("a follower whose disk has lost what it acknowledged gets it again") {
  Progress progress = Replicating(5);
  progress.Sent(Index{6}, 100, Index{5});
  CHECK_FALSE(progress.Rejected(Index{5}, Index{4}));  // from before it was acknowledged
  progress.BecomeUnconfirmed();
  REQUIRE(progress.state() == Progress::State::kUnconfirmed);
  // Everything up to 6 was sent: the first probe asks for that, the next for the acknowledged
  // index.
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

TEST_CASE("what is not acknowledged for an election timeout is unconfirmed, and next stays") {
  Progress progress = Replicating(2);
  for (int i = 0; i < 3 * kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kReplicate);  // nothing is under way
  progress.Sent(Index{4}, 100, Index{2});
  for (int i = 1; i < kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kReplicate);
  progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.state() == Progress::State::kUnconfirmed);
  CHECK(progress.next() == Index{5});
  // It has arrived, only the disk is slow: nothing is sent again, and the window stays taken.
  progress.Sent(Index{4}, 0, Index{2});
  CHECK_FALSE(progress.Acknowledged(Index{2}, Index{4}));
  CHECK(progress.state() == Progress::State::kReplicate);
  CHECK(progress.next() == Index{5});
  progress.Sent(Index{5}, 100, Index{2});
  progress.Sent(Index{6}, 100, Index{2});
  CHECK(progress.WindowFull());
}

TEST_CASE("an acknowledgement that is awaited may be lost although no request is under way") {
  Progress progress = Probing(5);
  progress.Sent(Index{7}, 200, Index{3});
  CHECK(progress.Acknowledged(Index{5}, Index{7}));
  REQUIRE(progress.state() == Progress::State::kReplicate);
  for (int i = 0; i < kElectionTicks; ++i) progress.Tick(kElectionTicks, kStallTicks);
  CHECK(progress.ProbeDue());
  CHECK(progress.state() == Progress::State::kUnconfirmed);
}

TEST_CASE("what is under way is unconfirmed when the follower is heard after a silence") {
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

TEST_CASE("what a follower was told of the commit counts as far as it could use it") {
  Progress progress = Replicating(2);
  progress.Sent(Index{2}, 0, Index{9});
  CHECK(progress.commit_sent() == Index{2});
  progress.Sent(Index{4}, 100, Index{9});
  CHECK(progress.commit_sent() == Index{4});
  progress.BecomeUnconfirmed();
  CHECK(progress.commit_sent() == Index{2});
}

TEST_CASE("read entries are used if they are what comes next") {
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
