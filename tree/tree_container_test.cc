// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tree/limits.h"
#include "tree/node_kind.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

ErrorCode Error(Server* server, const Op& op) { return server->Do(op).error; }

Strings Expired(const Server& server, int64_t time_ms) {
  return server.tree().FindExpired(time_ms, 100);
}

TEST_CASE("the owner field determines the kind of node") {
  CHECK(KindOf(kNoSession) == NodeKind::kPersistent);
  CHECK(KindOf(SessionId(1)) == NodeKind::kEphemeral);
  CHECK(KindOf(SessionId(static_cast<int64_t>(0xFE00000000000001))) == NodeKind::kEphemeral);
  CHECK(KindOf(SessionId(static_cast<int64_t>(0x8000000000000001))) == NodeKind::kEphemeral);
  CHECK(KindOf(kContainerOwner) == NodeKind::kContainer);
  CHECK(KindOf(TtlOwner(1)) == NodeKind::kTtl);
  CHECK(TtlOwner(1).value() == static_cast<int64_t>(0xFF00000000000001));
  CHECK(TtlOf(TtlOwner(kTtlMaxMs)) == kTtlMaxMs);
  CHECK_FALSE(IsValidTtl(0));
  CHECK_FALSE(IsValidTtl(kTtlMaxMs + 1));
  CHECK_FALSE(IsValidTtl(TtlOf(SessionId(static_cast<int64_t>(0xFF00010000000001)))));
}

TEST_CASE("create: each operation accepts only its modes and TTLs") {
  Server server;
  server.OpenSession();
  const auto mode = [](int32_t flags) { return static_cast<CreateMode>(flags); };
  for (int32_t flags : {5, 6, 7, -1}) {
    CAPTURE(flags);
    CHECK(Error(&server, MakeCreate("/x", "", mode(flags))) == ErrorCode::kBadArguments);
    CHECK(Error(&server, MakeCreateContainer("/x", mode(flags))) == ErrorCode::kBadArguments);
  }
  for (int32_t flags : {0, 1, 2, 3, 4, 7}) {
    CAPTURE(flags);
    CHECK(Error(&server, MakeCreateTtl("/x", 1000, mode(flags))) == ErrorCode::kBadArguments);
  }
  for (int64_t ttl_ms : {int64_t{0}, int64_t{-1}, kTtlMaxMs + 1}) {
    CHECK(Error(&server, MakeCreateTtl("/x", ttl_ms)) == ErrorCode::kBadArguments);
    // The TTL is checked before the parent's existence.
    CHECK(Error(&server, MakeCreateTtl("/none/x", ttl_ms)) == ErrorCode::kBadArguments);
  }
  CHECK(server.tree().node_count() == 4);
  CHECK(Error(&server, MakeCreateTtl("/none/x", 1)) == ErrorCode::kNoNode);

  CHECK(server.Do(MakeCreateTtl("/t", kTtlMaxMs)).path == "/t");
  const OpResult numbered =
      server.Do(MakeCreateTtl("/t-", 1, CreateMode::kPersistentSequentialWithTtl));
  CHECK(numbered.path == "/t-0000000001");
  CHECK(numbered.stat.ephemeral_owner == kNoSession);
  for (int32_t flags : {0, 1, 4}) {
    const std::string path = "/c" + std::to_string(flags);
    CHECK(server.Do(MakeCreateContainer(path, mode(flags))).stat.ephemeral_owner == kNoSession);
  }
  CHECK(server.Do(MakeCreateContainer("/c", mode(2))).path == "/c0000000005");
  CHECK(server.Do(MakeCreate("/plain", "", mode(4))).error == ErrorCode::kOk);
  CHECK(server.tree().ephemeral_count() == 0);
  CHECK(server.tree().Ephemerals(kSession).empty());
}

