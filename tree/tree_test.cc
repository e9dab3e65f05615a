// SPDX-License-Identifier: Apache-2.0

#include "tree/tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

std::vector<std::string> ChildrenOf(const Server& server, std::string_view path) {
  std::vector<std::string> names;
  Stat stat;
  const auto add = [&names](std::string_view name) { names.emplace_back(name); };
  REQUIRE(server.tree().GetChildren(path, server.identities, add, &stat) == ErrorCode::kOk);
  REQUIRE(stat == server.StatOf(path));
  std::sort(names.begin(), names.end());
  return names;
}

ErrorCode Error(Server* server, const Op& op) { return server->Do(op).error; }

TEST_CASE("a new tree has the nodes of a new ZooKeeper server") {
  Server server;
  const Tree& tree = server.tree();
  CHECK(tree.node_count() == 4);
  CHECK(tree.ephemeral_count() == 0);
  CHECK(tree.session_count() == 0);
  CHECK(tree.data_bytes() == std::string("zookeeperquotaconfig").size());
  CHECK(tree.last_zxid() == Zxid(0));
  CHECK(tree.time_ms() == 0);
  CHECK(tree.digest() == tree.ComputeDigest());
  CHECK(ChildrenOf(server, "/") == Strings{"zookeeper"});
  CHECK(ChildrenOf(server, "/zookeeper") == Strings{"config", "quota"});
  CHECK(server.StatOf("/").cversion == -1);
  CHECK(server.StatOf("/zookeeper").cversion == -2);
  CHECK(server.StatOf("/zookeeper/config").aversion == -1);
  CHECK(server.StatOf("/").czxid == Zxid(0));
  CHECK(server.DataOf("/") == "");

  std::vector<Acl> acl;
  Stat stat;
  REQUIRE(tree.GetAcl("/zookeeper/config", {}, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == std::vector<Acl>{MakeAcl(permission::kRead, "world", "anyone")});
  REQUIRE(tree.GetAcl("/", {}, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == OpenAcl());
}

TEST_CASE("create sets the stat of the node and of its parent") {
  Server server;
  server.OpenSession();
  server.time_ms = kStartMs + 5;
  const OpResult result = server.Do(MakeCreate("/a", "data"));
  const Zxid zxid = server.tree().last_zxid();
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.path == "/a");
  Stat expected;
  expected.czxid = expected.mzxid = expected.pzxid = zxid;
  expected.ctime_ms = expected.mtime_ms = kStartMs + 5;
  expected.data_length = 4;
  CHECK(result.stat == expected);
  CHECK(server.StatOf("/a") == expected);
  CHECK(server.DataOf("/a") == "data");
  CHECK(server.events() == Strings{"created /a"});
  CHECK(server.listener().last_event_zxid == zxid);

  const Stat root = server.StatOf("/");
  CHECK(root.pzxid == zxid);
  CHECK(root.mzxid == Zxid(0));
  CHECK(root.version == 0);
  CHECK(root.num_children == 2);
  CHECK(root.cversion == 0);  // 2 * 1 create - 2 children
  CHECK(server.tree().node_count() == 5);
  CHECK(server.tree().data_bytes() == 20 + 5);
}

TEST_CASE("create keeps null data as null") {
  Server server;
  server.OpenSession();
  Op op = MakeCreate("/null");
  op.has_data = false;
  CHECK(server.Do(op).stat.data_length == 0);
  server.Do(MakeCreate("/empty"));
  CHECK(server.DataOf("/null") == std::nullopt);
  CHECK(server.DataOf("/empty") == "");
}

TEST_CASE("create: the first error in ZooKeeper's order wins") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/closed", "", CreateMode::kPersistent,
                       {MakeAcl(permission::kRead, "world", "anyone")}));
  server.Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  const std::vector<Acl> bad = {MakeAcl(31, "nobody", "knows")};
  const CreateMode persistent = CreateMode::kPersistent;
  const CreateMode sequential = CreateMode::kPersistentSequential;

  // The mode is checked first, then the parent's existence, then the ACL.
  CHECK(Error(&server, MakeCreate("x", "", static_cast<CreateMode>(7), bad)) ==
        ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("/x", "", static_cast<CreateMode>(-1))) ==
        ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("x", "", persistent, bad)) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("", "", persistent, bad)) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate(std::string_view("/x\0y", 4), "", persistent, bad)) ==
        ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("/none/x", "", persistent, bad)) == ErrorCode::kInvalidAcl);
  CHECK(Error(&server, MakeCreate("/x", "", persistent, {})) == ErrorCode::kInvalidAcl);
  // The parent is checked before the path's validity.
  CHECK(Error(&server, MakeCreate("/none/x")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeCreate("none/x")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeCreate("/a//x")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeCreate("/./x")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeCreate("/closed/..")) == ErrorCode::kNoAuth);
  CHECK(Error(&server, MakeCreate("/a/..")) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("/a/")) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("//x")) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("//", "", sequential)) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("/e/\x01")) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeCreate("/a")) == ErrorCode::kNodeExists);
  CHECK(Error(&server, MakeCreate("/")) == ErrorCode::kNodeExists);
  CHECK(Error(&server, MakeCreate("/e/x")) == ErrorCode::kNoChildrenForEphemerals);
  CHECK(server.events().empty());
  CHECK(server.tree().node_count() == 7);
}

