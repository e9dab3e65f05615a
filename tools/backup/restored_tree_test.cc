// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/restored_tree.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tree/testing/tree_test_util.h"

namespace quorate::tools {
namespace {

using tree::CommandKind;
using tree::CreateMode;
using tree::kPassword;
using tree::kSession;
using tree::MakeCreate;

using Members = std::vector<uint64_t>;

tree::BackupTotals Totals() {
  tree::BackupTotals totals;
  totals.checksum = "0123456789abcdef";
  return totals;
}

// Fills a tree with a session that owns an ephemeral znode.
void Fill(tree::Server* server) {
  server->OpenSession();
  server->Do(MakeCreate("/kept"));
  server->Do(MakeCreate("/ephemeral", "", CreateMode::kEphemeral));
}

std::string IdOf(const tree::Server& server, const RestoreOptions& options, Members voters,
                 Members observers = {}, const std::string& name = "") {
  return RestoredClusterId(Totals(), options, server.tree(), std::move(voters),
                           std::move(observers), name);
}

}  // namespace

TEST_CASE("a restored tree begins above every zxid that the old cluster can have used") {
  tree::Server server;
  Fill(&server);
  const tree::Zxid backup = server.tree().last_zxid();
  const uint64_t digest = server.tree().digest();
  REQUIRE(PrepareRestoredTree({}, &server.mutable_tree()).ok());
  CHECK(server.tree().last_zxid().value() == backup.value() + static_cast<int64_t>(kZxidBump));
  // The old cluster continues after the backup, and one of its clients takes a lock.
  tree::Server old;
  Fill(&old);
  for (int i = 0; i < 1000; ++i) old.Skip();
  const tree::OpResult old_lock = old.Do(MakeCreate("/lock", "", CreateMode::kEphemeral));
  const tree::OpResult new_lock = server.Do(MakeCreate("/lock", "", CreateMode::kEphemeral));
  CHECK(new_lock.stat.czxid > old_lock.stat.czxid);
  CHECK(server.Has("/ephemeral"));
  tree::Server same;
  Fill(&same);
  CHECK(same.tree().digest() == digest);
}

TEST_CASE("a restored tree does not name the members of the old cluster") {
  tree::Server server;
  tree::RecordingListener listener;
  server.mutable_tree().SetConfig(server.tree().last_zxid() + 1, "server.1=a:1:2", &listener);
  REQUIRE(PrepareRestoredTree({}, &server.mutable_tree()).ok());
  tree::Stat stat;
  REQUIRE(server.tree().FindStat("/zookeeper/config", &stat));
  CHECK(stat.data_length == 0);
}

TEST_CASE("the option --zxid-bump sets a restored tree's zxid, unless it leaves too few zxids") {
  tree::Server server;
  Fill(&server);
  const tree::Zxid backup = server.tree().last_zxid();
  REQUIRE(PrepareRestoredTree({.zxid_bump = 0}, &server.mutable_tree()).ok());
  CHECK(server.tree().last_zxid() == backup);
  REQUIRE(PrepareRestoredTree({.zxid_bump = 7}, &server.mutable_tree()).ok());
  CHECK(server.tree().last_zxid() == backup + 7);
  CHECK(PrepareRestoredTree({.zxid_bump = uint64_t{1} << 62}, &server.mutable_tree()).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(PrepareRestoredTree({.zxid_bump = ~uint64_t{0}}, &server.mutable_tree()).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(server.tree().last_zxid() == backup + 7);
}

TEST_CASE("sessions that are left out are closed, with their ephemeral znodes") {
  tree::Server server;
  Fill(&server);
  REQUIRE(PrepareRestoredTree({.without_sessions = true}, &server.mutable_tree()).ok());
  CHECK(server.tree().session_count() == 0);
  CHECK(!server.Has("/ephemeral"));
  CHECK(server.Has("/kept"));
  CHECK(server.tree().digest() == server.tree().ComputeDigest());
}

TEST_CASE("members of one restore have the same cluster id, in any order of the list") {
  tree::Server first, second;
  Fill(&first);
  Fill(&second);
  REQUIRE(PrepareRestoredTree({}, &first.mutable_tree()).ok());
  REQUIRE(PrepareRestoredTree({}, &second.mutable_tree()).ok());
  CHECK(IdOf(first, {}, {1, 2, 3}, {4, 5}) == IdOf(second, {}, {3, 1, 2}, {5, 4}));
}

TEST_CASE("members of different restores have different cluster ids") {
  tree::Server server;
  Fill(&server);
  REQUIRE(PrepareRestoredTree({}, &server.mutable_tree()).ok());
  const std::string id = IdOf(server, {}, {1, 2, 3});
  CHECK(IdOf(server, {}, {1, 2, 3}, {}, "other") != id);
  CHECK(IdOf(server, {}, {1, 2}) != id);
  CHECK(IdOf(server, {}, {1, 2}, {3}) != id);

  tree::Server bumped;
  Fill(&bumped);
  REQUIRE(PrepareRestoredTree({.zxid_bump = 1}, &bumped.mutable_tree()).ok());
  CHECK(IdOf(bumped, {.zxid_bump = 1}, {1, 2, 3}) != id);

  tree::Server closed;
  Fill(&closed);
  const RestoreOptions without_sessions{.without_sessions = true};
  REQUIRE(PrepareRestoredTree(without_sessions, &closed.mutable_tree()).ok());
  CHECK(IdOf(closed, without_sessions, {1, 2, 3}) != id);
}

}  // namespace quorate::tools
