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

Op MakeDeleteRecursive(std::string_view path, int32_t version = kAnyVersion) {
  Op op = MakeDelete(path, version);
  op.kind = OpKind::kDeleteRecursive;
  return op;
}

Op MakeCheckAbsent(std::string_view path) {
  Op op;
  op.kind = OpKind::kCheckAbsent;
  op.path = path;
  return op;
}

Op MakeCheckCreated(std::string_view path, Zxid created_zxid) {
  Op op;
  op.kind = OpKind::kCheckCreated;
  op.path = path;
  op.created_zxid = created_zxid;
  return op;
}

void CreateAll(Server* server, const Strings& paths) {
  std::vector<Op> ops;
  ops.reserve(paths.size());
  for (const std::string& path : paths) ops.push_back(MakeCreate(path));
  for (const OpResult& result : server->DoMulti(ops)) REQUIRE(result.error == ErrorCode::kOk);
}

TEST_CASE("a check for absence fails if the node exists") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/secret", "", CreateMode::kPersistent, {MakeAcl(31, "digest", "u:p")}));
  CHECK(server.Do(MakeCheckAbsent("/a")).error == ErrorCode::kOk);
  CHECK(server.Do(MakeCheckAbsent("/a/b")).error == ErrorCode::kOk);
  // The existence of a node is not protected.
  CHECK(server.Do(MakeCheckAbsent("/secret")).error == ErrorCode::kNodeExists);
  CHECK(server.Do(MakeCheckAbsent("/")).error == ErrorCode::kNodeExists);
  for (const char* path : {"", "a", "//", "/a/", "/a/.."}) {
    CAPTURE(path);
    CHECK(server.Do(MakeCheckAbsent(path)).error == ErrorCode::kBadArguments);
  }
  const auto results = server.DoMulti(
      {MakeCheckAbsent("/a"), MakeCreate("/a"), MakeCheckAbsent("/b"), MakeCheckAbsent("/a")});
  CHECK(results[2].error == ErrorCode::kOk);
  CHECK(results[3].error == ErrorCode::kNodeExists);
  CHECK_FALSE(server.Has("/a"));
}

TEST_CASE("a check of the creation distinguishes a node from a later one at its path") {
  Server server;
  server.OpenSession();
  CHECK(server.Do(MakeCheckCreated("/a", Zxid(1))).error == ErrorCode::kNoNode);
  CHECK(server.Do(MakeCheckCreated("a", Zxid(1))).error == ErrorCode::kBadArguments);
  const Zxid first = server.Do(MakeCreate("/a", "1")).stat.czxid;
  server.Do(MakeSetData("/a", "2"));
  CHECK(server.Do(MakeCheckCreated("/a", first)).error == ErrorCode::kOk);
  server.Do(MakeDelete("/a"));
  // The node was recreated: everything except the creation is as before.
  const Zxid second = server.Do(MakeCreate("/a", "1")).stat.czxid;
  server.Do(MakeSetData("/a", "2"));
  const auto results =
      server.DoMulti({MakeSetData("/a", "mine"), MakeCheckCreated("/a", first), MakeDelete("/a")});
  CHECK(results[1].error == ErrorCode::kBadVersion);
  CHECK(server.DoMulti({MakeCheckCreated("/a", second), MakeSetData("/a", "3")})[1].stat.version ==
        2);
  // The zxid of a node's creation is not protected: anybody may read it in the stat.
  const Zxid secret =
      server.Do(MakeCreate("/secret", "", CreateMode::kPersistent, {MakeAcl(31, "digest", "u:p")}))
          .stat.czxid;
  CHECK(server.Do(MakeCheckCreated("/secret", secret)).error == ErrorCode::kOk);
  CHECK(server.Do(MakeCheckCreated("/", Zxid(0))).error == ErrorCode::kOk);
}