TEST_CASE("create: the sequence number is the parent's number of creates") {
  Server server;
  server.OpenSession();
  const CreateMode sequential = CreateMode::kPersistentSequential;
  server.Do(MakeCreate("/q"));
  CHECK(server.Do(MakeCreate("/q/n-", "", sequential)).path == "/q/n-0000000000");
  server.Do(MakeCreate("/q/other"));
  CHECK(server.Do(MakeCreate("/q/n-", "", sequential)).path == "/q/n-0000000002");
  server.Do(MakeDelete("/q/n-0000000002"));
  CHECK(server.Do(MakeCreate("/q/", "", CreateMode::kEphemeralSequential)).path == "/q/0000000003");
  CHECK(server.Do(MakeCreate("/", "", sequential)).path == "/0000000001");
  CHECK(server.events() == Strings{"created /0000000001"});
  CHECK(server.Do(MakeCreate("/q/..", "", sequential)).path == "/q/..0000000004");
  // A client may itself create the node that has the next sequential name.
  server.Do(MakeCreate("/q/n-0000000006"));
  CHECK(Error(&server, MakeCreate("/q/n-", "", sequential)) == ErrorCode::kNodeExists);
  CHECK(server.StatOf("/q").cversion == 2 * 6 - 5);
}

TEST_CASE("delete removes the node and updates the stat of its parent") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/a/b", "data"));
  const Stat before = server.StatOf("/a");
  const OpResult result = server.Do(MakeDelete("/a/b", 0));
  CHECK(result.error == ErrorCode::kOk);
  CHECK_FALSE(server.Has("/a/b"));
  CHECK(server.events() == Strings{"deleted /a/b"});
  Stat expected = before;
  expected.pzxid = server.tree().last_zxid();
  expected.num_children = 0;
  expected.cversion = before.cversion + 1;
  CHECK(server.StatOf("/a") == expected);
  CHECK(server.tree().node_count() == 5);
  CHECK(server.tree().data_bytes() == 21);
}

TEST_CASE("delete: the first error in ZooKeeper's order wins") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/a/b"));
  server.identities = {{"digest", "u:h"}};
  server.Do(MakeCreate("/closed", "", CreateMode::kPersistent, {MakeAcl(31, "digest", "u:h")}));
  server.Do(MakeCreate("/closed/x"));
  server.identities.clear();
  for (std::string_view path :
       {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "", "a"}) {
    CAPTURE(path);
    CHECK(Error(&server, MakeDelete(path)) == ErrorCode::kBadArguments);
  }
  CHECK(Error(&server, MakeDelete(std::string_view("/a\0", 3))) == ErrorCode::kBadArguments);
  CHECK(Error(&server, MakeDelete("/none/x")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeDelete("/closed/x", 9)) == ErrorCode::kNoAuth);
  // The permission is checked before the node's existence.
  CHECK(Error(&server, MakeDelete("/closed/none")) == ErrorCode::kNoAuth);
  CHECK(Error(&server, MakeDelete("/none")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeDelete("//a")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeDelete("/a/")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeDelete("a/b")) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeDelete("/a", 1)) == ErrorCode::kBadVersion);
  CHECK(Error(&server, MakeDelete("/a", 0)) == ErrorCode::kNotEmpty);
  CHECK(server.events().empty());
  CHECK(server.Has("/a/b"));
}

