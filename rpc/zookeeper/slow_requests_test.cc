// SPDX-License-Identifier: Apache-2.0

// Which requests of ZooKeeper clients are recorded as slow, and where their time went.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

// A mark at this position counts for all commands of a test.
constexpr uint64_t kAll = 1000;

struct SlowFixture : Fixture {
  explicit SlowFixture(Config c = TestConfig()) : Fixture(std::move(c)) {
    tag = ConnectSession(&session);
    Call(tag, OpCode::kCreate, Create("/a", "1"));
  }
  // Applies what was submitted, after marks of a leader at these times after one another.
  void ApplyAsLeader(int64_t sent_ms, int64_t durable_ms, int64_t committed_ms,
                     int64_t applied_ms) {
    sockets.RunIterations();
    clock.Advance(sent_ms);
    service.marks().sent.Add(kAll, clock.Now(), /*leads=*/true);
    clock.Advance(durable_ms);
    service.marks().durable.Add(kAll, clock.Now());
    clock.Advance(committed_ms);
    service.marks().committed.Add(kAll, clock.Now());
    clock.Advance(applied_ms);
    service.marks().applied.Add(kAll, clock.Now());
    service.Apply(&frontends);
  }
  std::vector<SlowRequest> Slow() { return service.slow_requests().Last(SIZE_MAX); }
  int64_t CountOf(RequestStage stage) {
    return frontend.statistics().SumStages()[static_cast<size_t>(stage)].count();
  }

  ConnectResponse session;
  uint32_t tag = 0;
};

