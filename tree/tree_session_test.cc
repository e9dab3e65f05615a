// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

const std::string kFirst = std::to_string(kSession.value());

TEST_CASE("createSession adds a session with its timeout and password") {
  Server server;
  const ApplyResult result = server.OpenSession(kSession, kPassword, 6000);
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.timeout_ms == 6000);
  CHECK(result.ops.empty());
  SessionInfo info;
  REQUIRE(server.tree().FindSession(kSession, &info));
  CHECK(info.id == kSession);
  CHECK(info.timeout_ms == 6000);
  CHECK(info.attach_zxid == server.tree().last_zxid());
  CHECK(info.member == 1);
  CHECK(info.ephemerals == 0);
  CHECK(server.tree().CheckPassword(kSession, kPassword));
  CHECK_FALSE(server.tree().CheckPassword(kSession, "wrong"));
  CHECK_FALSE(server.tree().CheckPassword(kOtherSession, kPassword));
  CHECK_FALSE(server.tree().FindSession(kOtherSession, &info));
  CHECK(server.events() == Strings{"attached " + kFirst});
  CHECK(server.listener().attached[0].timeout_ms == 6000);
}

TEST_CASE("a session that is created again is attached, if the password is the same") {
  Server server;
  server.OpenSession();
  CHECK(server.OpenSession(kSession, "another").error == ErrorCode::kSessionExpired);
  CHECK(server.events().empty());
  CHECK(server.tree().CheckPassword(kSession, kPassword));
  CHECK(server.OpenSession(kSession, kPassword, 9000).error == ErrorCode::kOk);
  CHECK(server.AttachZxid() == server.tree().last_zxid());
  CHECK(server.tree().session_count() == 1);
  CHECK(server.tree().Sessions()[0].timeout_ms == 9000);
}

TEST_CASE("a session moves to the server that attaches it") {
  Server server;
  server.OpenSession();
  const Zxid created = server.AttachZxid();
  CHECK(server.AttachSession(kOtherSession).error == ErrorCode::kSessionExpired);
  CHECK(server.AttachSession(kSession, "wrong").error == ErrorCode::kSessionExpired);
  CHECK(server.events().empty());
  CHECK(server.AttachZxid() == created);

  server.proposer = server.self = Proposer{2, 1};
  server.sequence = 0;
  const ApplyResult result = server.AttachSession(kSession, kPassword, 5000);
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.timeout_ms == 5000);
  SessionInfo info;
  REQUIRE(server.tree().FindSession(kSession, &info));
  CHECK(info.member == 2);
  CHECK(info.timeout_ms == 5000);
  CHECK(info.attach_zxid == server.tree().last_zxid());
  CHECK(server.events() == Strings{"attached " + kFirst});

  // This request was sent over the old connection and arrives too late.
  std::string late;
  AppendRequest(server.Next(kSession, created), Request{true, {MakeCreate("/late")}, {}}, &late);
  const ApplyResult refused = server.ApplyOwn(late);
  CHECK(refused.error == ErrorCode::kSessionMoved);
  CHECK(refused.ops.empty());
  CHECK_FALSE(server.Has("/late"));
  CHECK(server.Do(MakeCreate("/now")).error == ErrorCode::kOk);
}

TEST_CASE("a request of an unknown session is refused") {
  Server server;
  std::string command;
  AppendRequest(server.Next(kSession, Zxid(1)), Request{false, {MakeCreate("/a")}, {}}, &command);
  const ApplyResult result = server.ApplyOwn(command);
  CHECK(result.error == ErrorCode::kSessionExpired);
  CHECK(result.ops.empty());
  CHECK_FALSE(server.Has("/a"));
}

