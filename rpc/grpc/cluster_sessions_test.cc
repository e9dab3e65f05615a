// SPDX-License-Identifier: Apache-2.0

// The calls of ClusterService about sessions, over gRPC.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/grpc/cluster_service.h"
#include "rpc/grpc/grpc_server.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/times.h"

namespace quorate::rpc {
namespace {

// Applies each batch when it is submitted, unless the test holds them back.
class ApplyingService final : public FakeService {
 public:
  ApplyingService() { current.leader_known = current.in_touch = true; }

  void Submit(CommandBatch batch) override {
    FakeService::Submit(std::move(batch));
    if (applies) Apply(&closer);
  }

  tree::Proposer proposer() const override { return {member, incarnation}; }

  bool applies = true;
  uint16_t member = 3;
  SessionCloser closer{this, kCloserTags};
};

class Fixture {
 public:
  Fixture()
      : administrators(config, &clock),
        cluster_(config, &service, nullptr, &administrators, nullptr, &clock) {
    cluster_.SetAudit(audit.log());
    cluster_.SetSessionCloser(&service.closer);
    REQUIRE(server
                .Start({.address = "127.0.0.1:0"},
                       {{v1::ClusterService::service_full_name(), &cluster_}})
                .ok());
    channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(server.port()),
                                  grpc::InsecureChannelCredentials());
    stub = v1::ClusterService::NewStub(channel);
  }
  ~Fixture() { server.Stop(); }

  // Creates a session that is attached to this member, with ephemerals at these paths.
  void Create(int64_t id, const std::vector<std::string>& paths = {}) {
    CommandBatch batch;
    const auto add = [&](tree::CommandHeader header, auto append) {
      header.proposer = service.proposer();
      header.proposer_tag = kCloserTags.first;
      header.session = tree::SessionId(id);
      const size_t offset = batch.bytes->size();
      append(header);
      batch.commands.push_back({offset, batch.bytes->size() - offset});
    };
    tree::CommandHeader create;
    create.kind = tree::CommandKind::kCreateSession;
    add(create, [&](const tree::CommandHeader& header) {
      tree::AppendCreateSession(header, 4000, std::string(tree::kPasswordBytes, 'p'),
                                batch.bytes.get());
    });
    service.Submit(std::move(batch));
    tree::SessionInfo info;
    REQUIRE(service.ReadTree()->FindSession(tree::SessionId(id), &info));
    batch = CommandBatch{};
    for (const std::string& path : paths) {
      tree::Request request;
      request.identities = {{"super", ""}};
      tree::Op& op = request.ops.emplace_back();
      op.kind = tree::OpKind::kCreate;
      op.path = path;
      op.acl = {{31, {"world", "anyone"}}};
      op.mode = tree::CreateMode::kEphemeral;
      tree::CommandHeader write;
      write.attach_zxid = info.attach_zxid;
      add(write, [&](const tree::CommandHeader& header) {
        tree::AppendRequest(header, request, batch.bytes.get());
      });
    }
    if (!batch.commands.empty()) service.Submit(std::move(batch));
  }
  v1::ListSessionsResponse List(const v1::ListSessionsRequest& request = {}) {
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    REQUIRE(stub->ListSessions(&context, request, &response).ok());
    return response;
  }
  v1::GetSessionResponse Get(int64_t id, const std::string& after_path = "") {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    request.set_id(id);
    request.set_after_path(after_path);
    v1::GetSessionResponse response;
    REQUIRE(stub->GetSession(&context, request, &response).ok());
    return response;
  }
  grpc::Status Close(int64_t id, v1::CloseSessionResponse* response) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_id(id);
    return stub->CloseSession(&context, request, response);
  }

  RecordedAudit audit;
  ManualClock clock;
  Config config;
  ApplyingService service;
  Administrators administrators;
  GrpcServer server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ClusterService::Stub> stub;

 private:
  ClusterService cluster_;
};

