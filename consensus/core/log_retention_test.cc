// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_retention.h"

#include <catch2/catch.hpp>
#include <vector>

namespace quorate::consensus {
namespace {

using Follower = LogRetention::Follower;

constexpr size_t kEntryBytes = 10;
constexpr Index kLast{1000};
constexpr int kRetainedTicks = 50;
constexpr int kStallTicks = 20;

// Keeps at most 200 entries for a follower that lags, and 500 for one that receives a checkpoint.
LogRetention::Limits SomeLimits() {
  return {.trailing_entries = 5,
          .retained_entries_max = 200,
          .retained_bytes_max = kLast.value() * kEntryBytes,
          .transfer_bytes_max = 500 * kEntryBytes,
          .retained_ticks_max = kRetainedTicks,
          .stall_ticks = kStallTicks};
}

// The sizes of a log of kLast entries of kEntryBytes each, exact for each entry.
LogSizes SomeSizes() {
  LogSizes sizes(Index{0}, {}, Index{0}, 1);
  for (uint64_t i = 0; i < kLast.value(); ++i) sizes.Append(kEntryBytes);
  return sizes;
}

// A member with a checkpoint of 900, and the one before it of 850.
class Fixture {
 public:
  Fixture() : Fixture(SomeLimits()) {}
  explicit Fixture(const LogRetention::Limits& limits) : retention(limits, Index{850}, Index{0}) {
    retention.Checkpointed(Index{900}, Index{0});
  }
  Index AtLeader(const std::vector<Follower>& followers, uint64_t now_ticks = 0) const {
    return retention.TargetAtLeader(kLast, sizes, now_ticks, followers);
  }
  Index Elsewhere(bool has_other_voters, uint64_t now_ticks = 0) const {
    return retention.TargetElsewhere(kLast, sizes, now_ticks, has_other_voters);
  }