TEST_CASE("a request of a local session does everything except create ephemerals") {
  Server server;
  const auto apply = [&](SessionId session, Zxid attach_zxid, Op op) {
    std::string command;
    AppendRequest(server.Next(session, attach_zxid), Request{false, {std::move(op)}, {}}, &command);
    return server.ApplyOwn(command);
  };
  CHECK(apply(kSession, Zxid(0), MakeCreate("/a")).ops[0].error == ErrorCode::kOk);
  CHECK(server.StatOf("/a").ephemeral_owner == kNoSession);
  CHECK(apply(kSession, Zxid(0), MakeCreate("/b", "", CreateMode::kEphemeral)).ops[0].error ==
        ErrorCode::kEphemeralOnLocalSession);
  // As in ZooKeeper, the session is looked at before the path.
  CHECK(apply(kSession, Zxid(0), MakeCreate("b", "", CreateMode::kEphemeralSequential))
            .ops[0]
            .error == ErrorCode::kEphemeralOnLocalSession);
  CHECK(apply(kNoSession, Zxid(0), MakeCreate("/b", "", CreateMode::kEphemeral)).ops[0].error ==
        ErrorCode::kBadArguments);
  CHECK(server.tree().session_count() == 0);

  // After the session has become global, a late request of the local one has no effect.
  server.OpenSession();
  CHECK(apply(kSession, Zxid(0), MakeCreate("/late")).error == ErrorCode::kSessionMoved);
  CHECK_FALSE(server.Has("/late"));
  CHECK(apply(kSession, server.AttachZxid(), MakeCreate("/b", "", CreateMode::kEphemeral))
            .ops[0]
            .error == ErrorCode::kOk);
}

TEST_CASE("the end of a session deletes its ephemerals in the order of their creation") {
  Server server;
  server.OpenSession();
  server.OpenSession(kOtherSession);
  server.Do(MakeCreate("/p"));
  const CreateMode ephemeral = CreateMode::kEphemeral;
  server.Do(MakeCreate("/z", "zz", ephemeral));
  server.Do(MakeCreate("/p/gone", "", ephemeral));
  server.Do(MakeCreate("/other", "", ephemeral), kOtherSession);
  server.DoMulti({MakeCreate("/p/b", "", ephemeral), MakeCreate("/a", "", ephemeral)});
  server.Do(MakeDelete("/p/gone"), kOtherSession);
  CHECK(server.tree().ephemeral_count() == 4);
  CHECK(server.tree().Ephemerals(kSession) == Strings{"/z", "/p/b", "/a"});
  CHECK(server.StatOf("/z").ephemeral_owner == kSession);
  CHECK(server.StatOf("/p").ephemeral_owner == kNoSession);
  CHECK(server.tree().Sessions()[0].ephemerals == 3);

  const ApplyResult result =
      server.EndSession(CommandKind::kCloseSession, kSession, server.AttachZxid());
  const Zxid zxid = server.tree().last_zxid();
  CHECK(result.error == ErrorCode::kOk);
  CHECK(server.events() == Strings{"deleted /z", "deleted /p/b", "deleted /a", "closed " + kFirst});
  CHECK(server.listener().last_event_zxid == zxid);
  CHECK(server.StatOf("/p").pzxid == zxid);
  CHECK(server.StatOf("/p").cversion == 4);
  CHECK(server.tree().ephemeral_count() == 1);
  CHECK(server.tree().session_count() == 1);
  CHECK(server.tree().Ephemerals(kSession).empty());
  CHECK(server.Has("/other"));
  CHECK(server.tree().Ephemerals(kOtherSession) == Strings{"/other"});
}

TEST_CASE("the ephemerals of a session are read in pieces, in the order of their creation") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/p"));
  server.Do(MakeCreate("/p/kept"));
  const Strings all = {"/p/a", "/pq", "/b", "/p/ab"};
  for (const std::string& path : all) server.Do(MakeCreate(path, "", CreateMode::kEphemeral));
  Strings read;
  const auto one = [&read](std::string_view path) {
    read.emplace_back(path);
    return false;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    REQUIRE(server.tree().ReadEphemerals(kSession, read.empty() ? "" : read.back(), one));
  }
  CHECK(read == all);
  CHECK(server.tree().ReadEphemerals(kSession, read.back(), one));
  CHECK(read == all);
  for (const char* other : {"/none", "/p", "/p/kept"}) {
    CHECK_FALSE(server.tree().ReadEphemerals(kSession, other, one));
  }
  CHECK_FALSE(server.tree().ReadEphemerals(kOtherSession, "/b", one));
  CHECK(server.tree().ReadEphemerals(kOtherSession, "", one));
  CHECK(read == all);
}

