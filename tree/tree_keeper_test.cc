// SPDX-License-Identifier: Apache-2.0

// The operations that ClickHouse Keeper adds to ZooKeeper's.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/limits.h"
#include "tree/testing/tree_test_util.h"
#include "tree/tree.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

Op Make(OpKind kind, std::string_view path, int32_t version = kAnyVersion) {
  Op op;
  op.kind = kind;
  op.path = path;
  op.version = version;
  return op;
}

Op MakeCreateIfNotExists(std::string_view path, std::string_view data,
                         CreateMode mode = CreateMode::kPersistent) {
  Op op = MakeCreate(path, data, mode);
  op.kind = OpKind::kCreateIfNotExists;
  return op;
}

Op MakeRemoveSubtree(std::string_view path, uint32_t limit = 1000) {
  Op op = Make(OpKind::kRemoveSubtree, path);
  op.limit = limit;
  return op;
}

Op MakeCheckStat(std::string_view path, const Stat& expected, int32_t version = kAnyVersion) {
  Op op = Make(OpKind::kCheckStat, path, version);
  op.expected = expected;
  return op;
}

Stat AnyStat() { return {Zxid(-1), Zxid(-1), -1, -1, -1, -1, -1, SessionId(-1), -1, -1, Zxid(-1)}; }

// Creates a node that grants everybody only `permissions`.
void CreateWith(Server* server, std::string_view path, int32_t permissions) {
  const std::vector<Acl> acl = {MakeAcl(permissions, "world", "anyone")};
  REQUIRE(server->Do(MakeCreate(path, "", CreateMode::kPersistent, acl)).error == ErrorCode::kOk);
}

TEST_CASE("a check that a node does not exist fails for the node's version and for any version") {
  Server server;
  server.OpenSession();
  const auto check = [&](std::string_view path, int32_t version) {
    return server.Do(Make(OpKind::kCheckNotExists, path, version)).error;
  };
  CHECK(check("/a", kAnyVersion) == ErrorCode::kOk);
  CHECK(check("/a/b", 0) == ErrorCode::kOk);
  server.Do(MakeCreate("/a"));
  server.Do(MakeSetData("/a", "x"));
  CHECK(check("/a", kAnyVersion) == ErrorCode::kNodeExists);
  CHECK(check("/a", 1) == ErrorCode::kNodeExists);
  CHECK(check("/a", 0) == ErrorCode::kOk);
  CHECK(check("a", 0) == ErrorCode::kBadArguments);
  CreateWith(&server, "/secret", permission::kAll & ~permission::kRead);
  CHECK(check("/secret", 7) == ErrorCode::kNoAuth);
}

TEST_CASE("a create of a node that may exist leaves an existing node as it is") {
  Server server;
  server.OpenSession();
  const OpResult created = server.Do(MakeCreateIfNotExists("/a", "1"));
  CHECK(created.error == ErrorCode::kOk);
  CHECK(created.path == "/a");
  CHECK(server.events() == Strings{"created /a"});
  const Stat stat = server.StatOf("/a");
  const OpResult again = server.Do(MakeCreateIfNotExists("/a", "2"));
  CHECK(again.error == ErrorCode::kOk);
  CHECK(again.path == "/a");
  CHECK(server.events().empty());
  CHECK(server.StatOf("/a") == stat);
  CHECK(server.DataOf("/a") == "1");

  CHECK(server.Do(MakeCreateIfNotExists("/x/y", "")).error == ErrorCode::kNoNode);
  CHECK(server.Do(MakeCreateIfNotExists("/e", "", CreateMode::kEphemeral)).error == ErrorCode::kOk);
  CHECK(server.StatOf("/e").ephemeral_owner == kSession);
  CHECK(server.Do(MakeCreateIfNotExists("/e/f", "")).error == ErrorCode::kNoChildrenForEphemerals);
  CHECK(server.Do(MakeCreateIfNotExists("/t", "", CreateMode::kPersistentWithTtl)).error ==
        ErrorCode::kBadArguments);
  CreateWith(&server, "/closed", permission::kAll & ~permission::kCreate);
  CHECK(server.Do(MakeCreateIfNotExists("/closed/a", "")).error == ErrorCode::kNoAuth);
}