TEST_CASE("setData sets data, version and times") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "old"));
  const Stat before = server.StatOf("/a");
  const Stat root = server.StatOf("/");
  server.time_ms += 10;
  const OpResult result = server.Do(MakeSetData("/a", "longer", 0));
  CHECK(result.error == ErrorCode::kOk);
  CHECK(result.path.empty());
  Stat expected = before;
  expected.mzxid = server.tree().last_zxid();
  expected.mtime_ms = kStartMs + 10;
  expected.version = 1;
  expected.data_length = 6;
  CHECK(result.stat == expected);
  CHECK(server.StatOf("/a") == expected);
  CHECK(server.StatOf("/") == root);
  CHECK(server.DataOf("/a") == "longer");
  CHECK(server.events() == Strings{"changed /a"});
  CHECK(server.tree().data_bytes() == 20 + 7);

  Op null = MakeSetData("/a", "");
  null.has_data = false;
  CHECK(server.Do(null).stat.version == 2);
  CHECK(server.DataOf("/a") == std::nullopt);
  CHECK(server.Do(MakeSetData("/", "root")).stat.version == 1);
  CHECK(server.DataOf("/") == "root");
}

TEST_CASE("setData and check: the first error in ZooKeeper's order wins") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a"));
  server.Do(MakeCreate("/closed", "", CreateMode::kPersistent,
                       {MakeAcl(permission::kCreate, "world", "anyone")}));
  for (std::string_view path : {"", "a", "//a", "/a/", "/a/.."}) {
    CAPTURE(path);
    CHECK(Error(&server, MakeSetData(path, "")) == ErrorCode::kBadArguments);
    CHECK(Error(&server, MakeCheck(path)) == ErrorCode::kBadArguments);
    CHECK(Error(&server, MakeSetAcl(path, {})) == ErrorCode::kBadArguments);
  }
  CHECK(Error(&server, MakeSetData("/none", "", 3)) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeSetData("/closed", "", 3)) == ErrorCode::kNoAuth);
  CHECK(Error(&server, MakeSetData("/a", "", 3)) == ErrorCode::kBadVersion);
  CHECK(Error(&server, MakeCheck("/none", 3)) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeCheck("/closed", 3)) == ErrorCode::kNoAuth);
  CHECK(Error(&server, MakeCheck("/a", 3)) == ErrorCode::kBadVersion);
  CHECK(Error(&server, MakeCheck("/a", 0)) == ErrorCode::kOk);
  CHECK(server.events().empty());
}

