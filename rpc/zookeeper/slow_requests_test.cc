// SPDX-License-Identifier: Apache-2.0

// Which requests of ZooKeeper clients are recorded as slow, and where their time went.
#include <catch2/catch.hpp>
#include <string>

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
