// SPDX-License-Identifier: Apache-2.0

// The limits of tenants, as streams and calls of gRPC clients keep them.
#include <catch2/catch.hpp>
#include <string>

#include "rpc/frontend/tenant_limits.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/testing/fixture.h"

namespace quorate::rpc::native {
namespace {

// A configuration without limits, except for one.
Config With(int Config::*limit, int max) {
  Config config = TestConfig();
  config.max_client_connections = 0;
  config.connections_per_identity_max = 0;
  config.new_sessions_per_second_max = 0;
  config.requests_per_second_max = 0;
  config.outstanding_requests_max = 0;
  config.outstanding_bytes_max = 0;
  config.watches_max = 0;
  config.ephemerals_max = 0;
  config.*limit = max;
  return config;
}

v1::GetRequest GetRoot() {
  v1::GetRequest request;
  request.set_path("/");
  return request;
}

absl::StatusCode CodeOfGet(Fixture* f, const std::string& secret = "") {
  v1::GetResponse response;
  const CallerProof proof = Fixture::Digests(secret.empty() ? std::vector<std::string>()
                                                            : std::vector<std::string>{secret});
  return f->Unary(Method::kGet, GetRoot(), &response, proof).code();
}

TEST_CASE("calls above the rate are refused with RESOURCE_EXHAUSTED, and a reason") {
  Fixture f(With(&Config::requests_per_second_max, 3));
  for (int i = 0; i < 3; ++i) CHECK(CodeOfGet(&f) == absl::StatusCode::kOk);
  v1::GetResponse response;
  const absl::Status refused = f.Unary(Method::kGet, GetRoot(), &response);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.message()).find("limits.requestsPerSecond") != std::string::npos);
  CHECK(DetailOf(refused).code() == v1::ERROR_CODE_TOO_MANY_STREAMS);
  CHECK(f.service.tenants().reached(Limit::kRequests) == 1);
  f.Pass(400);
  CHECK(CodeOfGet(&f) == absl::StatusCode::kOk);
}

TEST_CASE("requests of a session above the rate wait, and none is lost") {
  Fixture f(With(&Config::requests_per_second_max, 20));
  const uint32_t tag = f.OpenSession();
  std::vector<v1::Request> requests;
  for (uint64_t id = 1; id <= 50; ++id) requests.push_back(GetRequestOf(id, "/"));
  int answered = f.Call(tag, requests).items_size();
  CHECK(answered == 20);
  for (int i = 0; i < 100 && answered < 50; ++i) {
    f.Pass(50);
    answered += f.Received(tag).items_size();
    CHECK(answered <= 20 + i + 3);
  }
  CHECK(answered == 50);
  CHECK_FALSE(f.transport.outcome(tag).has_value());
}

TEST_CASE("calls count as outstanding requests until they are answered") {
  Fixture f(With(&Config::outstanding_requests_max, 2));
  v1::GetRequest get = GetRoot();
  get.mutable_options()->set_linearizable(true);
  std::vector<uint32_t> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(f.transport.Open(Method::kGet));
    f.transport.Write(waiting.back(), get.SerializeAsString());
    f.transport.RunIterations();
  }
  const uint32_t refused = f.transport.Open(Method::kGet);
  f.transport.Write(refused, get.SerializeAsString());
  f.transport.RunIterations();
  CHECK(f.CodeOf(refused) == absl::StatusCode::kResourceExhausted);
  f.Settle();
  for (const uint32_t tag : waiting) CHECK(f.CodeOf(tag) == absl::StatusCode::kOk);
  CHECK(CodeOfGet(&f) == absl::StatusCode::kOk);
}

TEST_CASE("new sessions above the rate wait for a while, and are refused then") {
  Fixture f(With(&Config::new_sessions_per_second_max, 1));
  v1::SessionOpened opened;
  const uint32_t first = f.OpenSession(&opened);
  CHECK_FALSE(f.transport.outcome(first).has_value());
  const uint32_t waits = f.transport.Open(Method::kSession);
  f.Send(waits, OpenMessage());
  const uint32_t third = f.transport.Open(Method::kSession);
  f.Send(third, OpenMessage());
  const uint32_t fourth = f.transport.Open(Method::kSession);
  f.Send(fourth, OpenMessage());
  f.Settle();
  CHECK_FALSE(f.Received(waits).has_opened());
  f.Pass(1000);
  CHECK(f.Received(waits).has_opened());
  f.Pass(999);
  f.Pass(1);
  f.Pass(1);
  CHECK(f.Received(third).has_opened());
  CHECK(f.CodeOf(fourth) == absl::StatusCode::kResourceExhausted);
  // A session that comes back does not wait.
  f.OpenSession(&opened, opened.session_id());
}

