// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tree/quota.h"
#include "tree/testing/tree_test_util.h"

namespace quorate::tree {
namespace {

using Strings = std::vector<std::string>;

ErrorCode Error(Server* server, const Op& op) { return server->Do(op).error; }

// Sets a quota as zkCli's setquota does.
void SetQuota(Server* server, const std::string& path, std::string_view limits) {
  std::string at = std::string(kQuotaRoot);
  for (size_t slash = 0; slash != std::string::npos;) {
    const size_t next = path.find('/', slash + 1);
    at += path.substr(slash, next == std::string::npos ? next : next - slash);
    server->Do(MakeCreate(at));
    slash = next;
  }
  const std::string limits_path = QuotaNodePath(path, kLimitsName);
  REQUIRE(Error(server, MakeCreate(limits_path, limits)) == ErrorCode::kOk);
  const std::string stats_path = QuotaNodePath(path, kStatsName);
  REQUIRE(Error(server, MakeCreate(stats_path, "count=0,bytes=0")) == ErrorCode::kOk);
}

std::string StatsOf(const Server& server, const std::string& path) {
  return server.DataOf(QuotaNodePath(path, kStatsName)).value_or("null");
}

TEST_CASE("the text of a quota has ZooKeeper's format") {
  const StatsTrack plain = ParseStatsTrack("count=7,bytes=120");
  CHECK(plain.count == 7);
  CHECK(plain.bytes == 120);
  CHECK(plain.count_hard_limit == -1);
  CHECK(ToString(plain) == "count=7,bytes=120");
  const std::string hard = "count=-1,bytes=-1=;byteHardLimit=1000;countHardLimit=10";
  CHECK(ParseStatsTrack(hard).bytes == -1);
  CHECK(ParseStatsTrack(hard).byte_hard_limit == 1000);
  CHECK(ParseStatsTrack(hard).count_hard_limit == 10);
  CHECK(ToString(ParseStatsTrack(hard)) == hard);
  CHECK(ToString(ParseStatsTrack("bytes=5;;,count=1")) == "count=1,bytes=5");
  for (std::string_view text : {"", "=", ",", "count", "count=", "count=x,bytes=1.5", "count= 1"}) {
    CAPTURE(text);
    CHECK(ToString(ParseStatsTrack(text)) == "count=-1,bytes=-1");
  }
  CHECK(ParseStatsTrack(std::string(1 << 20, ',') + "count=1").count == -1);
  CHECK(ParseStatsTrack("count=99999999999999999999").count == -1);
}

TEST_CASE("QuotaPathOf and QuotaNodePath map quota nodes to paths and back") {
  CHECK(QuotaPathOf("/zookeeper/quota/a/b/zookeeper_limits", kLimitsName) == "/a/b");
  CHECK(QuotaNodePath("/a/b", kStatsName) == "/zookeeper/quota/a/b/zookeeper_stats");
  for (std::string_view path :
       {"/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/a/b", "/zookeeper_limits",
        "/zookeeper/quota/a/zookeeper_stats", "/zookeeper/quotas/a/zookeeper_limits",
        "/zookeeper/quota/a/xzookeeper_limits", "/a/zookeeper/quota/b/zookeeper_limits"}) {
    CAPTURE(path);
    CHECK_FALSE(QuotaPathOf(path, kLimitsName).has_value());
  }
}

TEST_CASE("the quota of the longest path with limits applies") {
  QuotaIndex index;
  CHECK_FALSE(index.Find("/a").has_value());
  index.OnCreated("/zookeeper/quota/a/zookeeper_limits");
  index.OnCreated("/zookeeper/quota/a/b/c/zookeeper_limits");
  index.OnCreated("/zookeeper/quota/d/zookeeper_stats");
  CHECK(index.Find("/a") == "/a");
  CHECK(index.Find("/a/b") == "/a");
  CHECK(index.Find("/a/b/c") == "/a/b/c");
  CHECK(index.Find("/a/b/c/d") == "/a/b/c");
  CHECK(index.Find("/a/b/cd") == "/a");
  for (std::string_view path : {"/", "", "/ab", "/d", "/zookeeper/quota/a"}) {
    CHECK_FALSE(index.Find(path).has_value());
  }
  index.OnDeleted("/zookeeper/quota/a/zookeeper_limits");
  CHECK_FALSE(index.Find("/a/b").has_value());
  CHECK(index.Find("/a/b/c/d") == "/a/b/c");
}

TEST_CASE("each change updates the statistics of its quota") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/q", "12345"));
  server.Do(MakeCreate("/q/a", "1"));
  server.Do(MakeCreate("/other", "123"));
  SetQuota(&server, "/q", "count=100,bytes=1000");
  CHECK(StatsOf(server, "/q") == "count=2,bytes=6");
  const Stat before = server.StatOf(QuotaNodePath("/q", kStatsName));
  CHECK(before.data_length == 15);