TEST_CASE("the removal of a subtree is one change with an event for each node") {
  Server server;
  server.OpenSession();
  for (const char* path : {"/top", "/top/b", "/top/a", "/top/a/z"}) server.Do(MakeCreate(path));
  server.Do(MakeCreate("/top/e", "", CreateMode::kEphemeral));
  const Stat before = server.StatOf("/");
  CHECK(server.Do(MakeRemoveSubtree("/top")).removed == 5);
  CHECK(server.events() == Strings{"deleted /top/a/z", "deleted /top/a", "deleted /top/b",
                                   "deleted /top/e", "deleted /top"});
  CHECK_FALSE(server.Has("/top"));
  CHECK(server.tree().Ephemerals(kSession).empty());
  CHECK(server.StatOf("/").cversion == before.cversion + 1);
  CHECK(server.StatOf("/").pzxid == server.tree().last_zxid());

  const OpResult again = server.Do(MakeRemoveSubtree("/top"));
  CHECK(again.error == ErrorCode::kOk);
  CHECK(again.removed == 0);
  CHECK(server.Do(MakeRemoveSubtree("/top/a/z")).error == ErrorCode::kOk);
  CHECK(server.events().empty());
  for (const char* path :
       {"/", "/keeper", "/zookeeper", "/zookeeper/quota", "", "a", "//a", "/a/"}) {
    CAPTURE(path);
    CHECK(server.Do(MakeRemoveSubtree(path)).error == ErrorCode::kBadArguments);
  }
}

TEST_CASE("a subtree with more nodes than the limit is not empty") {
  Server server;
  server.OpenSession();
  for (const char* path : {"/top", "/top/a", "/top/b", "/top/b/c"}) server.Do(MakeCreate(path));
  CHECK(server.Do(MakeRemoveSubtree("/top", 0)).error == ErrorCode::kNotEmpty);
  CHECK(server.Do(MakeRemoveSubtree("/top", 3)).error == ErrorCode::kNotEmpty);
  CHECK(server.Has("/top/b/c"));
  CHECK(server.Do(MakeRemoveSubtree("/top", 4)).error == ErrorCode::kOk);
  CHECK_FALSE(server.Has("/top"));

  server.computes_digest = false;
  server.Do(MakeCreate("/big"));
  for (size_t i = 0; i < kDeleteRecursiveMax; ++i) {
    server.Do(MakeCreate("/big/" + std::to_string(i)));
  }
  CHECK(server.Do(MakeRemoveSubtree("/big", UINT32_MAX)).error == ErrorCode::kNotEmpty);
  server.Do(MakeDelete("/big/0"));
  CHECK(server.Do(MakeRemoveSubtree("/big", UINT32_MAX)).error == ErrorCode::kOk);
}

TEST_CASE("the removal of a subtree needs the permission to delete of the parent and each node") {
  Server server;
  server.OpenSession();
  constexpr int32_t kNoDelete = permission::kAll & ~permission::kDelete;
  server.Do(MakeCreate("/open"));
  server.Do(MakeCreate("/open/top"));
  CreateWith(&server, "/open/top/leaf", kNoDelete);
  CHECK(server.Do(MakeRemoveSubtree("/open/top")).error == ErrorCode::kNoAuth);
  CreateWith(&server, "/closed", kNoDelete);
  server.Do(MakeCreate("/closed/a"));
  CHECK(server.Do(MakeRemoveSubtree("/closed/a")).error == ErrorCode::kNoAuth);
  CHECK(server.Do(MakeRemoveSubtree("/closed/missing")).error == ErrorCode::kNoAuth);
  CHECK(server.Has("/open/top/leaf"));
  CHECK(server.Has("/closed/a"));
}

