// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tree/limits.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

Request One(Op op) { return Request{false, {std::move(op)}, {}}; }

SessionInfo InfoOf(const Server& server, SessionId session = kSession) {
  SessionInfo info;
  REQUIRE(server.tree().FindSession(session, &info));
  return info;
}

TEST_CASE("a numbered write is applied once, and each repetition gets the response") {
  Server server;
  server.OpenSession();
  const Request request = One(MakeCreate("/n", "x", CreateMode::kPersistentSequential));
  const ApplyResult first = server.DoSequenced(1, 0, request);
  CHECK(first.error == ErrorCode::kOk);
  CHECK_FALSE(first.repeated);
  CHECK(first.client_sequence == 1);
  REQUIRE(first.ops.size() == 1);
  CHECK(first.ops[0].path == "/n0000000000");
  CHECK(first.ops[0].stat.czxid == first.zxid);
  CHECK(server.events() == Strings{"created /n0000000000"});
  CHECK(InfoOf(server).last_sequence == 1);
  CHECK(InfoOf(server).acknowledged == 0);

  server.Do(MakeSetData("/n0000000000", "changed since"));
  const uint64_t digest = server.tree().digest();
  const ApplyResult again = server.DoSequenced(1, 0, request);
  CHECK(again.error == ErrorCode::kOk);
  CHECK(again.repeated);
  CHECK(again.client_sequence == 1);
  CHECK(again.zxid == first.zxid);
  CHECK(again.zxid < server.tree().last_zxid());
  CHECK((again.ops == first.ops));
  CHECK(server.events().empty());
  CHECK_FALSE(server.Has("/n0000000001"));
  // Only the sequence number of the proposer changed.
  CHECK(server.tree().digest() != digest);
}

