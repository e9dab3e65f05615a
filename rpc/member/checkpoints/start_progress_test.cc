// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/start_progress.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/member/testing/captured_log.h"

namespace quorate::rpc {
namespace {

using consensus::Index;
using Lines = std::vector<std::string>;

TEST_CASE("progress is said once a second, and how fast it is") {
  ManualClock clock;
  const CapturedLog log;
  StartProgress progress("weighing", "apples", &clock);
  clock.Advance(999);
  progress.Note(1, 4);
  CHECK(log.Lines("").empty());
  clock.Advance(1);
  progress.Note(0, 0);  // the total is not known yet
  progress.Note(2, 4);
  clock.Advance(999);
  progress.Note(3, 4);
  clock.Advance(1001);
  progress.Note(4, 4);
  CHECK(progress.ms() == 3000);
  CHECK(log.Lines("") == Lines{"weighing: 2 of 4 apples, 50 %, 2 a second",
                               "weighing: 4 of 4 apples, 100 %, 1 a second"});
}

TEST_CASE("reading a log is worth a word if it takes long") {
  ManualClock clock;
  const CapturedLog log;
  LogScanProgress progress(&clock);
  SECTION("it does not") {
    for (size_t i = 1; i <= 9; ++i) {
      clock.Advance(100);
      progress.OnScanned(i, 9);
    }
    CHECK(log.Lines("").empty());
  }
  SECTION("it does") {
    for (size_t i = 1; i <= 3; ++i) {
      clock.Advance(900);
      progress.OnScanned(i, 3);
    }
    CHECK(log.Lines("") == Lines{"reading the log: 2 of 3 segments, 66 %, 1 a second",
                                 "reading the log: 3 segments in 2700 ms"});
  }
}

TEST_CASE("the time of a replay is that since the first entry was applied") {
  ManualClock clock;
  const CapturedLog log;
  ReplayProgress progress(Index(11), Index(20), &clock);
  clock.Advance(60'000);  // there is no leader
  progress.Begin();
  clock.Advance(1000);
  CHECK_FALSE(progress.OnApplied(Index(15)));
  clock.Advance(500);
  progress.Begin();
  // Later entries may be applied together with the last ones of the replay.
  CHECK(progress.OnApplied(Index(25)));
  CHECK(log.Lines("") == Lines{"log replay from entry 11 to 20",
                               "log replay: 5 of 10 entries, 50 %, 5 a second",
                               "log replay: 10 entries, applied in 1500 ms"});
}

}  // namespace
}  // namespace quorate::rpc
