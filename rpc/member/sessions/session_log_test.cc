// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/session_log.h"

#include <catch2/catch.hpp>

#include "rpc/member/testing/captured_log.h"

namespace quorate::rpc {
namespace {

using std::chrono::seconds;

constexpr std::chrono::steady_clock::time_point kStart{seconds(1000)};

TEST_CASE("a session that opens, moves or expires is a line each") {
  const CapturedLog log;
  SessionLog sessions;
  sessions.Note(SessionLog::Event::kOpened, tree::SessionId(0x2a), 4000, kStart);
  sessions.Note(SessionLog::Event::kMoved, tree::SessionId(0x2b), 6000, kStart);
  sessions.Note(SessionLog::Event::kExpired, tree::SessionId(0x2a), 0, kStart);
  CHECK(
      log.Lines("") ==
      std::vector<std::string>{
          "session opened session=0x2a timeout_ms=4000",
          "session moved to this server session=0x2b timeout_ms=6000",
          "session expires: nothing was received from its client within the timeout session=0x2a"});
}

TEST_CASE("the session of a server with a high number is logged without a sign") {
  const CapturedLog log;
  SessionLog sessions;
  const tree::SessionId session(static_cast<int64_t>(0xfe0000000000002a));
  for (const auto event :
       {SessionLog::Event::kOpened, SessionLog::Event::kMoved, SessionLog::Event::kExpired}) {
    sessions.Note(event, session, 4000, kStart);
  }
  const std::vector<std::string> lines = log.Lines("");
  REQUIRE(lines.size() == 3);
  for (const std::string& line : lines) {
    CHECK(line.find("session=0xfe0000000000002a") != std::string::npos);
  }
}

TEST_CASE("of many sessions at once, most are counted in one line") {
  const CapturedLog log;
  SessionLog sessions;
  for (int i = 0; i < 1000; ++i) {
    sessions.Note(SessionLog::Event::kOpened, tree::SessionId(i + 1), 4000, kStart);
  }
  sessions.Note(SessionLog::Event::kMoved, tree::SessionId(1), 4000, kStart);
  CHECK(log.Lines("").size() == SessionLog::kLinesMax);
  sessions.Tick(kStart + seconds(9));
  CHECK(log.Lines("more").empty());
  sessions.Tick(kStart + seconds(10));
  CHECK(log.Lines("more") ==
        std::vector<std::string>{"more sessions in the last 10 s opened=980 moved=1 expired=0"});
  // A new interval begins.
  sessions.Note(SessionLog::Event::kOpened, tree::SessionId(7), 4000, kStart + seconds(11));
  CHECK(log.Lines("session opened").size() == SessionLog::kLinesMax + 1);
  sessions.Tick(kStart + seconds(60));
  CHECK(log.Lines("more").size() == 1);
}

}  // namespace
}  // namespace quorate::rpc