  LogRetention retention;
  LogSizes sizes = SomeSizes();
};

TEST_CASE("without followers only the trailing entries before the checkpoint are kept") {
  Fixture test;
  CHECK(test.AtLeader({}) == Index{895});
  CHECK(test.Elsewhere(false) == Index{895});
}

TEST_CASE("with a checkpoint at fewer than the trailing entries nothing is dropped") {
  const LogRetention retention(SomeLimits(), Index{3}, Index{0});
  CHECK(retention.TargetAtLeader(kLast, SomeSizes(), 0, {}) == Index{0});
}

TEST_CASE("entries that are not durable are kept") {
  Fixture test;
  CHECK(test.retention.TargetAtLeader(Index{870}, test.sizes, 0, {}) == Index{870});
  CHECK(test.retention.TargetElsewhere(Index{870}, test.sizes, 0, false) == Index{870});
}

TEST_CASE("a leader keeps what the follower that lags most needs, up to a number of entries") {
  Fixture test;
  CHECK(test.AtLeader({{.match = Index{800}}, {.match = Index{750}}}) == Index{750});
  CHECK(test.AtLeader({{.match = Index{800}}, {.match = Index{600}}}) == Index{700});
}

TEST_CASE("a leader keeps what a follower that lags needs, up to a number of bytes") {
  LogRetention::Limits limits = SomeLimits();
  limits.retained_bytes_max = 120 * kEntryBytes;
  CHECK(Fixture(limits).AtLeader({{.match = Index{600}}}) == Index{780});
}

TEST_CASE("nothing is kept for a follower that was silent for too long") {
  Fixture test;
  Follower follower{.match = Index{800}, .ticks_since_heard = kRetainedTicks - 1};
  CHECK(test.AtLeader({follower}) == Index{800});
  ++follower.ticks_since_heard;
  CHECK(test.AtLeader({follower}) == Index{895});
}

TEST_CASE("the log after a checkpoint that is being sent is kept up to its own bound") {
  Fixture test;
  Follower follower{.match = Index{10}, .held_from = Index{450}, .receives_checkpoint = true};
  CHECK(test.AtLeader({follower}) == Index{450});
  // It is kept while the follower is silent, too: Progress decides when it stalls.
  follower.ticks_since_heard = kRetainedTicks;
  CHECK(test.AtLeader({follower}) == Index{450});
  follower.held_from = Index{300};
  CHECK(test.AtLeader({follower}) == Index{400});
  // A transfer that has stalled: the entries that the follower lacks are of no use to it either.
  follower.held_from = Index{0};
  follower.ticks_since_heard = 0;
  CHECK(test.AtLeader({follower}) == Index{895});
}

TEST_CASE("after a transfer the log is held until the follower has reached the checkpoint") {
  Fixture test;
  Follower follower{.match = Index{500}, .held_from = Index{500}};
  CHECK(test.AtLeader({follower}) == Index{500});
  CHECK_FALSE(test.retention.IsCaughtUp(follower));
  follower.match = Index{900};
  CHECK(test.retention.IsCaughtUp(follower));
  CHECK(test.AtLeader({follower}) == Index{895});
  follower.receives_checkpoint = true;
  CHECK_FALSE(test.retention.IsCaughtUp(follower));
}

TEST_CASE("a member that does not lead keeps the log back to its previous checkpoint") {
  Fixture test;
  CHECK(test.Elsewhere(true) == Index{850});
  // A checkpoint that is not newer changes nothing.
  test.retention.Checkpointed(Index{900}, Index{0});
  test.retention.Checkpointed(Index{880}, Index{0});
  CHECK(test.retention.checkpoint() == Index{900});
  CHECK(test.Elsewhere(true) == Index{850});
  test.retention.Checkpointed(Index{960}, Index{0});
  CHECK(test.Elsewhere(true) == Index{900});
}

TEST_CASE("the log before the first checkpoint is kept from its beginning, within the bounds") {
  LogRetention retention(SomeLimits(), Index{0}, Index{0});
  retention.Checkpointed(Index{150}, Index{0});
  CHECK(retention.TargetElsewhere(kLast, SomeSizes(), 0, true) == Index{0});
  LogRetention late(SomeLimits(), Index{0}, Index{0});
  late.Checkpointed(Index{900}, Index{0});
  CHECK(late.TargetElsewhere(kLast, SomeSizes(), 0, true) == Index{700});
}

TEST_CASE("a log that begins after the previous checkpoint is kept from its beginning") {
  LogRetention retention(SomeLimits(), Index{0}, Index{0});
  retention.Checkpointed(Index{900}, Index{880});
  CHECK(retention.TargetElsewhere(kLast, SomeSizes(), 0, true) == Index{880});
}

TEST_CASE("what was held in a leadership stays for a while after it") {
  Fixture test;
  test.retention.EndedSending({{.match = Index{890}},
                               {.match = Index{700}, .held_from = Index{700}},
                               {.match = Index{1}, .held_from = Index{600}}},
                              100);
  CHECK(test.Elsewhere(true, 100 + kStallTicks - 1) == Index{600});
  CHECK(test.AtLeader({}, 100 + kStallTicks - 1) == Index{600});
  CHECK(test.Elsewhere(false, 100 + kStallTicks - 1) == Index{600});
  CHECK(test.Elsewhere(true, 100 + kStallTicks) == Index{850});
  CHECK(test.AtLeader({}, 100 + kStallTicks) == Index{895});
}

TEST_CASE("a leadership that held nothing does not end what an earlier one holds") {
  Fixture test;
  test.retention.EndedSending({{.match = Index{1}, .held_from = Index{300}}}, 100);
  test.retention.EndedSending({{.match = Index{890}}}, 110);
  CHECK(test.AtLeader({}, 111) == Index{400});
  CHECK(test.AtLeader({}, 100 + kStallTicks) == Index{895});
}

TEST_CASE("while the disk is almost full nothing is kept for a follower") {
  Fixture test;
  const std::vector<Follower> followers = {
      {.match = Index{800}},
      {.match = Index{1}, .held_from = Index{700}, .receives_checkpoint = true}};
  test.retention.EndedSending(followers, 0);
  test.retention.SetSpaceIsShort(true);
  CHECK(test.AtLeader(followers) == Index{895});
  CHECK(test.Elsewhere(true) == Index{895});
  test.retention.SetSpaceIsShort(false);
  CHECK(test.AtLeader(followers) == Index{700});
}

TEST_CASE("an installed snapshot is the newest checkpoint, and nothing precedes it") {
  Fixture test;
  test.retention.Reset(Index{990});
  CHECK(test.retention.checkpoint() == Index{990});
  test.retention.Checkpointed(Index{995}, Index{990});
  CHECK(test.retention.TargetElsewhere(kLast, test.sizes, 0, true) == Index{990});
}

}  // namespace
}  // namespace quorate::consensus