TEST_CASE("a check of any version succeeds if the node exists") {
  Server server;
  server.OpenSession();
  CHECK(server.Do(MakeCheck("/a")).error == ErrorCode::kNoNode);
  server.Do(MakeCreate("/a"));
  server.Do(MakeSetData("/a", "x"));
  CHECK(server.Do(MakeCheck("/a")).error == ErrorCode::kOk);
  CHECK(server.Do(MakeCheck("/a", 0)).error == ErrorCode::kBadVersion);
}

TEST_CASE("a recursive delete removes children first, in the order of their names") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/top", "/top/b", "/top/a", "/top/a-", "/top/a/z", "/top/a/y", "/top/a/y/1",
                      "/top/\xc3\xa4", "/topmost"});
  const size_t bytes = server.tree().data_bytes();
  const OpResult result = server.Do(MakeDeleteRecursive("/top"));
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.removed == 8);
  CHECK(server.events() == Strings{"deleted /top/a/y/1", "deleted /top/a/y", "deleted /top/a/z",
                                   "deleted /top/a", "deleted /top/a-", "deleted /top/b",
                                   "deleted /top/\xc3\xa4", "deleted /top"});
  CHECK_FALSE(server.Has("/top"));
  CHECK(server.Has("/topmost"));
  CHECK(server.tree().node_count() == 5);
  CHECK(server.tree().data_bytes() == bytes - 12);
  CHECK(server.StatOf("/").pzxid == server.tree().last_zxid());
  CHECK(server.Do(MakeDeleteRecursive("/topmost")).removed == 1);
  CHECK(server.Do(MakeDeleteRecursive("/topmost")).error == ErrorCode::kNoNode);
}

// The order in a child set's hash table depends on its history, but trees with different histories
// must agree.
TEST_CASE("the order of a recursive delete does not depend on the history of the tree") {
  Server one, other;
  Strings paths;
  for (int i = 0; i < 300; ++i) paths.push_back("/p/" + std::to_string(i));
  for (Server* server : {&one, &other}) {
    server->OpenSession();
    server->Do(MakeCreate("/p"));
  }
  CreateAll(&one, paths);
  CreateAll(&other, Strings(paths.rbegin(), paths.rend()));
  one.Do(MakeDeleteRecursive("/p"));
  other.Do(MakeDeleteRecursive("/p"));
  CHECK(one.events().size() == 301);
  CHECK(one.events() == other.events());
}

TEST_CASE("a recursive delete checks the version of the top node") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/a", "/a/b"});
  server.Do(MakeSetData("/a/b", "x"));
  CHECK(server.Do(MakeDeleteRecursive("/a", 1)).error == ErrorCode::kBadVersion);
  CHECK(server.Do(MakeDeleteRecursive("/a", 0)).removed == 2);
}

TEST_CASE("system nodes cannot be deleted") {
  Server server;
  server.OpenSession();
  for (const char* path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
    CAPTURE(path);
    CHECK(server.Do(MakeDeleteRecursive(path)).error == ErrorCode::kBadArguments);
  }
  CHECK(server.Do(MakeDeleteRecursive("//zookeeper")).error == ErrorCode::kNoNode);
  CHECK(server.tree().node_count() == 4);
}

TEST_CASE("a recursive delete needs permission on each parent, and is all or nothing") {
  Server server;
  server.OpenSession();
  const std::vector<Acl> no_delete = {MakeAcl(31 & ~permission::kDelete, "world", "anyone"),
                                      MakeAcl(permission::kDelete, "digest", "u:p")};
  CreateAll(&server, {"/a", "/a/b", "/a/b/c", "/a/d"});
  server.Do(MakeCreate("/a/leaf", "", CreateMode::kPersistent, no_delete));
  const char* guarded = GENERATE("/", "/a", "/a/b");
  CAPTURE(guarded);
  server.Do(MakeSetAcl(guarded, no_delete));
  const uint64_t nodes = server.tree().node_count();
  CHECK(server.Do(MakeDeleteRecursive("/a")).error == ErrorCode::kNoAuth);
  CHECK(server.events().empty());
  CHECK(server.tree().node_count() == nodes);
  server.identities = {Identity{"digest", "u:p"}};
  // The permission on a node is not needed to delete it if it has no children.
  CHECK(server.Do(MakeDeleteRecursive("/a")).removed == 5);
}