TEST_CASE("a leader's clock that is briefly a year ahead expires no TTL, and time returns") {
  Server server;
  server.bounds_time = true;
  server.OpenSession();
  server.Do(MakeCreateTtl("/t", 1000));
  server.Do(MakeCreateContainer("/c"));
  server.Do(MakeCreate("/c/child"));
  server.Do(MakeDelete("/c/child"));
  constexpr int64_t kYearMs = int64_t{365} * 24 * 3'600'000;
  const int64_t right_ms = server.time_ms;

  server.time_ms = right_ms + kYearMs;
  CHECK(Expired(server, server.time_ms) == Strings{"/c", "/t"});
  server.DeleteContainer("/t");  // causes the leap
  CHECK(server.events() == Strings{"leap " + std::to_string(kYearMs)});
  CHECK(server.Has("/t"));
  server.DeleteContainer("/c");
  CHECK_FALSE(server.Has("/c"));  // a container is removed regardless of the time
  server.Do(MakeCreate("/future"));
  CHECK(server.StatOf("/future").ctime_ms == right_ms + kYearMs);

  // The tree's time returns to the right clock at once. TTLs apply again after kLeapHoldMs.
  server.time_ms = right_ms + 500;
  server.Do(MakeCreate("/a"));
  CHECK(server.events()[0] == "leap " + std::to_string(500 - kYearMs));
  CHECK(server.StatOf("/a").ctime_ms == right_ms + 500);
  server.time_ms = right_ms + 2000;
  CHECK(Expired(server, server.time_ms) == Strings{"/t"});
  server.DeleteContainer("/t");
  CHECK(server.Has("/t"));
  server.time_ms = right_ms + 500 + kLeapHoldMs - 1;
  server.DeleteContainer("/t");
  CHECK(server.Has("/t"));
  ++server.time_ms;
  server.DeleteContainer("/t");
  CHECK_FALSE(server.Has("/t"));
}

TEST_CASE("clocks that differ by less than a leap advance the time and never move it back") {
  Server server;
  server.bounds_time = true;
  server.OpenSession();
  const int64_t first_ms = server.time_ms;
  for (const int64_t ms : {first_ms + kLeapMsMin, first_ms, first_ms + kLeapMsMin + 1}) {
    server.time_ms = ms;
    server.Do(MakeSetData("/", ""));
    CHECK(server.tree().time_ms() == std::max(first_ms + kLeapMsMin, ms));
    CHECK(server.events() == Strings{"changed /"});
  }
  server.time_ms += kLeapMsMin + 1;
  server.Do(MakeSetData("/", ""));
  CHECK(server.events().size() == 2);
}

TEST_CASE("if commands do not bound the time, it stays at the newest clock") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreateTtl("/t", 1000));
  const int64_t right_ms = server.time_ms;
  server.time_ms += 1'000'000'000;
  server.DeleteContainer("/t");
  CHECK(server.events() == Strings{"deleted /t"});
  server.time_ms = right_ms;
  server.Do(MakeCreate("/a"));
  CHECK(server.StatOf("/a").ctime_ms == right_ms + 1'000'000'000);
}

TEST_CASE("a container is removed once it had children and has none left") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreateContainer("/c"));
  server.Do(MakeCreateContainer("/plain-after-all", CreateMode::kPersistent));
  server.Do(MakeCreate("/p", "", CreateMode::kContainer));
  server.Do(MakeCreate("/p/x"));
  server.Do(MakeDelete("/p/x"));
  CHECK(Expired(server, server.time_ms).empty());
  server.DeleteContainer("/c");
  CHECK(server.events().empty());

  server.Do(MakeCreate("/c/x"));
  server.DeleteContainer("/c");
  CHECK(server.events().empty());
  server.Do(MakeDelete("/c/x"));
  CHECK(Expired(server, server.time_ms) == Strings{"/c"});
  // A child that is created before the deleteContainer keeps the container.
  server.Do(MakeCreate("/c/y", "", CreateMode::kEphemeral));
  CHECK(Expired(server, server.time_ms).empty());
  server.DeleteContainer("/c");
  CHECK(server.Has("/c/y"));
  server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
  CHECK(Expired(server, server.time_ms) == Strings{"/c"});

  server.DeleteContainer("/c");
  CHECK(server.events() == Strings{"deleted /c"});
  CHECK(server.StatOf("/").pzxid == server.tree().last_zxid());
  CHECK(Expired(server, server.time_ms).empty());
  // A second deleteContainer does nothing, and neither does one for a node that is no container.
  for (std::string_view path : {"/c", "/p", "/", "", "/zookeeper", "c", "//", "/p/"}) {
    CAPTURE(path);
    server.DeleteContainer(path);
    CHECK(server.events().empty());
  }
  CHECK(server.Has("/p"));
}