  server.Do(MakeCreate("/q/a/b", "22"));
  CHECK(StatsOf(server, "/q") == "count=3,bytes=8");
  server.Do(MakeCreate("/q/s", "4444", CreateMode::kEphemeralSequential));
  CHECK(StatsOf(server, "/q") == "count=4,bytes=12");
  server.Do(MakeSetData("/q", ""));
  CHECK(StatsOf(server, "/q") == "count=4,bytes=7");
  Op null_data = MakeSetData("/q/a", "");
  null_data.has_data = false;
  server.Do(null_data);
  CHECK(StatsOf(server, "/q") == "count=4,bytes=6");
  server.Do(MakeDelete("/q/a/b"));
  CHECK(StatsOf(server, "/q") == "count=3,bytes=4");
  server.Do(MakeCreate("/other/x", "333"));
  server.Do(MakeCreate("/qq", "333"));
  server.Do(MakeSetAcl("/q", OpenAcl()));
  CHECK(StatsOf(server, "/q") == "count=3,bytes=4");
  server.Do(MakeCreateTtl("/q/t", 10));
  CHECK(StatsOf(server, "/q") == "count=4,bytes=4");
  server.time_ms += 11;
  server.DeleteContainer("/q/t");
  CHECK(StatsOf(server, "/q") == "count=3,bytes=4");
  server.EndSession(CommandKind::kCloseSession, kSession, Zxid(0));
  CHECK(StatsOf(server, "/q") == "count=2,bytes=0");
  // There is no event, and nothing but the data changes.
  Stat after = server.StatOf(QuotaNodePath("/q", kStatsName));
  after.data_length = before.data_length;
  CHECK(after == before);
}

TEST_CASE("statistics are updated and rolled back with the change") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/q"));
  SetQuota(&server, "/q", "count=100,bytes=1000");
  const size_t bytes = server.tree().data_bytes();
  server.DoMulti({MakeCreate("/q/a", "123"), MakeSetData("/q", "77"), MakeDelete("/q/a"),
                  MakeCreate("/q/b", "1"), MakeCheck("/none")});
  CHECK(StatsOf(server, "/q") == "count=1,bytes=0");
  CHECK(server.tree().data_bytes() == bytes);
  // A rollback also restores quotas themselves.
  const std::string limits = QuotaNodePath("/q", kLimitsName);
  const std::string stats = QuotaNodePath("/q", kStatsName);
  server.DoMulti({MakeDelete(limits), MakeDelete(stats), MakeCreate("/q/a"), MakeCheck("/none")});
  server.Do(MakeCreate("/q/a", "1"));
  CHECK(StatsOf(server, "/q") == "count=2,bytes=1");
  server.DoMulti(
      {MakeDelete(stats), MakeCreate(stats, "x"), MakeDelete(limits), MakeCreate("/q/b", "1")});
  CHECK(server.events() ==
        Strings{"deleted " + stats, "created " + stats, "deleted " + limits, "created /q/b"});
  CHECK(StatsOf(server, "/q") == "count=2,bytes=1");
  server.DoMulti({MakeCreate(limits), MakeCheck("/none")});
  server.Do(MakeDelete("/q/b"));
  CHECK(StatsOf(server, "/q") == "count=2,bytes=1");
  // Limits without statistics have no effect, and neither have statistics without limits.
  server.Do(MakeDelete(stats));
  server.Do(MakeCreate(limits, "count=1,bytes=1=;countHardLimit=1"));
  server.enforces_quota = true;
  CHECK(Error(&server, MakeCreate("/q/b")) == ErrorCode::kOk);
}

