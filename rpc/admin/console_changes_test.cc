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
  ClusterView cluster_view() const override { return view; }
  void TransferLeadership(MemberId target, std::function<void(absl::Status)> done) override {
    targets.push_back(target.value());
    done(outcome);
  }
  void ChangeMembers(const ServerLines& lines, consensus::Index based_on,
                     std::function<void(absl::Status)> done) override {
    CHECK(based_on == view.membership_index);
    members.push_back(lines);
    done(outcome);
  }
  void Barrier(std::function<void(tree::Zxid)>) override {}
  void RequestCheckpoint(tree::Zxid, std::function<void()>) override {}
  tree::Zxid checkpoint_zxid() const override { return {}; }
  absl::StatusOr<CheckpointView> OpenCheckpoint() const override {
    return absl::FailedPreconditionError("none");
  }

  ClusterView view;
  std::vector<uint32_t> targets;
  std::vector<ServerLines> members;  // of each change
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
         {"create", "set", "delete", "close-session", "transfer-leadership", "change-members"}) {
      CHECK(f.Status(name, body) == 400);
    }
  }
  CHECK(f.service.batches.empty());
  CHECK(f.leader.targets.empty());
  CHECK(f.leader.members.empty());
}

// The leader 1 of three voters and the observer 4, whose membership is 7. All are up to date.
ClusterView FourMembers() {
  ClusterView view;
  view.self = view.leader = MemberId(1);
  view.is_leader = true;
  view.membership_index = consensus::Index(7);
  for (uint32_t id = 1; id <= 4; ++id) {
    ClusterView::Member& member = view.members.emplace_back();
    member.id = MemberId(id);
    member.reachable = member.in_sync = true;
    member.observer = id == 4;
    member.addresses = *ParseServerLine("host" + std::to_string(id) + ":2888:3888;2181");
  }
  return view;
}

std::string MembersBody(const std::string& change, int member, const std::string& line = "",
                        int membership = 7) {
  return Json{{"change", change}, {"member", member}, {"line", line}, {"membership", membership}}
      .dump();
}

TEST_CASE("members are added as observers, removed, promoted and demoted") {
  Fixture f;
  f.leader.view = FourMembers();
  CHECK(f.Status("change-members", MembersBody("add", 5, "host5:2888:3888;2181")) == 200);
  CHECK(f.Status("change-members", MembersBody("remove", 3)) == 200);
  CHECK(f.Status("change-members", MembersBody("demote", 2)) == 200);
  CHECK(f.Status("change-members", MembersBody("promote", 4)) == 200);
  REQUIRE(f.leader.members.size() == 4);
  CHECK(f.leader.members[0].size() == 5);
  CHECK(f.leader.members[0].at(5).observer);
  CHECK(f.leader.members[1].count(3) == 0);
  CHECK(f.leader.members[2].at(2).observer);
  CHECK_FALSE(f.leader.members[3].at(4).observer);
  CHECK(f.audit.Lines()[0].ends_with(
      "operation=changeMembers detail=change=add member=5 line=host5:2888:3888;2181 protocol=http "
      "result=success"));
}

TEST_CASE("a change of members that the cluster does not take is refused with the reason") {
  Fixture f;
  f.leader.view = FourMembers();
  const auto refused = [&f](const std::string& body, const std::string& why) {
    const HttpResponse response = f.Post("change-members", body);
    CHECK_THAT(response.body, Catch::Contains(why));
    CHECK(f.audit.Lines().back().ends_with("result=failure"));
    CHECK(f.leader.members.empty());
    return response.status;
  };
  CHECK(refused(MembersBody("remove", 1), "member 1 leads") == 409);
  CHECK(refused(MembersBody("remove", 9), "it is so already") == 409);
  CHECK(refused(MembersBody("promote", 9), "there is no member 9") == 404);
  CHECK(refused(MembersBody("add", 3, "host9:2888:3888;2181"), "another number") == 409);
  CHECK(refused(MembersBody("add", 4, "host4:2888:3888;2181"), "a member already") == 409);
  CHECK(refused(MembersBody("add", 5, "nonsense"), "nonsense") == 400);
  CHECK(refused(MembersBody("remove", 2, "", 6), "after the page has shown them") == 409);
  f.leader.view.members[2].reachable = false;
  CHECK(refused(MembersBody("remove", 2), "1 of 2 voters would be up to date") == 409);
  f.leader.view.changing = true;
  CHECK(refused(MembersBody("remove", 3), "under way") == 409);
  f.leader.view.is_leader = false;
  f.leader.view.leader = MemberId(2);
  CHECK(refused(MembersBody("remove", 3), "the leader, member 2") == 409);
  CHECK(f.Status("change-members", MembersBody("remove", 3), /*may=*/false) == 403);
  for (const std::string& body :
       {MembersBody("move", 3), MembersBody("remove", 0), MembersBody("remove", 255),
        MembersBody("remove", 3, "host3:2888:3888;2181"), MembersBody("remove", -1)}) {
    CHECK(f.Status("change-members", body) == 400);
  }
  CHECK(f.leader.members.empty());
}

TEST_CASE("what the cluster says of a change of members is shown") {
  Fixture f;
  f.leader.view = FourMembers();
  f.leader.outcome = absl::UnavailableError("member 4 has not caught up yet");
  const HttpResponse response = f.Post("change-members", MembersBody("promote", 4));
  CHECK(response.status == 503);
  CHECK(response.body.find("member 4 has not caught up yet") != std::string::npos);
  CHECK(f.audit.Lines().back().ends_with("result=failure"));
  f.leader.outcome = UnknownOutcome("this member stopped leading");
  CHECK(f.Status("change-members", MembersBody("promote", 4)) == 503);
  CHECK(f.audit.Lines().back().ends_with("result=invoked"));
  f.leader.outcome = absl::AbortedError("the members were changed otherwise");
  CHECK(f.Status("change-members", MembersBody("promote", 4)) == 409);
  CHECK(f.audit.Lines().back().ends_with("result=failure"));
}

}  // namespace
}  // namespace quorate::rpc::admin