TEST_CASE("sessions are listed in pages, in ascending order") {
  Fixture f;
  CHECK(f.List().sessions().empty());
  // The ids of members above 127 are negative.
  std::vector<int64_t> ids = {INT64_MIN + 1, INT64_MIN + 2, -(int64_t{1} << 62)};
  for (int64_t id = 1; id <= 1200; ++id) ids.push_back(id);
  for (const int64_t id : ids) f.Create(id);
  std::vector<int64_t> listed;
  std::vector<int> pages;
  v1::ListSessionsRequest request;
  for (bool more = true; more;) {
    const v1::ListSessionsResponse page = f.List(request);
    pages.push_back(page.sessions_size());
    for (const v1::Session& session : page.sessions()) listed.push_back(session.id());
    more = page.more();
    request.set_after_id(listed.back());
  }
  CHECK(listed == ids);
  CHECK(pages == std::vector<int>{1000, 203});
  request.set_limit(5);
  request.set_after_id(ids[0]);
  const v1::ListSessionsResponse five = f.List(request);
  CHECK(five.sessions_size() == 5);
  CHECK(five.sessions(0).id() == ids[1]);
  CHECK(five.more());
  request.set_limit(4'000'000'000);
  CHECK(f.List(request).sessions_size() == 1000);
  request.set_after_id(1195);
  request.set_limit(5);
  CHECK_FALSE(f.List(request).more());
}

TEST_CASE("of the client of a session, the member that serves it knows the rest") {
  Fixture f;
  f.Create(7);
  f.Create(8);
  for (const int64_t id : {7, 9}) {
    auto client = std::make_shared<AttachedSession>();
    client->protocol = ClientProtocol::kGrpc;
    client->address = "10.0.0.1";
    client->identities = {"ip:10.0.0.1", "digest:alice"};
    client->since = f.clock.Now();
    client->watches = 5;
    f.service.attached_sessions().Attach(tree::SessionId(id), client);
  }
  f.clock.Advance(1500);
  const v1::ListSessionsResponse page = f.List();
  REQUIRE(page.sessions_size() == 2);
  CHECK(page.answered_by() == 3);
  const v1::Session& served = page.sessions(0);
  CHECK(served.member() == 3);
  CHECK(v1::ToMs(served.timeout()) == 4000);
  CHECK(served.client().protocol() == v1::CLIENT_PROTOCOL_GRPC);
  CHECK(served.client().address() == "10.0.0.1");
  CHECK(served.client().identities_size() == 2);
  CHECK(served.client().identities(1) == "digest:alice");
  CHECK(v1::ToMs(served.client().attached_for()) == 1500);
  CHECK(served.client().watches() == 5);
  CHECK(page.sessions(1).member() == 3);
  CHECK_FALSE(page.sessions(1).has_client());
  // The client is still connected to this member, but its session has moved to another one.
  f.service.member = 4;
  const v1::ListSessionsResponse other = f.List();
  CHECK(other.answered_by() == 4);
  CHECK(other.sessions(0).member() == 3);
  CHECK_FALSE(other.sessions(0).has_client());
}

TEST_CASE("a page of sessions is small enough for any client, however much it shows of each") {
  Fixture f;
  constexpr int kSessions = 1000;
  for (int id = 1; id <= kSessions; ++id) {
    f.Create(id);
    auto client = std::make_shared<AttachedSession>();
    client->identities.assign(kShownIdentitiesMax, std::string(kShownIdentityBytesMax, 'x'));
    f.service.attached_sessions().Attach(tree::SessionId(id), client);
  }
  int listed = 0;
  v1::ListSessionsRequest request;
  v1::ListSessionsResponse page;
  do {
    page = f.List(request);
    REQUIRE(page.sessions_size() > 0);
    CHECK(page.ByteSizeLong() < (size_t{4} << 20));
    for (const v1::Session& session : page.sessions()) CHECK(session.id() == ++listed);
    request.set_after_id(listed);
  } while (page.more());
  CHECK(listed == kSessions);
}

TEST_CASE("a session is shown with its ephemerals, in pages") {
  Fixture f;
  CHECK_FALSE(f.Get(7).has_session());
  std::vector<std::string> paths;
  for (int i = 0; i < 1001; ++i) paths.push_back("/e" + std::to_string(i));
  f.Create(7, paths);
  const v1::GetSessionResponse first = f.Get(7);
  CHECK(first.session().ephemerals() == 1001);
  REQUIRE(first.ephemerals_size() == 1000);
  CHECK(first.more());
  const v1::GetSessionResponse second = f.Get(7, first.ephemerals(999));
  REQUIRE(second.ephemerals_size() == 1);
  CHECK(second.ephemerals(0) == "/e1000");
  CHECK_FALSE(second.more());
  CHECK(f.Get(7, "/e1000").ephemerals().empty());

  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_id(7);
  request.set_after_path("/other");
  v1::GetSessionResponse response;
  CHECK(f.stub->GetSession(&context, request, &response).error_code() ==
        grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_CASE("a session is closed with its ephemerals, and that is recorded") {
  Fixture f;
  f.Create(7, {"/e"});
  v1::CloseSessionResponse response;
  REQUIRE(f.Close(7, &response).ok());
  CHECK(response.closed());
  CHECK_FALSE(f.Get(7).has_session());
  CHECK(f.service.ReadTree()->node_count() == tree::Tree().node_count());
  for (const int64_t id : {7, 0}) {
    REQUIRE(f.Close(id, &response).ok());
    CHECK_FALSE(response.closed());
  }
  const std::string who = "user=ip:127.0.0.1 ip=127.0.0.1 operation=closeSession detail=";
  CHECK(f.audit.Lines() == std::vector<std::string>{who + "session=0x7 result=success",
                                                    who + "session=0x7 result=failure",
                                                    who + "session=0x0 result=failure"});
}

TEST_CASE("a close whose outcome is not known says so, and one without an end can be left") {
  Fixture f;
  f.Create(7);
  f.service.applies = false;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  v1::CloseSessionRequest request;
  request.set_id(7);
  v1::CloseSessionResponse response;
  CHECK(f.stub->CloseSession(&context, request, &response).error_code() ==
        grpc::StatusCode::DEADLINE_EXCEEDED);
  f.service.ReplaceTree(&f.service.closer);
  CHECK_FALSE(f.Get(7).has_session());
  CHECK(f.audit.Lines() ==
        std::vector<std::string>{"user=ip:127.0.0.1 ip=127.0.0.1 operation=closeSession "
                                 "detail=session=0x7 result=invoked"});
}

TEST_CASE("a member that does not serve refuses to close a session, and submits nothing") {
  Fixture f;
  f.Create(7);
  f.service.current.in_touch = false;
  v1::CloseSessionResponse response;
  CHECK(f.Close(7, &response).error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(f.service.batches.empty());
  CHECK(f.Get(7).has_session());
}

TEST_CASE("only administrators learn of sessions and close them") {
  Fixture f;
  f.Create(7);
  f.config.administrator_subjects = {"CN=admin"};
  Administrators others(f.config, &f.clock);
  ClusterService cluster(f.config, &f.service, nullptr, &others, nullptr, &f.clock);
  cluster.SetSessionCloser(&f.service.closer);
  GrpcServer server;
  REQUIRE(
      server
          .Start({.address = "127.0.0.1:0"}, {{v1::ClusterService::service_full_name(), &cluster}})
          .ok());
  const auto stub = v1::ClusterService::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server.port()), grpc::InsecureChannelCredentials()));
  const auto code = [](const grpc::Status& status) {
    return v1::DetailOf(v1::FromGrpc(status))->code();
  };
  grpc::ClientContext one;
  v1::ListSessionsResponse list;
  CHECK(code(stub->ListSessions(&one, {}, &list)) == v1::ERROR_CODE_AUTH_FAILED);
  grpc::ClientContext two;
  v1::GetSessionResponse got;
  CHECK(code(stub->GetSession(&two, {}, &got)) == v1::ERROR_CODE_AUTH_FAILED);
  grpc::ClientContext three;
  v1::CloseSessionRequest request;
  request.set_id(7);
  v1::CloseSessionResponse closed;
  CHECK(code(stub->CloseSession(&three, request, &closed)) == v1::ERROR_CODE_AUTH_FAILED);
  server.Stop();
  CHECK(f.Get(7).has_session());
}

}  // namespace
}  // namespace quorate::rpc