TEST_CASE("hard limits are enforced for requests that want it") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/q", "12345"));
  SetQuota(&server, "/q", "count=1,bytes=1=;byteHardLimit=10;countHardLimit=3");
  server.Do(MakeCreate("/q/a"));
  CHECK(server.listener().excesses.empty());
  server.enforces_quota = true;
  // A create that exceeds both limits is reported for the count alone.
  server.Do(MakeCreate("/q/b"));
  CHECK(Error(&server, MakeCreate("/q/c", "123456")) == ErrorCode::kQuotaExceeded);
  CHECK(server.listener().excesses == Strings{"/q hard count 4 > 3"});
  CHECK(Error(&server, MakeSetData("/q/b", "123456")) == ErrorCode::kQuotaExceeded);
  CHECK(server.listener().excesses == Strings{"/q hard bytes 11 > 10"});
  CHECK(Error(&server, MakeSetData("/q/b", "12345")) == ErrorCode::kOk);
  CHECK(StatsOf(server, "/q") == "count=3,bytes=10");
  // The order is ZooKeeper's: after the check whether the node exists, before the check of the
  // version.
  CHECK(Error(&server, MakeCreate("/q/b", "1")) == ErrorCode::kNodeExists);
  CHECK(Error(&server, MakeSetData("/q/b", "123456", 77)) == ErrorCode::kQuotaExceeded);
  CHECK(Error(&server, MakeSetData("/q/none", "123456")) == ErrorCode::kNoNode);
  // Deletes earlier in the same request free quota.
  CHECK(server.DoMulti({MakeDelete("/q/b"), MakeCreate("/q/c", "12345")})[1].error ==
        ErrorCode::kOk);
  const std::vector<OpResult> failed =
      server.DoMulti({MakeDelete("/q/c"), MakeCreate("/q/d"), MakeCreate("/q/e"), MakeCheck("/q")});
  CHECK(failed[2].error == ErrorCode::kQuotaExceeded);
  CHECK(failed[3].error == ErrorCode::kRuntimeInconsistency);
  CHECK(StatsOf(server, "/q") == "count=3,bytes=10");

  server.enforces_quota = false;
  CHECK(Error(&server, MakeCreate("/q/d", "1")) == ErrorCode::kOk);
  CHECK(server.listener().excesses == Strings{"/q hard count 4 > 3", "/q hard bytes 11 > 10"});
  server.enforces_quota = true;
  CHECK(Error(&server, MakeSetData("/q/d", "")) == ErrorCode::kOk);
  CHECK(Error(&server, MakeDelete("/q/d")) == ErrorCode::kOk);
  CHECK(server.listener().excesses.empty());
}

TEST_CASE("an exceeded soft limit is reported") {
  Server server;
  server.OpenSession();
  server.Do(MakeCreate("/q"));
  SetQuota(&server, "/q", "count=1,bytes=-1");
  server.enforces_quota = true;
  CHECK(Error(&server, MakeCreate("/q/a", "12")) == ErrorCode::kOk);
  CHECK(server.listener().excesses == Strings{"/q soft count 2 > 1"});
  server.Do(MakeSetData(QuotaNodePath("/q", kLimitsName), "count=-1,bytes=2"));
  server.Do(MakeSetData("/q/a", "34"));
  CHECK(server.listener().excesses.empty());
  server.Do(MakeSetData("/q/a", "345"));
  CHECK(server.listener().excesses == Strings{"/q soft bytes 3 > 2"});
  // Only the server that proposed the command is notified.
  server.self = Proposer{2, 7};
  std::string command;
  AppendRequest(server.Next(kSession, server.AttachZxid()),
                Request{false, {MakeSetData("/q/a", "3456")}, {}}, &command);
  server.ApplyBytes(command);
  CHECK(StatsOf(server, "/q") == "count=2,bytes=4");
  CHECK(server.listener().excesses.empty());
}

}  // namespace
}  // namespace quorate::tree