TEST_CASE("the memory of a session and of its responses is freed with it") {
  Server server;
  const auto session_bytes = [&server] { return server.tree().session_memory_bytes(); };
  const auto answer_bytes = [&server] { return server.tree().answer_memory_bytes(); };
  CHECK(session_bytes() == 0);
  server.OpenSession();
  CHECK(session_bytes() > 0);
  CHECK(answer_bytes() == 0);
  const std::string path = "/" + std::string(100'000, 'p');
  server.DoSequenced(1, 0, One(MakeCreate(path)));
  CHECK(answer_bytes() > 100'000);
  CHECK(answer_bytes() < 400'000);
  server.DoSequenced(2, 1, One(MakeCreate(path)));  // fails; the first response is dropped
  CHECK(answer_bytes() < 100'000);
  CHECK(answer_bytes() > 0);
  server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
  CHECK(answer_bytes() == 0);
  CHECK(session_bytes() == 0);
}

TEST_CASE("a repetition through another server after a move gets the first response") {
  Server server;
  server.OpenSession();
  const ApplyResult first = server.DoSequenced(1, 0, One(MakeCreate("/a")));
  const Zxid old_attachment = server.AttachZxid();
  server.proposer = server.self = Proposer{2, 1};
  server.sequence = 0;
  server.AttachSession();
  const ApplyResult again = server.DoSequenced(1, 0, One(MakeCreate("/a")));
  CHECK(again.repeated);
  CHECK(again.zxid == first.zxid);
  CHECK((again.ops == first.ops));

  // A late write over the previous connection uses no number, and acknowledges nothing.
  std::string late;
  AppendSequencedRequest(server.Next(kSession, old_attachment), 2, 1, One(MakeCreate("/b")), &late);
  const ApplyResult moved = server.ApplyOwn(late);
  CHECK(moved.error == ErrorCode::kSessionMoved);
  CHECK(moved.client_sequence == 2);
  CHECK(InfoOf(server).last_sequence == 1);
  CHECK(InfoOf(server).acknowledged == 0);
  CHECK_FALSE(server.DoSequenced(2, 0, One(MakeCreate("/b"))).repeated);
  CHECK(server.Has("/b"));
}

TEST_CASE("a numbered write of an unknown session is refused") {
  Server server;
  const ApplyResult result = server.DoSequenced(1, 0, One(MakeCreate("/a")));
  CHECK(result.error == ErrorCode::kSessionExpired);
  CHECK(result.client_sequence == 1);
  CHECK(result.ops.empty());
  CHECK_FALSE(server.Has("/a"));
}

TEST_CASE("a write that fails has a response and uses its number") {
  Server server;
  server.OpenSession();
  const Request missing = One(MakeSetData("/a", "x"));
  const ApplyResult failed = server.DoSequenced(1, 0, missing);
  CHECK(failed.error == ErrorCode::kOk);
  CHECK(failed.ops[0].error == ErrorCode::kNoNode);
  const Request multi{true, {MakeCreate("/a"), MakeDelete("/none"), MakeCreate("/b")}, {}};
  const ApplyResult failed_multi = server.DoSequenced(2, 0, multi);
  server.Do(MakeCreate("/a"));
  // The write would succeed now, but its repetition returns the error.
  const ApplyResult again = server.DoSequenced(1, 0, missing);
  CHECK(again.repeated);
  CHECK((again.ops == failed.ops));
  const ApplyResult multi_again = server.DoSequenced(2, 0, multi);
  CHECK((multi_again.ops == failed_multi.ops));
  REQUIRE(multi_again.ops.size() == 3);
  CHECK(multi_again.ops[0].error == ErrorCode::kOk);
  CHECK(multi_again.ops[1].error == ErrorCode::kNoNode);
  CHECK(multi_again.ops[2].error == ErrorCode::kRuntimeInconsistency);
}

TEST_CASE("a write that overtook another is refused until that is applied") {
  Server server;
  server.OpenSession();
  const ApplyResult early = server.DoSequenced(2, 0, One(MakeCreate("/b")));
  CHECK(early.error == ErrorCode::kOutOfSequence);
  CHECK(early.ops.empty());
  CHECK_FALSE(server.Has("/b"));
  CHECK(InfoOf(server).last_sequence == 0);
  CHECK(server.DoSequenced(1, 0, One(MakeCreate("/a"))).error == ErrorCode::kOk);
  CHECK(server.DoSequenced(3, 0, One(MakeCreate("/c"))).error == ErrorCode::kOutOfSequence);
  CHECK(server.DoSequenced(2, 0, One(MakeCreate("/b"))).error == ErrorCode::kOk);
  constexpr uint64_t kMost = ~uint64_t{0};
  CHECK(server.DoSequenced(kMost, 0, One(MakeCreate("/c"))).error == ErrorCode::kOutOfSequence);
}

TEST_CASE("responses are dropped once the client has acknowledged them") {
  Server server;
  server.OpenSession();
  for (uint64_t n = 1; n <= 4; ++n) server.DoSequenced(n, 0, One(MakeCheck("/")));
  const ApplyResult fifth = server.DoSequenced(5, 3, One(MakeCheck("/")));
  CHECK(fifth.error == ErrorCode::kOk);
  CHECK(InfoOf(server).acknowledged == 3);
  CHECK(server.DoSequenced(3, 0, One(MakeCheck("/"))).error == ErrorCode::kAlreadyAcknowledged);
  CHECK(InfoOf(server).acknowledged == 3);
  CHECK(server.DoSequenced(4, 0, One(MakeCheck("/"))).repeated);
  // This write acknowledges its own response.
  CHECK(server.DoSequenced(4, 4, One(MakeCheck("/"))).error == ErrorCode::kAlreadyAcknowledged);
  // A refused write acknowledges responses too, but only responses that exist.
  const ApplyResult early = server.DoSequenced(9, 8, One(MakeCheck("/")));
  CHECK(early.error == ErrorCode::kOutOfSequence);
  CHECK(InfoOf(server).acknowledged == 5);
  CHECK(server.DoSequenced(6, 100, One(MakeCheck("/"))).error == ErrorCode::kOk);
  CHECK(InfoOf(server).acknowledged == 5);
  CHECK(server.DoSequenced(6, 5, One(MakeCheck("/"))).repeated);
}

TEST_CASE("the responses of a session are dropped when it ends") {
  Server server;
  server.OpenSession();
  server.DoSequenced(1, 0, One(MakeCreate("/a")));
  server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
  server.OpenSession();
  CHECK(InfoOf(server).last_sequence == 0);
  CHECK(server.DoSequenced(2, 0, One(MakeCreate("/b"))).error == ErrorCode::kOutOfSequence);
  CHECK(server.DoSequenced(1, 0, One(MakeCreate("/b"))).error == ErrorCode::kOk);
  CHECK(server.Has("/b"));
}

TEST_CASE("each session has its own numbers") {
  Server server;
  server.OpenSession();
  server.OpenSession(kOtherSession);
  CHECK(server.DoSequenced(1, 0, One(MakeCreate("/a"))).error == ErrorCode::kOk);
  CHECK(server.DoSequenced(2, 0, One(MakeCreate("/b")), kOtherSession).error ==
        ErrorCode::kOutOfSequence);
  const ApplyResult other = server.DoSequenced(1, 0, One(MakeCreate("/a")), kOtherSession);
  CHECK_FALSE(other.repeated);
  CHECK(other.ops[0].error == ErrorCode::kNodeExists);
}

TEST_CASE("a client that acknowledges nothing is refused after the maximum of responses") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  for (uint64_t n = 1; n <= kAnswersMax; ++n) {
    REQUIRE(server.DoSequenced(n, 0, One(MakeSetData("/a", "x"))).error == ErrorCode::kOk);
  }
  const uint64_t next = kAnswersMax + 1;
  const ApplyResult refused = server.DoSequenced(next, 0, One(MakeSetData("/a", "y")));
  CHECK(refused.error == ErrorCode::kTooManyUnacknowledged);
  CHECK(refused.ops.empty());
  CHECK(server.events().empty());
  CHECK(server.StatOf("/a").version == kAnswersMax);
  CHECK(InfoOf(server).last_sequence == kAnswersMax);
  CHECK(server.DoSequenced(1, 0, One(MakeSetData("/a", "x"))).repeated);
  CHECK(server.DoSequenced(next, 1, One(MakeSetData("/a", "y"))).error == ErrorCode::kOk);
  CHECK(server.StatOf("/a").version == next);
}

// Returns a request of many creates, whose response has long paths.
Request LongPaths(std::vector<std::string>* paths, size_t count, char first) {
  Request request;
  request.multi = true;
  paths->reserve(count);
  for (size_t i = 0; i < count; ++i) {
    std::string& path = paths->emplace_back("/");
    path += first;
    path += std::to_string(i);
    path.resize(1000, 'p');
    request.ops.push_back(MakeCreate(path));
  }
  return request;
}

TEST_CASE("the responses of a session are limited in bytes") {
  Server server;
  server.OpenSession();
  std::vector<std::string> a_paths, b_paths;
  const Request first = LongPaths(&a_paths, 600, 'a');
  const Request second = LongPaths(&b_paths, 600, 'b');
  REQUIRE(server.DoSequenced(1, 0, first).error == ErrorCode::kOk);
  const size_t nodes = server.tree().node_count();
  const ApplyResult refused = server.DoSequenced(2, 0, second);
  CHECK(refused.error == ErrorCode::kTooManyUnacknowledged);
  CHECK(refused.ops.empty());
  CHECK(server.events().empty());
  CHECK(server.tree().node_count() == nodes);
  CHECK(InfoOf(server).last_sequence == 1);
  // A short response still fits.
  CHECK(server.DoSequenced(2, 0, One(MakeCheck("/"))).error == ErrorCode::kOk);
  CHECK(server.DoSequenced(3, 2, second).error == ErrorCode::kOk);
  CHECK(server.tree().node_count() == nodes + 600);
}

TEST_CASE("a write whose response exceeds the limit fails, and the failure is its response") {
  Server server;
  server.OpenSession();
  std::vector<std::string> paths;
  const Request request = LongPaths(&paths, 1100, 'a');
  const size_t nodes = server.tree().node_count();
  const ApplyResult result = server.DoSequenced(1, 0, request);
  CHECK(result.error == ErrorCode::kOk);
  REQUIRE(result.ops.size() == 1100);
  CHECK(result.ops[0].error == ErrorCode::kTooLarge);
  CHECK(result.ops[1].error == ErrorCode::kRuntimeInconsistency);
  CHECK(server.tree().node_count() == nodes);
  CHECK(server.events().empty());
  const ApplyResult again = server.DoSequenced(1, 0, request);
  CHECK(again.repeated);
  CHECK((again.ops == result.ops));
}

TEST_CASE("a session can have numbered writes, plain writes and ephemerals at the same time") {
  Server server;
  server.OpenSession();
  server.DoSequenced(1, 0, One(MakeCreate("/e", "", CreateMode::kEphemeral)));
  server.Do(MakeCreate("/f", "", CreateMode::kEphemeral));
  CHECK(server.DoSequenced(2, 1, One(MakeDelete("/f"))).ops[0].error == ErrorCode::kOk);
  CHECK(server.tree().Ephemerals(kSession) == Strings{"/e"});
  server.EndSession(CommandKind::kExpireSession, kSession, server.AttachZxid());
  CHECK_FALSE(server.Has("/e"));
}

}  // namespace
}  // namespace quorate::tree