TEST_CASE("a recursive delete removes containers and the ephemerals of any session") {
  Server server;
  server.OpenSession();
  server.OpenSession(kOtherSession);
  server.Do(MakeCreateContainer("/a"));
  server.Do(MakeCreateTtl("/a/ttl", 10));
  server.Do(MakeCreate("/a/e", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/a/f", "", CreateMode::kEphemeral), kOtherSession);
  const bool undone = GENERATE(false, true);
  if (undone) {
    const auto results = server.DoMulti({MakeDeleteRecursive("/a"), MakeCheck("/none")});
    CHECK(results[0].error == ErrorCode::kOk);
    CHECK(results[0].removed == 0);
    CHECK(server.tree().Ephemerals(kSession) == Strings{"/a/e", "/e"});
    CHECK(server.tree().Ephemerals(kOtherSession) == Strings{"/a/f"});
    server.time_ms += 1000;
    CHECK(server.tree().FindExpired(server.time_ms, 10) == Strings{"/a/ttl"});
    server.DeleteContainer("/a/ttl");
    return;
  }
  CHECK(server.Do(MakeDeleteRecursive("/a")).removed == 4);
  CHECK(server.tree().Ephemerals(kSession) == Strings{"/e"});
  CHECK(server.tree().Ephemerals(kOtherSession).empty());
  CHECK(server.tree().ephemeral_count() == 1);
  CHECK(server.tree().FindExpired(server.time_ms + 1000, 10).empty());
}

TEST_CASE("a recursive delete in a multi sees earlier operations and can be undone") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/a", "/a/b"});
  const auto results =
      server.DoMulti({MakeCreate("/a/c"), MakeSetData("/a/b", "x"), MakeDeleteRecursive("/a"),
                      MakeCreate("/a"), MakeCreate("/a/new"), MakeDeleteRecursive("/a/new")});
  CHECK(results[2].removed == 3);
  CHECK(results[5].removed == 1);
  CHECK(server.events() == Strings{"created /a/c", "changed /a/b", "deleted /a/b", "deleted /a/c",
                                   "deleted /a", "created /a", "created /a/new", "deleted /a/new"});
  CHECK(server.Has("/a"));
  CHECK_FALSE(server.Has("/a/b"));
  // As a numbered write too: its repetition returns the same.
  const Request request{false, {MakeDeleteRecursive("/a")}, {}};
  const ApplyResult first = server.DoSequenced(1, 0, request);
  CHECK(first.ops[0].removed == 1);
  CHECK(server.DoSequenced(1, 0, request).ops[0].removed == 1);
}

TEST_CASE("a recursive delete updates the quotas above it and deletes those below") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/q"));
  CreateAll(&server, {"/zookeeper/quota/q"});
  server.Do(MakeCreate("/zookeeper/quota/q/zookeeper_limits", "count=5,bytes=-1"));
  server.Do(MakeCreate("/zookeeper/quota/q/zookeeper_stats", "count=0,bytes=0"));
  server.Do(MakeCreate("/q/a", "123"));
  server.Do(MakeCreate("/q/a/b", "45"));
  const char* stats = "/zookeeper/quota/q/zookeeper_stats";
  REQUIRE(server.DataOf(stats) == "count=3,bytes=5");
  CHECK(server.Do(MakeDeleteRecursive("/q/a")).removed == 2);
  CHECK(server.DataOf(stats) == "count=1,bytes=0");
  CHECK(server.Do(MakeDeleteRecursive("/zookeeper/quota/q")).removed == 3);
  // The quota was deleted too, and cannot be exceeded any more.
  for (int i = 0; i < 9; ++i) server.Do(MakeCreate("/q/" + std::to_string(i)));
  CHECK(server.listener().excesses.empty());
}