TEST_CASE("setAcl sets the list and its version, and nothing else") {
  Server server;
  server.OpenSession();
  server.identities = {{"digest", "u:h"}, {"ip", "10.0.0.1"}};
  server.Do(MakeCreate("/a"));
  const Stat before = server.StatOf("/a");
  const OpResult result =
      server.Do(MakeSetAcl("/a", {MakeAcl(31, "auth", ""), MakeAcl(1, "ip", "10.0.0.0/8")}, 0));
  REQUIRE(result.error == ErrorCode::kOk);
  Stat expected = before;
  expected.aversion = 1;
  CHECK(result.stat == expected);
  CHECK(server.StatOf("/a") == expected);
  CHECK(server.events().empty());

  std::vector<Acl> acl;
  Stat stat;
  REQUIRE(server.tree().GetAcl("/a", server.identities, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == std::vector<Acl>{MakeAcl(31, "digest", "u:h"), MakeAcl(1, "ip", "10.0.0.0/8")});
  CHECK(stat == expected);
  // A client that may only read gets no hashes.
  const std::vector<Identity> reader = {{"ip", "10.9.9.9"}};
  REQUIRE(server.tree().GetAcl("/a", reader, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == std::vector<Acl>{MakeAcl(31, "digest", "u:x"), MakeAcl(1, "ip", "10.0.0.0/8")});
  CHECK(server.tree().GetAcl("/a", {}, &acl, &stat) == ErrorCode::kNoAuth);
  CHECK(server.tree().GetAcl("/none", {}, &acl, &stat) == ErrorCode::kNoNode);

  const std::vector<Acl> open = OpenAcl();
  CHECK(Error(&server, MakeSetAcl("/none", {})) == ErrorCode::kInvalidAcl);
  CHECK(Error(&server, MakeSetAcl("/none", open)) == ErrorCode::kNoNode);
  CHECK(Error(&server, MakeSetAcl("/a", open, 0)) == ErrorCode::kBadVersion);
  server.identities.clear();
  CHECK(Error(&server, MakeSetAcl("/a", open, 0)) == ErrorCode::kNoAuth);
  CHECK(Error(&server, MakeSetAcl("/a", {MakeAcl(31, "auth", "")})) == ErrorCode::kInvalidAcl);
  server.identities = {{"super", ""}};
  CHECK(Error(&server, MakeSetAcl("/a", open, 1)) == ErrorCode::kOk);

  // A client that may change the ACL gets it unmasked, even without the read permission.
  server.Do(MakeSetAcl("/a", {MakeAcl(permission::kAdmin, "digest", "u:h")}));
  const std::vector<Identity> admin = {{"digest", "u:h"}};
  REQUIRE(server.tree().GetAcl("/a", admin, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == std::vector<Acl>{MakeAcl(permission::kAdmin, "digest", "u:h")});
  std::string_view data;
  bool has_data = false;
  CHECK(server.tree().GetData("/a", admin, &data, &has_data, &stat) == ErrorCode::kNoAuth);
}

TEST_CASE("reads: permissions, and results") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/a", "data"));
  server.Do(MakeCreate("/a/b"));
  server.Do(MakeCreate("/a/c"));
  server.Do(MakeCreate("/closed", "secret", CreateMode::kPersistent,
                       {MakeAcl(permission::kWrite, "world", "anyone")}));
  const Tree& tree = server.tree();
  Stat stat;
  std::string_view data;
  bool has_data = false;
  const auto ignore = [](std::string_view) {};
  CHECK(tree.Exists("/a", &stat) == ErrorCode::kOk);
  CHECK(stat == server.StatOf("/a"));
  for (std::string_view path : {"/none", "/a/none", "/a/b/c", "/a/", "//a", "a", "/a//b"}) {
    CAPTURE(path);
    CHECK(tree.Exists(path, &stat) == ErrorCode::kNoNode);
    CHECK(tree.GetData(path, {}, &data, &has_data, &stat) == ErrorCode::kNoNode);
    CHECK(tree.GetChildren(path, {}, ignore, &stat) == ErrorCode::kNoNode);
    CHECK_FALSE(tree.FindStat(path, &stat));
  }
  CHECK(tree.Exists("/closed", &stat) == ErrorCode::kOk);
  CHECK(tree.Exists(std::string_view("/a\0b", 4), &stat) == ErrorCode::kBadArguments);
  CHECK(tree.GetData("/closed", {}, &data, &has_data, &stat) == ErrorCode::kNoAuth);
  CHECK(tree.GetChildren("/closed", {}, ignore, &stat) == ErrorCode::kNoAuth);
  CHECK(tree.FindStat("/closed", &stat));
  const std::vector<Identity> super = {{"super", ""}};
  CHECK(tree.GetData("/closed", super, &data, &has_data, &stat) == ErrorCode::kOk);
  CHECK(data == "secret");
  CHECK(ChildrenOf(server, "/a") == Strings{"b", "c"});
}

TEST_CASE("reads: the number of nodes below a node") {
  Server server;
  server.OpenSession();
  const auto count = [&](std::string_view path) {
    DescendantsPlace place;
    bool done = false;
    for (int pieces = 0; !done; ++pieces) {
      REQUIRE(pieces < 100);
      REQUIRE(server.tree().CountDescendants(path, {}, 2, &place, &done) == ErrorCode::kOk);
    }
    return place.count;
  };
  CHECK(count("/") == 3);
  for (std::string_view path : {"/a", "/a/b", "/a/b/c", "/a/d", "/ab"}) server.Do(MakeCreate(path));
  server.Do(MakeCreate("/a/d/e", "", CreateMode::kEphemeral));
  CHECK(count("/") == 9);
  CHECK(count("/a") == 4);
  CHECK(count("/a/b") == 1);
  CHECK(count("/ab") == 0);
  CHECK(count("/a/d/e") == 0);
  DescendantsPlace place;
  bool done = false;
  CHECK(server.tree().CountDescendants("/none", {}, 1, &place, &done) == ErrorCode::kNoNode);
  server.Do(MakeSetAcl("/a", {MakeAcl(permission::kWrite, "world", "anyone")}));
  CHECK(server.tree().CountDescendants("/a", {}, 1, &place, &done) == ErrorCode::kNoAuth);
}

TEST_CASE("reads: children in pieces while children are created and deleted") {
  Server server;
  server.computes_digest = false;  // of 15,000 commands: once at the end is enough
  server.OpenSession();
  server.Do(MakeCreate("/d"));
  for (int i = 0; i < 3000; ++i) server.Do(MakeCreate("/d/kept" + std::to_string(i)));
  for (int i = 0; i < 3000; ++i) server.Do(MakeCreate("/d/goes" + std::to_string(i)));
  std::map<std::string, int> read;
  ChildrenPlace place;
  Stat stat;
  size_t pieces = 0;
  size_t largest = 0;
  while (!place.at_end) {
    size_t in_piece = 0;
    const auto add = [&](std::string_view name) {
      ++read[std::string(name)];
      ++in_piece;
    };
    REQUIRE(server.tree().ReadChildren("/d", {}, 100, add, &place, &stat) == ErrorCode::kOk);
    largest = std::max(largest, in_piece);
    ++pieces;
    if (pieces == 5) {  // merges groups of children; they are split again at the end
      for (int i = 0; i < 3000; ++i) server.Do(MakeDelete("/d/goes" + std::to_string(i)));
    }
    if (pieces == 8) {
      for (int i = 0; i < 6000; ++i) server.Do(MakeCreate("/d/comes" + std::to_string(i)));
    }
  }
  CHECK(pieces > 10);
  CHECK(largest < 1000);
  for (const auto& [name, times] : read) CHECK(times == 1);
  for (int i = 0; i < 3000; ++i) CHECK(read.count("kept" + std::to_string(i)) == 1);
  CHECK(server.tree().digest() == server.tree().ComputeDigest());
}

TEST_CASE("reads: descendants are counted in pieces of bounded size, also while they are deleted") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/d"));
  for (int i = 0; i < 50; ++i) {
    const std::string parent = "/d/p" + std::to_string(i);
    server.Do(MakeCreate(parent));
    for (int j = 0; j < 20; ++j) server.Do(MakeCreate(parent + "/c" + std::to_string(j)));
  }
  DescendantsPlace place;
  bool done = false;
  int pieces = 0;
  for (; !done; ++pieces) {
    REQUIRE(server.tree().CountDescendants("/d", {}, 30, &place, &done) == ErrorCode::kOk);
    if (pieces == 3) {
      Op remove = MakeDelete("/d/p7");
      for (int j = 0; j < 20; ++j) server.Do(MakeDelete("/d/p7/c" + std::to_string(j)));
      server.Do(remove);
    }
  }
  CHECK(pieces > 10);
  CHECK(place.count <= 50 * 21);
  CHECK(place.count >= 49 * 21);
}

TEST_CASE("multi: all operations apply with one zxid, and each sees those before it") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/old", "x"));
  const std::vector<OpResult> results = server.DoMulti({
      MakeCreate("/m"),
      MakeCreate("/m/n-", "", CreateMode::kPersistentSequential),
      MakeCreate("/m/n-", "", CreateMode::kEphemeralSequential),
      MakeSetData("/m", "changed", 0),
      MakeCheck("/m", 1),
      MakeDelete("/old", 0),
      MakeSetAcl("/m", {MakeAcl(31, "ip", "10.0.0.1")}, 0),
  });
  const Zxid zxid = server.tree().last_zxid();
  REQUIRE(results.size() == 7);
  for (const OpResult& result : results) CHECK(result.error == ErrorCode::kOk);
  CHECK(results[0].path == "/m");
  CHECK(results[0].stat.num_children == 0);
  CHECK(results[1].path == "/m/n-0000000000");
  CHECK(results[2].path == "/m/n-0000000001");
  CHECK(results[2].stat.ephemeral_owner == kSession);
  CHECK(results[3].stat.version == 1);
  CHECK(results[6].stat.aversion == 1);
  CHECK(server.StatOf("/m").czxid == zxid);
  CHECK(server.StatOf("/m").num_children == 2);
  CHECK_FALSE(server.Has("/old"));
  CHECK(server.events() == Strings{"created /m", "created /m/n-0000000000",
                                   "created /m/n-0000000001", "changed /m", "deleted /old"});
  CHECK(server.DoMulti({}).empty());
}

