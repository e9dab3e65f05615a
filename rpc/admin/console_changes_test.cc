// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/console_changes.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc::admin {
namespace {

using consensus::MemberId;

// Applies what is submitted at once, unless it is told to wait.
class ApplyingService final : public FakeService {
 public:
  void Submit(CommandBatch batch) override {
    FakeService::Submit(std::move(batch));
    if (applies) Apply(frontends);
  }

  Frontend* frontends = nullptr;
  bool applies = true;
};

class Leader final : public Administration {
 public:
  ClusterView cluster_view() const override { return {}; }
  void TransferLeadership(MemberId target, std::function<void(absl::Status)> done) override {
    targets.push_back(target.value());
    done(outcome);
  }
  void ChangeMembers(const ServerLines&, consensus::Index,
                     std::function<void(absl::Status)>) override {}
  void Barrier(std::function<void(tree::Zxid)>) override {}
  void RequestCheckpoint(tree::Zxid, std::function<void()>) override {}
  tree::Zxid checkpoint_zxid() const override { return {}; }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    return absl::FailedPreconditionError("none");
  }

  std::vector<uint32_t> targets;
  absl::Status outcome;
};

class Fixture {
 public:
  Fixture() {
    service.frontends = &frontends;
    service.current.leader_known = service.current.in_touch = true;
  }

  HttpResponse Post(std::string_view name, const std::string& body, bool may = true) {
    HttpRequest request;
    request.body = body;
    return changes.Respond(name, request, may_be_owner ? caller : nobody, may);
  }
  unsigned Status(std::string_view name, const std::string& body, bool may = true) {
    const HttpResponse response = Post(name, body, may);
    INFO(name << " " << body << "\n" << response.body);
    CHECK((response.status == 200) == (response.body.find("\"error\"") == std::string::npos));
    return response.status;
  }
  std::string DataOf(const std::string& path) {
    const auto tree = service.ReadTree();
    std::string_view data;
    bool has_data = false;
    tree::Stat stat;
    const auto error = tree->GetData(path, {}, &data, &has_data, &stat);
    return error == tree::ErrorCode::kOk ? std::string(data)
                                         : "(" + std::string(tree::ToString(error)) + ")";
  }

  Config config = TestConfig();
  ApplyingService service;
  Leader leader;
  TreeWriter writer{config, &service, kWriterTags};
  SessionCloser closer{&service, kCloserTags};
  EventHistory history{1 << 20};
  Frontends frontends{{{&writer, kWriterTags}, {&closer, kCloserTags}}, &history};
  ConsoleCaller caller{{}, ClientIdentities(config, "")};
  ConsoleCaller nobody{{}, ClientIdentities(config, "")};
  bool may_be_owner = true;  // sends requests as `caller`
  RecordedAudit audit;
  ConsoleChanges changes{
      {.administration = &leader, .writer = &writer, .closer = &closer, .audit = audit.log()}};
};

TEST_CASE("znodes are created, written and deleted if their version is the one that was seen") {
  Fixture f;
  CHECK(f.Status("create", R"({"path":"/a","data":"eA==","acl":"world"})") == 200);
  CHECK(f.DataOf("/a") == "x");
  CHECK(f.Status("create", R"({"path":"/a","data":"eA==","acl":"world"})") == 409);
  CHECK(f.Status("create", R"({"path":"/b/c","data":"","acl":"world"})") == 404);
  CHECK(f.Status("set", R"({"path":"/a","data":"eXk=","version":1})") == 409);
  CHECK(f.DataOf("/a") == "x");
  CHECK(f.Status("set", R"({"path":"/a","data":"eXk=","version":0})") == 200);
  CHECK(f.DataOf("/a") == "yy");
  CHECK(f.Status("create", R"({"path":"/a/b","data":"","acl":"world"})") == 200);
  CHECK(f.Status("delete", R"({"path":"/a","version":1})") == 409);
  CHECK(f.Status("delete", R"({"path":"/a/b","version":0})") == 200);
  CHECK(f.Status("delete", R"({"path":"/a","version":0})") == 409);
  CHECK(f.Status("delete", R"({"path":"/a","version":1})") == 200);
  CHECK(f.Status("delete", R"({"path":"/a","version":1})") == 404);
}

TEST_CASE("access control lists are those of the caller") {
  Fixture f;
  const std::string mine = R"({"path":"/mine","data":"eA==","acl":"creator"})";
  // An address is no identity that "creator" could name.
  CHECK(f.Status("create", mine) == 400);
  REQUIRE(f.caller.identities.AddDigest("u:p", nullptr).ok());
  CHECK(f.Status("create", mine) == 200);
  CHECK(f.Status("set", R"({"path":"/mine","data":"","version":0})") == 200);
  f.may_be_owner = false;
  CHECK(f.Status("set", R"({"path":"/mine","data":"","version":1})") == 403);
}

TEST_CASE("who may change nothing changes nothing") {
  Fixture f;
  CHECK(f.Status("create", R"({"path":"/a","data":"","acl":"world"})", false) == 403);
  CHECK(f.Status("close-session", R"({"session":"0x1"})", false) == 403);
  CHECK(f.Status("transfer-leadership", R"({"member":1})", false) == 403);
  CHECK(f.service.batches.empty());
  CHECK(f.leader.targets.empty());
}