TEST_CASE("closing a session needs the current attach zxid, or 0") {
  Server server;
  const CommandKind close = CommandKind::kCloseSession;
  CHECK(server.EndSession(close, kSession, Zxid(0)).error == ErrorCode::kSessionExpired);
  server.OpenSession();
  const Zxid old = server.AttachZxid();
  server.AttachSession();
  CHECK(server.EndSession(close, kSession, old).error == ErrorCode::kSessionMoved);
  CHECK(server.tree().session_count() == 1);
  CHECK(server.events().empty());
  CHECK(server.EndSession(close, kSession, Zxid(0)).error == ErrorCode::kOk);
  CHECK(server.events() == Strings{"closed " + kFirst});
  CHECK(server.tree().session_count() == 0);
}

TEST_CASE("expiry does not end a session that was attached again") {
  Server server;
  const CommandKind expire = CommandKind::kExpireSession;
  server.OpenSession();
  server.Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  const Zxid old = server.AttachZxid();
  server.AttachSession();
  CHECK(server.EndSession(expire, kSession, old).error == ErrorCode::kSessionMoved);
  CHECK(server.EndSession(expire, kSession, Zxid(0)).error == ErrorCode::kSessionMoved);
  CHECK(server.Has("/e"));
  CHECK(server.EndSession(expire, kSession, server.AttachZxid()).error == ErrorCode::kOk);
  CHECK(server.events() == Strings{"deleted /e", "closed " + kFirst});
  CHECK_FALSE(server.Has("/e"));
  CHECK(server.EndSession(expire, kSession, old).error == ErrorCode::kSessionExpired);
}

TEST_CASE("sessions are listed in the order of their ids") {
  Server server;
  server.OpenSession(SessionId(9));
  constexpr SessionId kNegative(std::numeric_limits<int64_t>::min() + 4);
  server.OpenSession(kNegative);
  server.OpenSession(SessionId(2));
  Strings ids;
  for (const SessionInfo& info : server.tree().Sessions()) {
    ids.push_back(std::to_string(info.id.value()));
  }
  CHECK(ids == Strings{std::to_string(kNegative.value()), "2", "9"});
}

TEST_CASE("the dedup table is bounded: it has one entry for each server") {
  Server server;
  server.OpenSession();
  const auto head_bytes = [&server] {
    size_t bytes = 0;
    server.tree().ForEachRecord([&](std::string_view, std::optional<std::string_view> value) {
      if (bytes == 0) bytes = value->size();  // the head comes first
    });
    return bytes;
  };
  size_t first = 0;
  for (uint64_t incarnation = 7; incarnation < 60; ++incarnation) {
    for (uint16_t member : {1, 2, 3}) {
      for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
        CommandHeader header;
        header.proposer = {member, incarnation};
        header.sequence = sequence;
        header.time_ms = server.time_ms;
        std::string command;
        AppendRequest(header, Request{false, {MakeSetData("/", "")}, {}}, &command);
        server.ApplyBytes(command);
      }
    }
    if (incarnation == 8) first = head_bytes();
  }
  CHECK(first > 0);
  CHECK(head_bytes() == first);
}

TEST_CASE("a command of a server is applied once, and only after its predecessor") {
  Server server;
  server.OpenSession();
  std::string first;
  std::string second;
  AppendRequest(server.Next(kSession, server.AttachZxid()), Request{false, {MakeCreate("/1")}, {}},
                &first);
  AppendRequest(server.Next(kSession, server.AttachZxid()), Request{false, {MakeCreate("/2")}, {}},
                &second);
  const auto ignored = [&server](const std::string& command) {
    const uint64_t digest = server.tree().digest();
    const Zxid zxid = server.tree().last_zxid();
    const int64_t time_ms = server.tree().time_ms();
    std::string later = command;
    StampTime(later.data(), time_ms + 1000);
    CHECK_FALSE(server.ApplyBytes(later).has_value());
    CHECK(server.events().empty());
    CHECK(server.tree().digest() == digest);
    CHECK(server.tree().time_ms() == time_ms);
    CHECK(server.tree().last_zxid() == zxid + 1);
  };
  ignored(second);
  CHECK(server.ApplyOwn(first).ops[0].error == ErrorCode::kOk);
  ignored(first);
  CHECK(server.ApplyOwn(second).ops[0].error == ErrorCode::kOk);
  ignored(first);
  ignored(second);

  // A failed command uses its sequence too.
  std::string failing;
  AppendRequest(server.Next(kOtherSession, Zxid(1)), Request{false, {MakeCreate("/3")}, {}},
                &failing);
  CHECK(server.ApplyOwn(failing).error == ErrorCode::kSessionExpired);
  ignored(failing);
}