TEST_CASE("multi: if one operation fails, none has an effect") {
  Server server;
  server.OpenSession();
  server.identities = {{"digest", "u:h"}};
  server.Do(MakeCreate("/a", "one"));
  server.Do(MakeCreate("/e1", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/e2", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/e3", "", CreateMode::kEphemeral));
  server.Do(MakeCreate("/private", "", CreateMode::kPersistent, {MakeAcl(31, "auth", "")}));
  // The session's ephemerals and the tree are as before, but the command did advance the sequence
  // and the time.
  const Stat root = server.StatOf("/");
  const Stat a = server.StatOf("/a");
  const size_t bytes = server.tree().data_bytes();
  const std::vector<OpResult> results = server.DoMulti({
      MakeCreate("/a/x", "data"),
      MakeCreate("/a/x/e", "", CreateMode::kEphemeral),
      MakeSetData("/a", "two"),
      MakeSetData("/a", "three"),
      MakeDelete("/e2"),
      MakeDelete("/e1"),
      MakeCreate("/e1", "again", CreateMode::kEphemeral),
      MakeSetAcl("/a", {MakeAcl(31, "auth", "")}),
      MakeSetAcl("/private", OpenAcl()),
      MakeDelete("/a/x/e"),
      MakeDelete("/a/x"),
      MakeDelete("/private"),
      MakeCheck("/a", 99),
      MakeCreate("/never"),
      MakeDelete("/e3"),
  });
  REQUIRE(results.size() == 15);
  for (size_t i = 0; i < 12; ++i) {
    CAPTURE(i);
    CHECK(results[i].error == ErrorCode::kOk);
    CHECK(results[i].path.empty());
    CHECK(results[i].stat == Stat());
  }
  CHECK(results[12].error == ErrorCode::kBadVersion);
  CHECK(results[13].error == ErrorCode::kRuntimeInconsistency);
  CHECK(results[14].error == ErrorCode::kRuntimeInconsistency);
  CHECK(server.events().empty());
  CHECK(server.StatOf("/") == root);
  CHECK(server.StatOf("/a") == a);
  CHECK(server.DataOf("/a") == "one");
  CHECK(server.DataOf("/e1") == "");
  CHECK(server.tree().data_bytes() == bytes);
  CHECK(server.tree().ephemeral_count() == 3);
  CHECK(server.tree().Ephemerals(kSession) == Strings{"/e1", "/e2", "/e3"});
  std::vector<Acl> acl;
  Stat stat;
  REQUIRE(server.tree().GetAcl("/private", server.identities, &acl, &stat) == ErrorCode::kOk);
  CHECK(acl == std::vector<Acl>{MakeAcl(31, "digest", "u:h")});
}