TEST_CASE("a node with a TTL is removed when the TTL has passed and it has no children") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreateTtl("/late", 500));
  server.Do(MakeCreateTtl("/t", 100));
  const int64_t created_ms = server.time_ms;
  CHECK(Expired(server, created_ms + 100).empty());
  CHECK(Expired(server, created_ms + 101) == Strings{"/t"});
  CHECK(Expired(server, created_ms + 501) == Strings{"/t", "/late"});
  CHECK(server.tree().FindExpired(created_ms + 501, 1) == Strings{"/t"});
  // The command's time decides, not the time for which FindExpired was called.
  server.time_ms = created_ms + 100;
  server.DeleteContainer("/t");
  CHECK(server.Has("/t"));

  server.Do(MakeCreate("/t/x"));
  CHECK(Expired(server, created_ms + 1000) == Strings{"/late"});
  server.time_ms = created_ms + 150;
  server.DeleteContainer("/t");
  CHECK(server.Has("/t"));
  server.Do(MakeDelete("/t/x"));
  CHECK(Expired(server, created_ms + 150) == Strings{"/t"});
  // setData restarts the TTL; setAcl does not.
  server.Do(MakeSetData("/t", "new"));
  CHECK(Expired(server, created_ms + 250).empty());
  server.time_ms = created_ms + 200;
  server.Do(MakeSetAcl("/t", OpenAcl()));
  CHECK(Expired(server, created_ms + 251) == Strings{"/t"});
  server.time_ms = created_ms + 251;
  server.DeleteContainer("/t");
  CHECK(server.events() == Strings{"deleted /t"});
  // A client's own delete removes the node from the index.
  server.Do(MakeDelete("/late"));
  CHECK(Expired(server, created_ms + 10'000).empty());
}

TEST_CASE("the changes of a failed multi to containers and TTLs are undone") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreateContainer("/c"));
  server.Do(MakeCreateTtl("/t", 100));
  const auto expired = [&] { return Expired(server, server.time_ms + 101); };
  CHECK(expired() == Strings{"/t"});
  const Op fails = MakeCheck("/none");
  server.DoMulti({MakeCreate("/c/x"), MakeDelete("/c/x"), fails});
  CHECK(expired() == Strings{"/t"});
  server.DoMulti({MakeDelete("/t"), MakeDelete("/c"), fails});
  CHECK(expired() == Strings{"/t"});
  server.DoMulti({MakeCreate("/t/x"), fails});
  CHECK(expired() == Strings{"/t"});
  server.DoMulti({MakeCreateTtl("/u", 50), MakeCreateContainer("/d"), MakeCreate("/d/x"), fails});
  CHECK(expired() == Strings{"/t"});
  server.DoMulti({MakeCreate("/c/x"), MakeDelete("/c/x")});
  CHECK(expired() == Strings{"/c", "/t"});
  server.DoMulti({MakeCreate("/c/x"), MakeSetData("/t", ""), fails});
  CHECK(expired() == Strings{"/c", "/t"});
  server.time_ms += 60;
  server.DoMulti({MakeSetData("/t", ""), fails});
  CHECK(Expired(server, server.time_ms + 41) == Strings{"/c", "/t"});
  server.DoMulti(
      {MakeCreateTtl("/v", 1), MakeCreate("/v/x"), MakeDelete("/v/x"), MakeDelete("/v")});
  CHECK(Expired(server, server.time_ms + 2) == Strings{"/c"});
}

TEST_CASE("the digest depends on the kind of each node") {
  std::vector<uint64_t> digests;
  for (int kind = 0; kind < 4; ++kind) {
    Server server;
    server.OpenSession();
    server.Do(kind == 0   ? MakeCreate("/a")
              : kind == 1 ? MakeCreateContainer("/a")
                          : MakeCreateTtl("/a", kind));
    for (uint64_t other : digests) CHECK(server.tree().digest() != other);
    digests.push_back(server.tree().digest());
  }
}

}  // namespace
}  // namespace quorate::tree