TEST_CASE("a slow write is recorded with its path, its client and its stages") {
  SlowFixture f;
  f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.ApplyAsLeader(2, 300, 5, 3);
  f.clock.Advance(1);
  f.Settle();
  const Packet reply = f.Next(f.tag);
  CHECK(reply.error == tree::ErrorCode::kOk);
  REQUIRE(f.Slow().size() == 1);
  const SlowRequest slow = f.Slow()[0];
  CHECK(slow.operation == "setData");
  CHECK(slow.path == "/a");
  CHECK(slow.client == "10.0.0.1:7000");
  CHECK(slow.session == f.session.session_id);
  CHECK(slow.zxid == reply.zxid);
  CHECK(slow.answered_ms == f.clock.WallMs());
  CHECK(slow.us == 311'000);
  CHECK(slow.stages.us(RequestStage::kQueue) == 2000);
  CHECK(slow.stages.us(RequestStage::kLogWrite) == 300'000);
  CHECK(slow.stages.us(RequestStage::kCommit) == 5000);
  CHECK(slow.stages.us(RequestStage::kApply) == 3000);
  CHECK(slow.stages.us(RequestStage::kAnswer) == 1000);
  CHECK(slow.stages.longest() == RequestStage::kLogWrite);
  CHECK(f.service.slow_requests().counts() == std::map<std::string_view, int64_t>{{"setData", 1}});
}

TEST_CASE("the stages of fast writes are counted, and the writes are not recorded") {
  SlowFixture f;
  const int64_t before = f.CountOf(RequestStage::kAnswer);
  f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.ApplyAsLeader(1, 90, 5, 3);  // 1 ms less than the threshold
  f.Settle();
  CHECK(f.Slow().empty());
  CHECK(f.service.slow_requests().counts().empty());
  CHECK(f.CountOf(RequestStage::kLogWrite) == 1);
  CHECK(f.CountOf(RequestStage::kAnswer) == before + 1);
  StageHistograms recent =
      f.frontend.statistics().SumRecentStages(std::chrono::minutes(1), f.clock.Now());
  CHECK(recent[static_cast<size_t>(RequestStage::kLogWrite)].sum_us == 90'000);
}

TEST_CASE("a multi has the path of its first operation, and the end of a session has none") {
  SlowFixture f;
  f.Write(f.tag, 5, OpCode::kMulti,
          Multi({{OpCode::kCreate, Create("/b", "")}, {OpCode::kSetData, SetData("/a", "2")}}));
  f.Write(f.tag, 6, OpCode::kCloseSession, "");
  f.ApplyAsLeader(200, 0, 0, 0);
  f.Settle();
  REQUIRE(f.Slow().size() == 2);
  CHECK(f.Slow()[0].operation == "multi");
  CHECK(f.Slow()[0].path == "/b");
  CHECK(f.Slow()[1].operation == "closeSession");
  CHECK(f.Slow()[1].path.empty());
  CHECK(f.Slow()[1].zxid == f.Slow()[0].zxid + 1);
}

TEST_CASE("a read that waited for a slow write was in the queue") {
  SlowFixture f;
  f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.Write(f.tag, 6, OpCode::kGetData, PathAndWatch("/a", false));
  f.ApplyAsLeader(0, 150, 0, 0);
  f.Settle();
  REQUIRE(f.Slow().size() == 2);
  const SlowRequest read = f.Slow()[1];
  CHECK(read.operation == "getData");
  CHECK(read.path == "/a");
  CHECK(read.zxid == 0);
  CHECK(read.stages.us(RequestStage::kQueue) == 150'000);
  CHECK(read.stages.us(RequestStage::kAnswer) == -1);
}

TEST_CASE("a slow sync waited for its barrier") {
  SlowFixture f;
  f.Write(f.tag, 5, OpCode::kSync, Path("/a"));
  f.sockets.RunIterations();
  f.clock.Advance(120);
  f.EndBarrier(1);
  REQUIRE(f.Slow().size() == 1);
  CHECK(f.Slow()[0].operation == "sync");
  CHECK(f.Slow()[0].stages.us(RequestStage::kBarrier) == 120'000);
}

TEST_CASE("a linearizable read waited for its barrier only if it waited for nothing else") {
  Config config = TestConfig();
  config.linearizable_reads = true;
  SlowFixture f(config);
  const bool is_behind_write = GENERATE(true, false);
  if (is_behind_write) f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.Write(f.tag, 6, OpCode::kGetData, PathAndWatch("/a", false));
  if (is_behind_write) {
    f.ApplyAsLeader(0, 150, 0, 0);
  } else {
    f.sockets.RunIterations();
    f.clock.Advance(150);
  }
  f.EndBarrier(1);
  REQUIRE(f.Slow().size() == (is_behind_write ? 2 : 1));
  const SlowRequest read = f.Slow().back();
  CHECK(read.operation == "getData");
  CHECK(read.stages.us(RequestStage::kQueue) == (is_behind_write ? 150'000 : -1));
  CHECK(read.stages.us(RequestStage::kBarrier) == (is_behind_write ? -1 : 150'000));
}

TEST_CASE("a reconfig behind a slow write was in the queue") {
  SlowFixture f;
  f.service.holds_reconfigurations = true;
  const std::string change =
      Path("server.4=d:1:2;3") + std::string(4, '\xff') + Path("") + std::string(8, '\0');
  const bool is_behind_write = GENERATE(true, false);
  if (is_behind_write) f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.Write(f.tag, 6, OpCode::kReconfig, change);
  f.ApplyAsLeader(0, 150, 0, 0);
  f.Settle();
  REQUIRE(f.service.reconfigurations.size() == 1);
  f.service.reconfigurations[0].second({true, tree::ErrorCode::kReconfigInProgress, tree::Zxid(0)});
  f.Settle();
  const SlowRequest reconfig = f.Slow().back();
  REQUIRE(reconfig.operation == "reconfig");
  CHECK(reconfig.stages.us(RequestStage::kQueue) == (is_behind_write ? 150'000 : -1));
  CHECK(reconfig.stages.us(RequestStage::kCommit) == (is_behind_write ? -1 : 150'000));
}

TEST_CASE("the path of a read is that in the tree, and a long one says how long it is") {
  SlowFixture f;
  const std::string long_path = "/" + std::string(400, 'p');
  const std::string shown = long_path.substr(0, SlowRequests::kPathBytesMax) + "...(401 bytes)";
  SECTION("of a client with the chroot of linearizable reads") {
    const uint32_t tag = f.ConnectSession();
    f.Write(tag, 5, OpCode::kGetData, PathAndWatch("/@linearizable/a", false));
    f.sockets.RunIterations();
    f.clock.Advance(150);
    f.EndBarrier(1);
    REQUIRE(f.Slow().size() == 1);
    CHECK(f.Slow()[0].path == "/a");
  }
  SECTION("of a read that waited") {
    f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
    f.Write(f.tag, 6, OpCode::kExists, PathAndWatch(long_path, false));
    f.ApplyAsLeader(0, 150, 0, 0);
    f.Settle();
    REQUIRE(f.Slow().size() == 2);
    CHECK(f.Slow()[1].path == shown);
  }
  SECTION("of a read of several pieces") {
    f.Call(f.tag, OpCode::kCreate, Create(long_path, ""));
    for (int begin = 0; begin < 30; ++begin) {
      std::string multi;
      BigEndianWriter to(&multi);
      for (int i = 0; i < 1000; ++i) {
        WriteMultiResultHeader(OpCode::kCreate, to);
        to.Raw(Create(long_path + "/" + std::to_string(1000 * begin + i), ""));
      }
      WriteMultiEnd(to);
      REQUIRE(f.Call(f.tag, OpCode::kMulti, multi).error == tree::ErrorCode::kOk);
    }
    f.Write(f.tag, 6, OpCode::kGetChildren, PathAndWatch(long_path, false));
    for (int i = 0; i < 2; ++i) REQUIRE(f.sockets.RunIteration());
    REQUIRE(f.sockets.received(f.tag).empty());
    f.clock.Advance(150);
    f.Settle();
    REQUIRE(f.Slow().size() == 1);
    CHECK(f.Slow()[0].path == shown);
    CHECK(f.Slow()[0].stages.us(RequestStage::kRead) == 150'000);
  }
}

TEST_CASE("the wait for the lock of the tree counts") {
  SlowFixture f;
  std::thread holder = f.service.HoldTree([&](const auto& wait_for_reader) {
    wait_for_reader();
    f.clock.Advance(150);
  });
  f.Write(f.tag, 5, OpCode::kGetData, PathAndWatch("/a", false));
  f.sockets.RunIterations();
  holder.join();
  REQUIRE(f.Slow().size() == 1);
  CHECK(f.Slow()[0].operation == "getData");
  CHECK(f.Slow()[0].path == "/a");
  CHECK(f.Slow()[0].us == 150'000);
  CHECK(f.Slow()[0].stages.us(RequestStage::kQueue) == 150'000);
}

TEST_CASE("slow requests whose client is gone before the answer are counted, once") {
  SlowFixture f;
  f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.Write(f.tag, 6, OpCode::kGetData, PathAndWatch("/a", false));
  f.sockets.RunIterations();
  f.clock.Advance(120);
  f.Write(f.tag, 7, OpCode::kSetData, SetData("/a", "3"));  // not slow
  f.sockets.RunIterations();
  f.sockets.HangUp(f.tag);
  f.clock.Advance(120);
  f.Settle();
  const std::map<std::string_view, int64_t> counts = {{"getData", 1}, {"setData", 1}};
  CHECK(f.service.slow_requests().counts() == counts);
  CHECK(f.service.slow_requests().not_kept() == 2);
  CHECK(f.Slow().empty());
}

TEST_CASE("the threshold is configured, and 0 records nothing") {
  const int threshold_ms = GENERATE(10, 0);
  Config config = TestConfig();
  config.slow_request_threshold_ms = threshold_ms;
  SlowFixture f(config);
  f.Write(f.tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.ApplyAsLeader(0, 10, 0, 0);
  f.Settle();
  CHECK(f.Slow().size() == (threshold_ms == 0 ? 0 : 1));
}

}  // namespace
}  // namespace quorate::rpc::zk