TEST_CASE("the recursive deletes of a request together are limited in nodes") {
  Server server;
  server.OpenSession();
  CreateAll(&server, {"/p", "/p/1", "/p/2"});
  const size_t half = kDeleteRecursiveMax / 2;
  for (const char* parent : {"/p/1/", "/p/2/"}) {
    Strings paths;
    for (size_t i = 1; i < half; ++i) paths.push_back(parent + std::to_string(i));
    CreateAll(&server, paths);
  }
  // This is one node more than allowed: the parent of both subtrees.
  CHECK(server.Do(MakeDeleteRecursive("/p")).error == ErrorCode::kTooLarge);
  CHECK(server.events().empty());
  const Op first = MakeDeleteRecursive("/p/1");
  const Op second = MakeDeleteRecursive("/p/2");
  const Op third = MakeDeleteRecursive("/p");
  CHECK(server.DoMulti({first, second, third})[2].error == ErrorCode::kTooLarge);
  const auto both = server.DoMulti({first, second});
  CHECK(both[0].removed == half);
  CHECK(both[1].removed == half);
  CHECK(server.Do(third).removed == 1);
}

TEST_CASE("a recursive delete is limited in the bytes of paths") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/p"));
  // Each path is one step longer than the previous one.
  const std::string step = "/" + std::string(1999, 'n');
  std::string path = "/p";
  size_t path_bytes = path.size();
  size_t nodes = 1;
  Strings paths;
  while (path_bytes + path.size() + step.size() <= kDeleteRecursivePathBytesMax) {
    path += step;
    paths.push_back(path);
    path_bytes += path.size();
    ++nodes;
  }
  paths.push_back(path + step);
  CreateAll(&server, paths);
  CHECK(server.Do(MakeDeleteRecursive("/p")).error == ErrorCode::kTooLarge);
  server.Do(MakeDelete(path + step));
  CHECK(server.Do(MakeDeleteRecursive("/p")).removed == nodes);
  CHECK(server.tree().node_count() == 4);
}

TEST_CASE("a request needs no session, unless it creates an ephemeral") {
  Server server;
  const auto ask = [&server](const Op& op) {
    std::string command;
    AppendRequest(server.Next(), Request{false, {op}, {}}, &command);
    const ApplyResult result = server.ApplyOwn(command);
    REQUIRE(result.error == ErrorCode::kOk);
    return result.ops[0];
  };
  CHECK(ask(MakeCreate("/a", "x")).path == "/a");
  CHECK(server.events() == Strings{"created /a"});
  CHECK(server.StatOf("/a").ephemeral_owner == kNoSession);
  CHECK(ask(MakeSetData("/a", "y", 0)).stat.version == 1);
  CHECK(ask(MakeCreate("/e", "", CreateMode::kEphemeral)).error == ErrorCode::kBadArguments);
  CHECK(ask(MakeCreate("/e", "", CreateMode::kEphemeralSequential)).error ==
        ErrorCode::kBadArguments);
  CHECK(server.tree().node_count() == 5);
  // The mode only decides whether the node is sequential.
  CHECK(ask(MakeCreateContainer("/c", CreateMode::kEphemeral)).error == ErrorCode::kOk);
  CHECK(ask(MakeCreateTtl("/t", 5)).error == ErrorCode::kOk);
  CHECK(ask(MakeDeleteRecursive("/a")).removed == 1);

  // An attach zxid without a session is an error.
  std::string command;
  AppendRequest(server.Next(kNoSession, Zxid(1)), Request{false, {MakeCreate("/b")}, {}}, &command);
  CHECK(server.ApplyOwn(command).error == ErrorCode::kSessionExpired);
  CHECK_FALSE(server.Has("/b"));
}

}  // namespace
}  // namespace quorate::tree
