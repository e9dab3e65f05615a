// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/request_audit.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rpc/audit/testing/recorded_audit.h"
#include "tree/acl.h"

namespace quorate::rpc {
namespace {

using tree::CreateMode;
using tree::Op;
using tree::OpKind;
using Lines = std::vector<std::string>;

constexpr tree::Proposer kProposer{1, 7};
constexpr tree::SessionId kSession{0x100000000000abc};
const std::string kBegin = "session=0x100000000000abc user=10.1.2.3 ip=10.1.2.3 ";

Op CreateOp(std::string_view path, CreateMode mode = CreateMode::kPersistent,
            OpKind kind = OpKind::kCreate) {
  Op op;
  op.kind = kind;
  op.path = path;
  op.mode = mode;
  op.acl = tree::OpenAcl();
  return op;
}

Op OpOf(OpKind kind, std::string_view path, int32_t version = tree::kAnyVersion) {
  Op op;
  op.kind = kind;
  op.path = path;
  op.version = version;
  return op;
}

// A tree whose commands are recorded as a server records them.
class Fixture : private tree::ApplyListener {
 public:
  Fixture() {
    std::string command;
    tree::AppendCreateSession(Header(tree::CommandKind::kCreateSession), 30000,
                              std::string(tree::kPasswordBytes, 'p'), &command);
    Apply(command);
    attached_ = tree_.last_zxid();
    CHECK(audit_.Lines().empty());
  }

  Lines Do(std::vector<Op> ops, bool multi = false) {
    tree::Request request;
    request.multi = multi;
    request.ops = std::move(ops);
    return Do(std::move(request));
  }
  Lines Do(tree::Request request) {
    request.identities = identities;
    std::string command;
    tree::AppendRequest(Header(tree::CommandKind::kRequest), request, &command);
    Apply(command);
    return audit_.Lines();
  }
  Lines DoNumbered(uint64_t number, Op op) {
    tree::Request request;
    request.ops.push_back(std::move(op));
    request.identities = identities;
    std::string command;
    tree::AppendSequencedRequest(Header(tree::CommandKind::kSequencedRequest), number, 0, request,
                                 &command);
    Apply(command);
    return audit_.Lines();
  }
  Lines TakeLines() { return audit_.Lines(); }
  RequestAudit& audit() { return *audit_.requests(); }

  std::vector<tree::Identity> identities = {{"ip", "10.1.2.3"}};
  tree::SessionId session = kSession;

 private:
  tree::CommandHeader Header(tree::CommandKind kind) {
    tree::CommandHeader header;
    header.kind = kind;
    header.proposer = kProposer;
    header.sequence = ++sequence_;
    header.time_ms = 1000;
    header.session = session;
    header.attach_zxid = attached_;
    return header;
  }
  void Apply(const std::string& command) {
    command_ = command;
    tree_.Apply(tree::Zxid(tree_.last_zxid().value() + 1), command, kProposer, this);
  }
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult result) override {
    audit_.requests()->OnCommandApplied(command_, result);
  }

