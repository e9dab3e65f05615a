// SPDX-License-Identifier: Apache-2.0

// Which requests of native clients are counted and recorded, and where their time went.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/grpc/native/testing/fixture.h"
#include "rpc/proto/quorate/v1/lock.pb.h"

namespace quorate::rpc::native {
namespace {

// A mark at this position counts for all commands of a test.
constexpr uint64_t kAll = 1000;

struct SlowFixture : Fixture {
  SlowFixture() { Change(CreateOp("/a", "1")); }
  // Applies what was submitted, after marks of a leader at these times after one another.
  void ApplyAsLeader(int64_t sent_ms, int64_t durable_ms, int64_t committed_ms,
                     int64_t applied_ms) {
    transport.RunIterations();
    clock.Advance(sent_ms);
    service.marks().sent.Add(kAll, clock.Now(), /*leads=*/true);
    clock.Advance(durable_ms);
    service.marks().durable.Add(kAll, clock.Now());
    clock.Advance(committed_ms);
    service.marks().committed.Add(kAll, clock.Now());
    clock.Advance(applied_ms);
    service.marks().applied.Add(kAll, clock.Now());
    service.Apply(listener);
  }
  uint32_t BeginCall(Method method, const google::protobuf::MessageLite& request) {
    const uint32_t call = transport.Open(method, Digests({}));
    transport.Write(call, request.SerializeAsString());
    return call;
  }
  std::vector<SlowRequest> Slow() { return service.slow_requests().Last(SIZE_MAX); }
  int64_t StageCount(RequestStage stage) {
    return service.requests().SumStages()[static_cast<size_t>(stage)].count();
  }
  LatencyHistogram LatencyOf(std::string_view operation) {
    for (const auto& [name, latency] : service.requests().SumOperations()) {
      if (name == operation) return latency;
    }
    FAIL("no such operation");
    return {};
  }
};

v1::SetRequest SetCall(const std::string& path) {
  v1::SetRequest request;
  *request.mutable_set() = SetOp(path, "2").set();
  return request;
}

TEST_CASE("a slow write of a call is recorded with its path, its client and its stages") {
  SlowFixture f;
  f.BeginCall(Method::kSet, SetCall("/a"));
  f.ApplyAsLeader(2, 300, 5, 3);
  f.clock.Advance(1);
  f.Settle();
  REQUIRE(f.Slow().size() == 1);
  const SlowRequest slow = f.Slow()[0];
  CHECK(slow.operation == "grpc.set");
  CHECK(slow.path == "/a");
  CHECK(slow.client == "10.0.0.1");
  CHECK(slow.session == 0);
  CHECK(slow.zxid == f.zxid());
  CHECK(slow.answered_ms == f.clock.WallMs());
  CHECK(slow.us == 311'000);
  CHECK(slow.stages.us(RequestStage::kQueue) == 2000);
  CHECK(slow.stages.us(RequestStage::kLogWrite) == 300'000);
  CHECK(slow.stages.us(RequestStage::kCommit) == 5000);
  CHECK(slow.stages.us(RequestStage::kApply) == 3000);
  CHECK(slow.stages.us(RequestStage::kAnswer) == 1000);
  CHECK(f.LatencyOf("grpc.set").sum_us == 311'000);
  CHECK(f.LatencyOf("grpc.create").count() == 1);
}

TEST_CASE("a slow write of a session is recorded with its session and its stages") {
  SlowFixture f;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  f.Send(tag, MessageOf({WriteRequest(1, 1, {SetOp("/a", "2")}),
                         WriteRequest(2, 2, {CreateOp("/b"), SetOp("/a", "3")})}));
  f.ApplyAsLeader(0, 150, 0, 0);
  f.Settle();
  CHECK(f.Received(tag).items_size() == 2);
  REQUIRE(f.Slow().size() == 2);
  CHECK(f.Slow()[0].operation == "grpc.set");
  CHECK(f.Slow()[0].path == "/a");
  CHECK(f.Slow()[0].session == opened.session_id());
  CHECK(f.Slow()[0].stages.us(RequestStage::kLogWrite) == 150'000);
  CHECK(f.Slow()[1].operation == "grpc.txn");
  CHECK(f.Slow()[1].path == "/b");
  CHECK(f.Slow()[1].zxid == f.zxid());
  CHECK(f.StageCount(RequestStage::kLogWrite) == 2);
}

TEST_CASE("a read that waited for a slow write of its session was in the queue") {
  SlowFixture f;
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({WriteRequest(1, 1, {SetOp("/a", "2")}), GetRequestOf(2, "/a")}));
  f.ApplyAsLeader(0, 150, 0, 0);
  f.Settle();
  REQUIRE(f.Slow().size() == 2);
  const SlowRequest read = f.Slow()[1];
  CHECK(read.operation == "grpc.get");
  CHECK(read.path == "/a");
  CHECK(read.zxid == 0);
  CHECK(read.us == 150'000);
  CHECK(read.stages.us(RequestStage::kQueue) == 150'000);
  CHECK(read.stages.us(RequestStage::kAnswer) == -1);
}

TEST_CASE("linearizable reads of calls and sessions wait for a barrier") {
  SlowFixture f;
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({GetRequestOf(1, "/a", /*linearizable=*/true)}));
  v1::GetRequest request;
  request.set_path("/missing");
  request.mutable_options()->set_linearizable(true);
  const uint32_t call = f.BeginCall(Method::kGet, request);
  f.transport.RunIterations();
  f.clock.Advance(200);
  f.Settle();
  CHECK(f.CodeOf(call) == absl::StatusCode::kNotFound);
  REQUIRE(f.Slow().size() == 2);
  for (const SlowRequest& read : f.Slow()) {
    CHECK(read.operation == "grpc.get");
    CHECK(read.stages.us(RequestStage::kBarrier) == 200'000);
    CHECK(read.stages.us(RequestStage::kQueue) == -1);
  }
  // The requests are counted, whether they have failed or not.
  CHECK(f.LatencyOf("grpc.get").count() == 2);
}

TEST_CASE("fast requests are counted and not recorded, and bad ones are neither") {
  SlowFixture f;
  const auto now = [&] { return f.clock.Now(); };
  const auto before = f.service.requests().SumRecent(std::chrono::minutes(1), now());
  const uint32_t tag = f.OpenSession();
  CHECK(f.CallOne(tag, GetRequestOf(1, "/a")).get().data() == "1");
  v1::GetRequest request;
  request.set_path("/a");
  v1::GetResponse response;
  REQUIRE(f.Unary(Method::kGet, request, &response).ok());
  f.transport.Write(f.transport.Open(Method::kGet, Fixture::Digests({})), "\xff\xff");
  f.Settle();
  f.CallOne(tag, WriteRequest(2, 1, {SetOp("/a", "2")}));
  const auto after = f.service.requests().SumRecent(std::chrono::minutes(1), now());
  CHECK(after.reads.count() - before.reads.count() == 2);
  CHECK(after.writes.count() - before.writes.count() == 1);
  CHECK(f.LatencyOf("grpc.get").count() == 2);
  CHECK(f.Slow().empty());
  CHECK(f.service.slow_requests().counts().empty());
}

TEST_CASE("slow requests whose client has gone are only counted") {
  SlowFixture f;
  const uint32_t tag = f.OpenSession();
  f.Send(tag, MessageOf({WriteRequest(1, 1, {SetOp("/a", "2")})}));
  const uint32_t call = f.BeginCall(Method::kSet, SetCall("/a"));
  f.transport.RunIterations();
  f.clock.Advance(300);
  f.transport.Cancel(tag);
  f.transport.Cancel(call);
  f.Settle();
  CHECK(f.Slow().empty());
  CHECK(f.service.slow_requests().counts() == std::map<std::string_view, int64_t>{{"grpc.set", 2}});
  CHECK(f.service.slow_requests().not_kept() == 2);
}

TEST_CASE("a write that waits for its place among the responses does not keep its batch") {
  SlowFixture f;
  const uint32_t tag = f.OpenSession();
  v1::Request sync;
  sync.set_id(1);
  sync.mutable_sync();
  f.Send(tag, MessageOf({sync, WriteRequest(2, 1, {SetOp("/a", "2")})}));
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  const std::weak_ptr<const std::string> batch = f.service.batches[0].bytes;
  f.clock.Advance(150);
  f.service.Apply(f.listener);
  f.transport.RunIterations();
  CHECK(f.Received(tag).items_size() == 0);
  CHECK(batch.expired());
  f.Settle();
  CHECK(f.Received(tag).items_size() == 2);
  REQUIRE(f.Slow().size() == 2);
  CHECK(f.Slow()[1].operation == "grpc.set");
  CHECK(f.Slow()[1].path == "/a");
}

TEST_CASE("the write of a client that does not read does not keep its batch") {
  SlowFixture f;
  f.Change(SetOp("/a", std::string(900'000, 'x')));
  const uint32_t tag = f.OpenSession();
  f.transport.SetReads(tag, false);
  f.CallOne(tag, GetRequestOf(1, "/missing"));  // is the message that the client does not take
  std::vector<v1::Request> requests;
  for (uint64_t i = 2; i <= 6; ++i) requests.push_back(GetRequestOf(i, "/a"));
  requests.push_back(WriteRequest(7, 1, {CreateOp("/b")}));
  f.Send(tag, MessageOf(requests));
  f.transport.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  const std::weak_ptr<const std::string> batch = f.service.batches[0].bytes;
  f.Settle();
  CHECK(f.Received(tag).items_size() == 0);
  CHECK(batch.expired());
}

TEST_CASE("a long list counts with the time of all its pieces") {
  SlowFixture f;
  f.Change(CreateOp("/p"));
  constexpr size_t kMany = 3 * kNodesPerHold;
  for (size_t made = 0; made < kMany;) {
    v1::TxnRequest children;
    for (int i = 0; i < 1000 && made < kMany; ++i, ++made) {
      *children.add_operations() = CreateOp("/p/" + std::to_string(made));
    }
    v1::TxnResponse response;
    REQUIRE(f.Unary(Method::kTxn, children, &response).ok());
  }
  v1::ListRequest request;
  request.set_path("/p");
  request.set_with_data(true);
  const uint32_t call = f.BeginCall(Method::kList, request);
  // Nothing comes in between the pieces.
  int pieces = 0;
  for (; !f.transport.outcome(call).has_value(); ++pieces) {
    REQUIRE(f.transport.RunIteration());
    f.clock.Advance(50);
  }
  REQUIRE(pieces > 3);
  REQUIRE(f.Slow().size() == 1);
  CHECK(f.Slow()[0].operation == "grpc.list");
  CHECK(f.Slow()[0].us == (pieces - 1) * 50'000);
}

TEST_CASE("the time of a contender's call begins with its message") {
  SlowFixture f;
  const auto begin = [&](const std::string& message) {
    const uint32_t call = f.transport.Open(Method::kRelease, Fixture::Digests({}));
    f.transport.RunIterations();
    f.clock.Advance(500);
    f.transport.Write(call, message);
    f.Settle();
    REQUIRE(f.transport.outcome(call).has_value());
  };
  begin("\xff\xff");
  CHECK(f.LatencyOf("grpc.release").count() == 0);
  v1::ReleaseRequest request;
  request.mutable_contender()->set_path("/");
  begin(request.SerializeAsString());
  CHECK(f.LatencyOf("grpc.release").count() == 1);
  CHECK(f.LatencyOf("grpc.release").sum_us == 0);
  CHECK(f.Slow().empty());
  CHECK(f.service.slow_requests().counts().empty());
}

TEST_CASE("requests that are not admitted are not counted") {
  Config config = TestConfig();
  config.required_auth_schemes = {"digest"};
  Fixture f(config);
  v1::ReleaseRequest release;
  release.mutable_contender()->set_path("/q");
  v1::ReleaseResponse released;
  const auto code = [](const absl::Status& status) { return DetailOf(status).code(); };
  CHECK(code(f.Unary(Method::kRelease, release, &released)) == v1::ERROR_CODE_AUTH_FAILED);
  v1::GetRequest get;
  get.set_path("/a");
  v1::GetResponse got;
  CHECK(code(f.Unary(Method::kGet, get, &got)) == v1::ERROR_CODE_AUTH_FAILED);
  v1::SetResponse set;
  CHECK(code(f.Unary(Method::kSet, SetCall("/a"), &set)) == v1::ERROR_CODE_AUTH_FAILED);
  const auto all = f.service.requests().SumRecent(std::chrono::minutes(1), f.clock.Now());
  CHECK(all.reads.count() + all.writes.count() == 0);
  CHECK(f.service.requests().Top(RequestKey::kOperation, f.clock.Now(), 10).empty());
}

TEST_CASE("the clients, paths and operations of native requests are counted") {
  SlowFixture f;
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  for (uint64_t i = 0; i < 20; ++i) f.CallOne(tag, GetRequestOf(i, "/x/y/z"));
  v1::GetRequest request;
  request.set_path("/a");
  v1::GetResponse response;
  REQUIRE(f.Unary(Method::kGet, request, &response, Fixture::Digests({"ann:secret"})).ok());
  const auto top = [&](RequestKey key) { return f.service.requests().Top(key, f.clock.Now(), 10); };
  CHECK(top(RequestKey::kClient)[0].session == opened.session_id());
  CHECK(top(RequestKey::kClient)[0].count == 20);
  CHECK(top(RequestKey::kPath)[0].text == "/x/y");
  CHECK(top(RequestKey::kPath)[0].count == 20);
  CHECK(top(RequestKey::kOperation)[0].text == "grpc.get");
  CHECK(top(RequestKey::kOperation)[0].count == 21);
  // Two users of one name with different passwords are two entries, and neither shows the password's hash.
  REQUIRE(f.Unary(Method::kGet, request, &response, Fixture::Digests({"ann:other"})).ok());
  REQUIRE(f.Unary(Method::kGet, request, &response, Fixture::Digests({"ann:secret"})).ok());
  const std::vector<TopEntry> identities = top(RequestKey::kIdentity);
  REQUIRE(identities.size() == 2);
  CHECK(identities[0].count == 2);
  CHECK(identities[1].count == 1);
  for (const TopEntry& identity : identities) {
    CHECK(identity.text.starts_with("digest:ann#"));
    CHECK(identity.text.size() == std::string_view("digest:ann#0000").size());
  }
}

}  // namespace
}  // namespace quorate::rpc::native