TEST_CASE("a check of the stat compares the version and each field that is not -1") {
  Server server;
  server.OpenSession();
  const auto check = [&](std::string_view path, const Stat& stat, int32_t version = kAnyVersion) {
    return server.Do(MakeCheckStat(path, stat, version)).error;
  };
  CHECK(check("/a", AnyStat()) == ErrorCode::kNoNode);
  CHECK(check("a", AnyStat()) == ErrorCode::kBadArguments);
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/a/b"));
  server.Do(MakeSetData("/a", "xyz"));
  server.Do(MakeSetAcl("/a", OpenAcl()));
  const Stat stat = server.StatOf("/a");
  CHECK(check("/a", AnyStat()) == ErrorCode::kOk);
  CHECK(check("/a", stat, 1) == ErrorCode::kOk);
  CHECK(check("/a", stat, 0) == ErrorCode::kBadVersion);
  const std::function<void(Stat*)> changes[] = {
      [](Stat* s) { s->czxid = s->czxid + 1; },
      [](Stat* s) { s->mzxid = s->mzxid + 1; },
      [](Stat* s) { ++s->ctime_ms; },
      [](Stat* s) { ++s->mtime_ms; },
      [](Stat* s) { ++s->version; },
      [](Stat* s) { ++s->cversion; },
      [](Stat* s) { ++s->aversion; },
      [](Stat* s) { s->ephemeral_owner = kSession; },
      [](Stat* s) { ++s->data_length; },
      [](Stat* s) { ++s->num_children; },
      [](Stat* s) { s->pzxid = s->pzxid + 1; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    Stat other = stat;
    changes[i](&other);
    CHECK(check("/a", other) == ErrorCode::kBadVersion);
  }
  CreateWith(&server, "/secret", permission::kAll & ~permission::kRead);
  CHECK(check("/secret", AnyStat()) == ErrorCode::kNoAuth);
}

TEST_CASE("an attempt to delete succeeds whether it deletes or not, but for the permission") {
  Server server;
  server.OpenSession();
  size_t removed = 0;
  const auto attempt = [&](std::string_view path, int32_t version = kAnyVersion) {
    const OpResult result = server.Do(Make(OpKind::kTryDelete, path, version));
    removed = result.removed;
    return result.error;
  };
  CHECK(attempt("/a") == ErrorCode::kOk);
  CHECK(attempt("/a/b") == ErrorCode::kOk);
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/a/b"));
  CHECK(attempt("/a") == ErrorCode::kOk);
  CHECK(attempt("/a/b", 3) == ErrorCode::kOk);
  CHECK(removed == 0);
  CHECK(server.events().empty());
  CHECK(server.Has("/a/b"));
  CHECK(attempt("/a/b", 0) == ErrorCode::kOk);
  CHECK(removed == 1);
  CHECK(server.events() == Strings{"deleted /a/b"});
  CHECK_FALSE(server.Has("/a/b"));
  for (const char* path : {"/", "/zookeeper", "", "//a"}) {
    CAPTURE(path);
    CHECK(attempt(path) == ErrorCode::kBadArguments);
  }
  CreateWith(&server, "/closed", permission::kAll & ~permission::kDelete);
  server.Do(MakeCreate("/closed/a"));
  CHECK(attempt("/closed/a") == ErrorCode::kNoAuth);
}

TEST_CASE("a multi that fails undoes these operations, quotas included") {
  Server server;
  server.OpenSession();
  for (const char* path : {"/q", "/q/a", "/q/a/b", "/q/c", "/zookeeper/quota/q"}) {
    server.Do(MakeCreate(path));
  }
  server.Do(MakeCreate("/zookeeper/quota/q/zookeeper_limits", "count=100,bytes=-1"));
  server.Do(MakeCreate("/zookeeper/quota/q/zookeeper_stats", ""));
  const Stat parent = server.StatOf("/q");
  constexpr std::string_view kStatsPath = "/zookeeper/quota/q/zookeeper_stats";
  const std::optional<std::string> stats = server.DataOf(kStatsPath);
  const std::vector<Op> ops = {MakeRemoveSubtree("/q/a"), MakeCreateIfNotExists("/q/a", "new"),
                               Make(OpKind::kTryDelete, "/q/c")};
  std::vector<Op> failing = ops;
  failing.push_back(Make(OpKind::kCheckNotExists, "/q/a"));
  const std::vector<OpResult> failed = server.DoMulti(failing);
  CHECK(failed.back().error == ErrorCode::kNodeExists);
  CHECK(server.events().empty());
  CHECK(server.Has("/q/a/b"));
  CHECK(server.Has("/q/c"));
  CHECK(server.StatOf("/q") == parent);
  CHECK(server.DataOf(kStatsPath) == stats);

  for (const OpResult& result : server.DoMulti(ops)) CHECK(result.error == ErrorCode::kOk);
  CHECK(server.events() ==
        Strings{"deleted /q/a/b", "deleted /q/a", "created /q/a", "deleted /q/c"});
  CHECK(server.DataOf(kStatsPath) != stats);
  CHECK_FALSE(server.Has("/q/a/b"));
}

}  // namespace
}  // namespace quorate::tree