TEST_CASE("a write of an administrator is recorded with the name that its identities do not have") {
  Fixture f;
  REQUIRE(f.caller.identities.AddDigest("u:p", nullptr).ok());
  const std::string create = R"({"path":"/a","data":"","acl":"world"})";
  CHECK(f.Status("create", create) == 200);
  // The log has it, with the identities, as any client's write.
  CHECK(f.audit.Lines().empty());
  f.caller.principal.address = "10.0.0.9";
  f.caller.principal.token = "ops";
  f.caller.actor = "token:ops";
  const std::string begin = "user=token:ops ip=10.0.0.9 operation=consoleChange znode=/a detail=";
  const auto lines = [&f] { return f.audit.Lines(); };
  using Lines = std::vector<std::string>;
  CHECK(f.Status("set", R"({"path":"/a","data":"","version":0})") == 200);
  CHECK(lines() == Lines{begin + "operation=setData protocol=http result=success"});
  CHECK(f.Status("set", R"({"path":"/a","data":"","version":0})") == 409);
  CHECK(lines() == Lines{begin + "operation=setData protocol=http result=failure"});
  CHECK(f.Status("delete", R"({"path":"/a","version":1})", /*may=*/false) == 403);
  CHECK(lines() == Lines{begin + "operation=delete protocol=http result=failure"});
}

TEST_CASE("a change whose outcome is not known is recorded as invoked") {
  Fixture f;
  f.caller.principal.token = "ops";
  f.caller.actor = "token:ops";
  f.service.applies = false;
  f.changes.Close();  // no call waits
  CHECK(f.Status("create", R"({"path":"/a","data":"","acl":"world"})") == 503);
  CHECK(f.Status("close-session", R"({"session":"0x1"})") == 503);
  CHECK(f.audit.Lines().empty());
  f.service.ReplaceTree(&f.writer);
  CHECK(f.audit.Lines() ==
        std::vector<std::string>{"user=token:ops operation=consoleChange znode=/a "
                                 "detail=operation=create protocol=http result=invoked"});
  f.service.ReplaceTree(&f.closer);
  CHECK(f.audit.Lines() ==
        std::vector<std::string>{"user=token:ops operation=closeSession "
                                 "detail=session=0x1 protocol=http result=invoked"});
}

TEST_CASE("leadership is transferred, or the reason against it is told") {
  Fixture f;
  CHECK(f.Status("transfer-leadership", R"({"member":2})") == 200);
  f.leader.outcome = absl::FailedPreconditionError("this member does not lead");
  const HttpResponse refused = f.Post("transfer-leadership", R"({"member":0})");
  CHECK(refused.status == 409);
  CHECK(refused.body.find("does not lead") != std::string::npos);
  CHECK(f.leader.targets == std::vector<uint32_t>{2, 0});
}

TEST_CASE("a session that is not there is not closed") {
  Fixture f;
  CHECK(f.Status("close-session", R"({"session":"0xffffffffffffffff"})") == 404);
  CHECK(f.Status("close-session", R"({"session":"0x0"})") == 400);
}

TEST_CASE("the end of the server ends the wait for a change") {
  Fixture f;
  f.service.applies = false;
  f.changes.Close();
  CHECK(f.Status("create", R"({"path":"/a","data":"","acl":"world"})") == 503);
}

TEST_CASE("a body that is not exactly what a change needs is refused") {
  Fixture f;
  const std::string deep(30'000, '[');
  for (const std::string& body : {std::string(),
                                  std::string("{"),
                                  std::string("null"),
                                  std::string("[]"),
                                  std::string("{}"),
                                  deep,
                                  std::string(R"({"path":"/a"})"),
                                  std::string(R"({"path":1,"data":"","acl":"world"})"),
                                  std::string(R"({"path":"a","data":"","acl":"world"})"),
                                  std::string(R"({"path":"/a","data":"","acl":"all"})"),
                                  std::string(R"({"path":"/a","data":"*","acl":"world"})"),
                                  std::string(R"({"path":"/a","data":"","acl":"world","more":1})"),
                                  std::string(R"({"path":"/a","data":"","version":-1})"),
                                  std::string(R"({"path":"/a","data":"","version":2147483648})"),
                                  std::string(R"({"path":"/a","data":"","version":1.5})"),
                                  std::string(R"({"path":"/a","data":"","version":1e400})"),
                                  std::string(R"({"path":"/a","version":-1})"),
                                  std::string(R"({"session":"1"})"),
                                  std::string(R"({"session":"0xfffffffffffffffff"})"),
                                  std::string(R"({"member":65536})")}) {
    for (const std::string_view name :
         {"create", "set", "delete", "close-session", "transfer-leadership"}) {
      CHECK(f.Status(name, body) == 400);
    }
  }
  CHECK(f.service.batches.empty());
  CHECK(f.leader.targets.empty());
}

}  // namespace
}  // namespace quorate::rpc::admin