  RecordedAudit audit_;
  tree::Tree tree_;
  std::string command_;
  uint64_t sequence_ = 0;
  tree::Zxid attached_;
};

TEST_CASE("each kind of write is recorded with its operation, its path and its result") {
  Fixture f;
  const auto line = [](const std::string& rest) { return Lines{kBegin + "operation=" + rest}; };
  CHECK(f.Do({CreateOp("/a")}) == line("create znode=/a znode_type=persistent result=success"));
  CHECK(f.Do({CreateOp("/a")}) == line("create znode=/a znode_type=persistent result=failure"));
  CHECK(f.Do({CreateOp("/a/n-", CreateMode::kPersistentSequential)}) ==
        line("create znode=/a/n-0000000000 znode_type=persistent_sequential result=success"));
  CHECK(f.Do({CreateOp("/b/n-", CreateMode::kEphemeralSequential)}) ==
        line("create znode=/b/n- znode_type=ephemeral_sequential result=failure"));
  CHECK(f.Do({CreateOp("/e", CreateMode::kEphemeral)}) ==
        line("create znode=/e znode_type=ephemeral result=success"));
  CHECK(f.Do({CreateOp("/c", CreateMode::kContainer, OpKind::kCreateContainer)}) ==
        line("create znode=/c znode_type=container result=success"));
  Op ttl = CreateOp("/t", CreateMode::kPersistentWithTtl, OpKind::kCreateTtl);
  ttl.ttl_ms = 1000;
  CHECK(f.Do({ttl}) == line("create znode=/t znode_type=persistent_with_ttl result=success"));
  ttl.mode = CreateMode::kPersistentSequentialWithTtl;
  CHECK(f.Do({ttl}) == line("create znode=/t0000000004 "
                            "znode_type=persistent_sequential_with_ttl result=success"));
  CHECK(f.Do({CreateOp("/x", static_cast<CreateMode>(99))}) ==
        line("create znode=/x result=failure"));
  CHECK(f.Do({OpOf(OpKind::kSetData, "/a")}) == line("setData znode=/a result=success"));
  CHECK(f.Do({OpOf(OpKind::kSetData, "/a", 77)}) == line("setData znode=/a result=failure"));
  CHECK(f.Do({OpOf(OpKind::kDelete, "/a")}) == line("delete znode=/a result=failure"));
  CHECK(f.Do({OpOf(OpKind::kDelete, "/e")}) == line("delete znode=/e result=success"));
  CHECK(f.Do({OpOf(OpKind::kDeleteRecursive, "/a")}) ==
        line("deleteRecursive znode=/a result=success"));
  CHECK(f.Do({OpOf(OpKind::kCheck, "/none")}).empty());
}

TEST_CASE("an operation of ClickHouse Keeper that changes nothing is recorded as a failure") {
  Fixture f;
  const auto line = [](const std::string& rest) { return Lines{kBegin + "operation=" + rest}; };
  const Op create = CreateOp("/a", CreateMode::kPersistent, OpKind::kCreateIfNotExists);
  CHECK(f.Do({create}) == line("create znode=/a znode_type=persistent result=success"));
  CHECK(f.Do({create}) == line("create znode=/a znode_type=persistent result=failure"));
  CHECK(f.Do({OpOf(OpKind::kTryDelete, "/a")}) == line("delete znode=/a result=success"));
  CHECK(f.Do({OpOf(OpKind::kTryDelete, "/a")}) == line("delete znode=/a result=failure"));
  Op remove = OpOf(OpKind::kRemoveSubtree, "/a");
  remove.limit = 10;
  CHECK(f.Do({remove}) == line("deleteRecursive znode=/a result=failure"));
  f.Do({create});
  CHECK(f.Do({remove}) == line("deleteRecursive znode=/a result=success"));
}

TEST_CASE("a multi that succeeds has a line for each change, and one that fails has one line") {
  Fixture f;
  const Lines lines =
      f.Do({CreateOp("/m"), OpOf(OpKind::kCheck, "/m"),
            CreateOp("/m/n-", CreateMode::kPersistentSequential), OpOf(OpKind::kSetData, "/m")},
           /*multi=*/true);
  CHECK(lines ==
        Lines{kBegin + "operation=create znode=/m znode_type=persistent result=success",
              kBegin + "operation=create znode=/m/n-0000000000 znode_type=persistent_sequential "
                       "result=success",
              kBegin + "operation=setData znode=/m result=success"});
  const Lines failed = {kBegin + "operation=multiOperation result=failure"};
  CHECK(f.Do({CreateOp("/never"), CreateOp("/m")}, /*multi=*/true) == failed);
  CHECK(f.Do({OpOf(OpKind::kCheck, "/none")}, /*multi=*/true) == failed);
  CHECK(f.Do({OpOf(OpKind::kCheck, "/m")}, /*multi=*/true).empty());
}

TEST_CASE("of a transaction with branches, the changes of the branch that was made are recorded") {
  Fixture f;
  tree::Request request;
  request.multi = true;
  request.has_branches = true;
  request.compares = {{tree::CompareTarget::kExists, tree::CompareRelation::kEqual, "/a", 0, {}}};
  request.ops = {CreateOp("/a"), OpOf(OpKind::kGet, "/a"), OpOf(OpKind::kSetData, "/a"),
                 OpOf(OpKind::kDelete, "/a")};
  request.then_count = 2;
  CHECK(f.Do(request) ==
        Lines{kBegin + "operation=create znode=/a znode_type=persistent result=success"});
  CHECK(f.Do(request) == Lines{kBegin + "operation=setData znode=/a result=success",
                               kBegin + "operation=delete znode=/a result=success"});
  const Lines failed = {kBegin + "operation=multiOperation result=failure"};
  request.ops[0].path = "/none/a";
  CHECK(f.Do(request) == failed);
  request.compares[0].path = "a";
  CHECK(f.Do(request) == failed);
}

TEST_CASE("users are those that the client has proved to be, without hashes, and its address") {
  Fixture f;
  f.identities = {{"super", ""},
                  {"sasl", RecordedAudit::kAnySaslId},
                  {"ip", "::1"},
                  {"digest", "bob:hash"},
                  {"x509", "CN=alice,O=Example"},
                  {"sasl", "carol"},
                  {"digest", "tab\there:hash"}};
  CHECK(f.Do({CreateOp("/a")}) ==
        Lines{"session=0x100000000000abc user=CN=alice,O=Example,carol,bob,tab\\there,::1 ip=::1 "
              "operation=create znode=/a znode_type=persistent result=success"});
}

TEST_CASE("a client cannot push out the name that it has proved by names that it makes up") {
  Fixture f;
  const std::string made_up(2 * kAuditTextBytesMax, 'a');
  f.identities = {{"ip", "::1"}, {"digest", made_up + ":hash"}, {"sasl", "carol"}};
  const Lines lines = f.Do({CreateOp("/a")});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("user=carol,aaa") != std::string::npos);
}