TEST_CASE("events have the ACLs of the node and of its parent, also after a deletion") {
  Server server;
  server.OpenSession();
  server.identities = {{"digest", "u:h"}};
  const std::vector<Acl> own = {MakeAcl(permission::kAll, "digest", "u:h")};
  const std::vector<Acl> other = {MakeAcl(permission::kRead, "world", "anyone"),
                                  MakeAcl(permission::kAll, "digest", "u:h")};
  const auto told = [&server](const std::vector<Acl>& node, const std::vector<Acl>& parent) {
    CHECK(server.listener().last_event_acl == node);
    CHECK(server.listener().last_event_parent_acl == parent);
  };
  server.Do(MakeCreate("/p", "", CreateMode::kPersistent, own));
  told(own, OpenAcl());
  server.Do(MakeCreate("/p/c", "", CreateMode::kPersistent, other));
  told(other, own);
  server.Do(MakeSetData("/p/c", "1"));
  told(other, own);
  server.Do(MakeDelete("/p/c"));
  told(other, own);
  server.Do(MakeSetData("/", "1"));
  told(OpenAcl(), {});
  server.Do(MakeCreate("/p/e", "", CreateMode::kEphemeral, other));
  server.Do(MakeSetData("/", "2"));
  server.EndSession(CommandKind::kCloseSession, kSession, server.AttachZxid());
  told(other, own);
}