TEST_CASE("an identity has a limit of streams, and calls do not count") {
  Fixture f(With(&Config::connections_per_identity_max, 1));
  std::string secret = "app:password";
  const auto open_session = [&] {
    const uint32_t tag = f.transport.Open(Method::kSession, Fixture::Digests({secret}));
    f.Send(tag, OpenMessage());
    f.Settle();
    return tag;
  };
  const uint32_t one = open_session();
  CHECK(f.Received(one).has_opened());
  CHECK(f.CodeOf(open_session()) == absl::StatusCode::kResourceExhausted);
  CHECK(CodeOfGet(&f, "app:password") == absl::StatusCode::kOk);
  secret = "other:password";
  CHECK(f.Received(open_session()).has_opened());
}

TEST_CASE("nothing of a message is done behind a credential that ends the stream by a limit") {
  Fixture f(With(&Config::connections_per_identity_max, 1));
  v1::Request authenticate;
  authenticate.set_id(1);
  authenticate.mutable_add_credential()->set_scheme("digest");
  authenticate.mutable_add_credential()->set_secret("app:password");
  const uint32_t one = f.OpenSession();
  CHECK(f.CallOne(one, authenticate).error() == v1::ERROR_CODE_UNSPECIFIED);
  const uint32_t two = f.OpenSession();
  f.Call(two, {authenticate, WriteRequest(2, 1, {CreateOp("/x", "", v1::CREATE_MODE_PERSISTENT)})});
  f.Settle();
  CHECK(f.CodeOf(two) == absl::StatusCode::kResourceExhausted);
  tree::Stat stat;
  CHECK_FALSE(f.service.ReadTree()->FindStat("/x", &stat));
}

TEST_CASE("watches above the limit are refused, and make room when they end") {
  Fixture f(With(&Config::watches_max, 2));
  const uint32_t tag = f.OpenSession();
  CHECK(f.CallOne(tag, WatchRequestOf(1, 1, "/a", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WatchRequestOf(2, 2, "/b", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WatchRequestOf(3, 3, "/c", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_TOO_LARGE);
  CHECK(f.service.tenants().reached(Limit::kWatches) == 1);
  v1::Request unwatch;
  unwatch.set_id(4);
  unwatch.mutable_unwatch()->set_watch_id(1);
  CHECK(f.CallOne(tag, unwatch).error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(f.CallOne(tag, WatchRequestOf(5, 3, "/c", v1::WATCH_SCOPE_NODE)).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
}

TEST_CASE("ephemerals above the limit are refused with QUOTA_EXCEEDED") {
  Fixture f(With(&Config::ephemerals_max, 2));
  v1::SessionOpened opened;
  const uint32_t tag = f.OpenSession(&opened);
  const auto create = [&](uint32_t of, uint64_t sequence, const std::string& path) {
    return f
        .CallOne(of,
                 WriteRequest(sequence, sequence, {CreateOp(path, "", v1::CREATE_MODE_EPHEMERAL)}))
        .error();
  };
  CHECK(create(tag, 1, "/1") == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(create(tag, 2, "/2") == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(create(tag, 3, "/3") == v1::ERROR_CODE_QUOTA_EXCEEDED);
  CHECK(f.CallOne(tag, WriteRequest(4, 4, {DeleteOp("/1")})).error() == v1::ERROR_CODE_UNSPECIFIED);
  CHECK(create(tag, 5, "/3") == v1::ERROR_CODE_UNSPECIFIED);
  // The ephemerals count while the session has no stream.
  f.transport.Cancel(tag);
  f.Settle();
  const uint32_t other = f.OpenSession();
  CHECK(create(other, 1, "/4") == v1::ERROR_CODE_QUOTA_EXCEEDED);
  const uint32_t back = f.OpenSession(&opened, opened.session_id());
  CHECK(f.CallOne(back, WriteRequest(6, 6, {DeleteOp("/2")})).error() ==
        v1::ERROR_CODE_UNSPECIFIED);
  CHECK(create(other, 2, "/4") == v1::ERROR_CODE_UNSPECIFIED);
}

}  // namespace
}  // namespace quorate::rpc::native