TEST_CASE("an access control list is recorded as it was sent, without hashes") {
  CHECK(AuditAclText({}).empty());
  CHECK(AuditAclText(tree::OpenAcl()) == "world:anyone:cdrwa");
  const std::vector<tree::Acl> acl = {
      {5, {"digest", "bob:hash="}}, {18, {"ip", "10.0.0.0/8"}},
      {31, {"auth", ""}},           {1, {"auth", "bob:password:with:colons"}},
      {1, {"ip", "::1"}},           {1, {"x509", "CN=a:b"}},
      {0, {"digest", "odd"}}};
  CHECK(AuditAclText(acl) ==
        "digest:bob:x:crip:10.0.0.0/8:waauth::cdrwa"
        "auth:bob:x:rip:::1:rx509:CN=a:b:rdigest:odd:");
  CHECK(AuditAclText(std::vector<tree::Acl>(100'000, tree::OpenAcl()[0])).size() < 5000);

  Fixture f;
  f.Do({CreateOp("/a")});
  Op op = OpOf(OpKind::kSetAcl, "/a");
  op.acl = {{31, {"digest", "bob:hash"}}};
  CHECK(f.Do({op}) ==
        Lines{kBegin + "operation=setAcl znode=/a acl=digest:bob:x:cdrwa result=success"});
  op.acl = {{31, {"none", "\n"}}};
  CHECK(f.Do({op}) ==
        Lines{kBegin + "operation=setAcl znode=/a acl=none:\\n:cdrwa result=failure"});
}

TEST_CASE("a numbered write is recorded once, however often it is sent") {
  Fixture f;
  CHECK(f.DoNumbered(1, CreateOp("/a")).size() == 1);
  CHECK(f.DoNumbered(1, CreateOp("/a")).empty());
  CHECK(f.DoNumbered(3, CreateOp("/b")) ==  // a number is missing
        Lines{kBegin + "operation=create znode=/b znode_type=persistent result=failure"});
  Op refused;
  refused.kind = OpKind::kRefused;
  CHECK(f.DoNumbered(2, refused).empty());  // recorded by the front end that refused it
}

TEST_CASE("a write of a session that has ended is recorded as a failure") {
  Fixture f;
  f.session = tree::SessionId(5);
  CHECK(f.Do({CreateOp("/a")}) ==
        Lines{"session=0x5 user=10.1.2.3 ip=10.1.2.3 operation=create znode=/a "
              "znode_type=persistent result=failure"});
}

TEST_CASE("refusals, failed authentication and deletions of the cluster are recorded") {
  Fixture f;
  tree::Request request;
  request.ops = {CreateOp("/\n")};
  f.audit().OnRefused(kSession, f.identities, request);
  request.multi = true;
  f.audit().OnRefused(tree::kNoSession, f.identities, request);
  f.audit().OnRefused(kSession, f.identities, "reconfig");
  f.audit().OnFailedAuthentication(kSession, f.identities, "evil\tscheme");
  f.audit().OnFailedAuthentication("10.9.9.9", "x509: expired");
  f.audit().OnServerDeletion(kSession, "/e");
  f.audit().OnServerDeletion(tree::kNoSession, "/c");
  CHECK(f.TakeLines() ==
        Lines{kBegin + "operation=create znode=/\\n znode_type=persistent result=failure",
              "user=10.1.2.3 ip=10.1.2.3 operation=multiOperation result=failure",
              kBegin + "operation=reconfig result=failure",
              kBegin + "operation=authenticate detail=evil\\tscheme result=failure",
              "ip=10.9.9.9 operation=authenticate detail=x509: expired result=failure",
              std::string("session=0x100000000000abc user=server ") +
                  "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/e result=success",
              "user=server operation=containerOrTtlZNodeDeletion znode=/c result=success"});
}

TEST_CASE("the line of a create tells how many parents it has added") {
  Fixture f;
  tree::Op create = CreateOp("/x/y/z");
  create.with_parents = true;
  const std::string type = "znode_type=persistent ";
  CHECK(f.Do({create}) == Lines{kBegin + "operation=create znode=/x/y/z " + type +
                                "detail=added_parents=2 result=success"});
  create.path = "/x/y/w";
  CHECK(f.Do({create}) ==
        Lines{kBegin + "operation=create znode=/x/y/w " + type + "result=success"});
}

}  // namespace
}  // namespace quorate::rpc