TEST_CASE("a new incarnation starts at number 1 and ends the old one") {
  Server server;
  server.OpenSession();
  const Proposer old = server.proposer;
  const uint64_t old_sequence = server.sequence;
  const auto apply = [&server](Proposer proposer, uint64_t sequence) {
    server.proposer = server.self = proposer;
    server.sequence = sequence - 1;
    std::string command;
    AppendRequest(server.Next(kSession, server.AttachZxid()), Request{false, {MakeCheck("/")}, {}},
                  &command);
    return server.ApplyBytes(command).has_value();
  };
  CHECK_FALSE(apply(Proposer{1, 8}, 2));
  CHECK(apply(old, old_sequence + 1));
  CHECK(apply(Proposer{1, 8}, 1));
  CHECK_FALSE(apply(Proposer{1, 8}, 1));
  CHECK_FALSE(apply(old, old_sequence + 2));
  CHECK_FALSE(apply(old, 1));
  CHECK(apply(Proposer{1, 8}, 2));
  // Each member has its own sequence.
  CHECK_FALSE(apply(Proposer{2, 8}, 3));
  CHECK(apply(Proposer{2, 8}, 1));
  CHECK(apply(Proposer{1, 8}, 3));
}

TEST_CASE("commands without a proposer have no sequence") {
  Server server;
  server.OpenSession();
  server.OpenSession(kOtherSession);
  server.self = Proposer{1, 7};
  for (SessionId session : {kSession, kOtherSession, kSession}) {
    CommandHeader header;
    header.kind = CommandKind::kExpireSession;
    header.session = session;
    header.attach_zxid = server.AttachZxid(session);
    std::string command;
    AppendCloseSession(header, &command);
    CHECK_FALSE(server.ApplyBytes(command).has_value());
  }
  CHECK(server.tree().session_count() == 0);
}

TEST_CASE("only the proposing server gets the result") {
  Server server;
  server.OpenSession();
  server.self = Proposer{2, 7};
  std::string command;
  AppendRequest(server.Next(kSession, server.AttachZxid()), Request{false, {MakeCreate("/a")}, {}},
                &command);
  CHECK_FALSE(server.ApplyBytes(command).has_value());
  CHECK(server.events() == Strings{"created /a"});
  server.self = Proposer{1, 8};
  command.clear();
  AppendRequest(server.Next(kSession, server.AttachZxid()), Request{false, {MakeCreate("/b")}, {}},
                &command);
  CHECK_FALSE(server.ApplyBytes(command).has_value());
  CHECK(server.Has("/b"));

  server.self = server.proposer;
  CommandHeader header = server.Next(kSession, server.AttachZxid());
  header.proposer_tag = 77;
  command.clear();
  AppendRequest(header, Request{false, {MakeCreate("/c")}, {}}, &command);
  const ApplyResult result = server.ApplyOwn(command);
  CHECK(result.header.proposer_tag == 77);
  CHECK(result.header.sequence == header.sequence);
  CHECK(result.header.session == kSession);
}

TEST_CASE("an entry without a command changes only the last zxid") {
  Server server;
  server.OpenSession();
  const uint64_t digest = server.tree().digest();
  const Zxid zxid = server.tree().last_zxid();
  server.Skip();
  CHECK(server.tree().last_zxid() == zxid + 1);
  CHECK(server.tree().digest() == digest);
}

}  // namespace
}  // namespace quorate::tree