TEST_CASE("a failed request leaves the same digest as a request without operations") {
  Server failed;
  Server idle;
  for (Server* server : {&failed, &idle}) {
    server->OpenSession();
    server->Do(MakeCreate("/a", "x"));
    server->Do(MakeCreate("/e", "", CreateMode::kEphemeral));
  }
  CHECK(failed.tree().digest() == idle.tree().digest());
  failed.DoMulti({MakeCreate("/b"), MakeDelete("/e"), MakeSetData("/a", "y"), MakeDelete("/none")});
  idle.DoMulti({});
  CHECK(failed.tree().digest() == idle.tree().digest());
  failed.Do(MakeCreate("/b"));
  idle.DoMulti({});
  CHECK(failed.tree().digest() != idle.tree().digest());
}

TEST_CASE("trees that differ have different digests") {
  const auto digest = [](const std::vector<Op>& ops) {
    Server server;
    server.OpenSession();
    for (const Op& op : ops) REQUIRE(server.Do(op).error == ErrorCode::kOk);
    return server.tree().digest();
  };
  Op null = MakeCreate("/a");
  null.has_data = false;
  const std::vector<uint64_t> digests = {
      digest({MakeCreate("/a")}),
      digest({MakeCreate("/b")}),
      digest({null}),
      digest({MakeCreate("/a", "x")}),
      digest({MakeCreate("/a", "", CreateMode::kEphemeral)}),
      digest({MakeCreate("/a", "", CreateMode::kPersistent, {MakeAcl(1, "world", "anyone")})}),
      digest({MakeCheck("/")}),
      digest({MakeCreate("/a"), MakeSetData("/a", "")}),
      digest({MakeCreate("/a"), MakeSetAcl("/a", OpenAcl())}),
      digest({MakeCreate("/a"), MakeDelete("/a")}),
      digest({MakeCreate("/a"), MakeCheck("/a")}),
  };
  for (size_t i = 0; i < digests.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      CAPTURE(i, j);
      CHECK(digests[i] != digests[j]);
    }
  }
}

TEST_CASE("a command with an earlier time does not move the tree's time back") {
  Server server;
  server.OpenSession();
  CHECK(server.tree().time_ms() == kStartMs);
  server.time_ms = kStartMs - 1000;
  CHECK(server.Do(MakeCreate("/a")).stat.ctime_ms == kStartMs);
  CHECK(server.tree().time_ms() == kStartMs);
  server.time_ms = kStartMs + 1;
  CHECK(server.Do(MakeCreate("/b")).stat.ctime_ms == kStartMs + 1);
}

TEST_CASE("a deep path needs no deep stack") {
  Server server;
  server.OpenSession();
  std::string path;
  std::vector<std::string> paths;
  for (int i = 0; i < 3000; ++i) paths.push_back(path += "/d");
  Request request{true, {}, {}};
  for (const std::string& each : paths) request.ops.push_back(MakeCreate(each));
  CHECK(server.DoRequest(request).ops.back().error == ErrorCode::kOk);
  CHECK(server.Has(path));
  CHECK(server.tree().node_count() == 3004);
}

}  // namespace
}  // namespace quorate::tree
