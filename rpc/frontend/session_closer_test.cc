// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/session_closer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc {
namespace {

constexpr tree::SessionId kSession{7};

// Outcomes in the order of the calls: "closed", "none" or the code of the status.
class Fixture {
 public:
  Fixture() { service.current.leader_known = service.current.in_touch = true; }

  SessionCloser::Done Record() {
    return [this](const absl::StatusOr<bool>& closed) {
      outcomes.push_back(!closed.ok() ? absl::StatusCodeToString(closed.status().code())
                         : *closed    ? "closed"
                                      : "none");
    };
  }
  void CreateSession() {
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kCreateSession;
    header.proposer = service.proposer();
    header.proposer_tag = kNativeTags.first;  // of a client, not of a close
    header.session = kSession;
    CommandBatch batch;
    tree::AppendCreateSession(header, 4000, std::string(tree::kPasswordBytes, 'p'),
                              batch.bytes.get());
    batch.commands.push_back({0, batch.bytes->size()});
    service.Submit(std::move(batch));
    service.Apply(&closer);
  }
  bool HasSession() {
    tree::SessionInfo info;
    return service.ReadTree()->FindSession(kSession, &info);
  }

  FakeService service;
  SessionCloser closer{&service, kCloserTags};
  std::vector<std::string> outcomes;
};

TEST_CASE("a session is closed whatever its client, and one that is not there is reported") {
  Fixture f;
  f.CreateSession();
  REQUIRE(f.HasSession());
  REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  CHECK(f.outcomes.empty());
  f.service.Apply(&f.closer);
  CHECK(f.outcomes == std::vector<std::string>{"closed", "none"});
  CHECK_FALSE(f.HasSession());
}

TEST_CASE("closes that wait while the tree is replaced have no known outcome") {
  Fixture f;
  f.CreateSession();
  REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  f.service.ReplaceTree(&f.closer);
  CHECK(f.outcomes == std::vector<std::string>{"UNAVAILABLE"});
  REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  f.service.Apply(&f.closer);
  CHECK(f.outcomes == std::vector<std::string>{"UNAVAILABLE", "none"});
}

TEST_CASE("a member that cannot close a session soon submits nothing") {
  Fixture f;
  f.CreateSession();
  f.service.current.in_touch = false;
  CHECK(f.closer.Close(kSession, f.Record()).code() == absl::StatusCode::kUnavailable);
  f.service.current.in_touch = true;
  f.service.is_congested = true;
  CHECK(f.closer.Close(kSession, f.Record()).code() == absl::StatusCode::kUnavailable);
  f.service.Apply(&f.closer);
  CHECK(f.outcomes.empty());
  CHECK(f.HasSession());
  f.service.is_congested = false;
  REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  f.service.Apply(&f.closer);
  CHECK(f.outcomes == std::vector<std::string>{"closed"});
}

TEST_CASE("only so many closes may wait") {
  Fixture f;
  for (size_t i = 0; i < SessionCloser::kWaitingMax; ++i) {
    REQUIRE(f.closer.Close(kSession, f.Record()).ok());
  }
  CHECK(f.closer.Close(kSession, f.Record()).code() == absl::StatusCode::kResourceExhausted);
  f.service.Apply(&f.closer);
  CHECK(f.outcomes.size() == SessionCloser::kWaitingMax);
  CHECK(f.closer.Close(kSession, f.Record()).ok());
}

}  // namespace
}  // namespace quorate::rpc
