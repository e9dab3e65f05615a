// SPDX-License-Identifier: Apache-2.0

// What the ZooKeeper front end records in the audit log itself: writes that it refuses, and failed
// authentication. Writes that it takes are recorded when they are applied.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using Lines = std::vector<std::string>;

std::string Auth(const std::string& scheme, const std::string& credentials) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int<int32_t>(0);
  for (const std::string& part : {scheme, credentials}) {
    writer.Int(static_cast<int32_t>(part.size()));
    writer.Raw(part);
  }
  return body;
}

struct AuditFixture : Fixture {
  explicit AuditFixture(Config c = TestConfig()) : Fixture(std::move(c)) {
    frontend.SetRequestAudit(audit.requests());
    ConnectResponse response;
    tag = ConnectSession(&response);
    char id[32];
    std::snprintf(id, sizeof(id), "session=0x%llx ",
                  static_cast<unsigned long long>(response.session_id));
    begin = std::string(id) + "user=10.0.0.1 ip=10.0.0.1 ";
  }

  Lines LinesOf(OpCode op, const std::string& body) {
    Call(tag, op, body);
    return audit.Lines();
  }

  RecordedAudit audit;
  uint32_t tag = 0;
  std::string begin;
};

TEST_CASE("a write that is refused before it goes to the log is recorded") {
  AuditFixture f;
  CHECK(f.LinesOf(OpCode::kCreate, Create("/a", "")).empty());  // recorded when it is applied
  f.service.is_refusing_data = true;
  CHECK(f.LinesOf(OpCode::kCreate, Create("/b", "", 2)) ==
        Lines{f.begin + "operation=create znode=/b znode_type=persistent_sequential "
                        "result=failure"});
  CHECK(f.LinesOf(OpCode::kMulti, Multi({{OpCode::kCreate, Create("/c", "")}})) ==
        Lines{f.begin + "operation=multiOperation result=failure"});
  CHECK(f.LinesOf(OpCode::kReconfig, std::string("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20)) ==
        Lines{f.begin + "operation=reconfig result=failure"});
  CHECK(f.LinesOf(OpCode::kDeleteContainer, Path("/a")) ==
        Lines{f.begin + "operation=delete result=failure"});
  CHECK(f.LinesOf(OpCode::kGetData, PathAndWatch("/a", false)).empty());
}

TEST_CASE("a refused write that waits for a read is recorded once") {
  AuditFixture f;
  f.service.is_refusing_data = true;
  f.Write(f.tag, 1, OpCode::kSetData, SetData("/zookeeper", "x"));
  f.sockets.RunIterations();
  CHECK(f.audit.Lines() == Lines{f.begin + "operation=setData znode=/zookeeper result=failure"});
  f.service.is_refusing_data = false;
  f.Write(f.tag, 2, OpCode::kDelete, Path("/none") + std::string("\xff\xff\xff\xff"));
  f.sockets.RunIterations();
  f.service.is_refusing_data = true;
  f.Write(f.tag, 3, OpCode::kSetData, SetData("/second", "x"));  // waits for the delete
  f.sockets.RunIterations();
  CHECK(f.audit.Lines().empty());
  f.Settle();
  CHECK(f.audit.Lines() == Lines{f.begin + "operation=setData znode=/second result=failure"});
}

TEST_CASE("a refused write is recorded even if its client has gone") {
  AuditFixture f;
  f.Write(f.tag, 1, OpCode::kDelete, Path("/none") + std::string("\xff\xff\xff\xff"));
  f.sockets.RunIterations();
  f.service.is_refusing_data = true;
  f.Write(f.tag, 2, OpCode::kSetData, SetData("/a", "x"));  // waits for the delete
  f.sockets.RunIterations();
  CHECK(f.audit.Lines().empty());
  f.sockets.HangUp(f.tag);
  f.Settle();
  CHECK(f.audit.Lines() == Lines{f.begin + "operation=setData znode=/a result=failure"});
}

TEST_CASE("a name with control characters cannot forge a line") {
  AuditFixture f;
  f.service.is_refusing_data = true;
  const std::string hostile = "/a\tresult=success\n2026-01-01 00:00:00,000 INFO forged\x1b[2J";
  CHECK(f.LinesOf(OpCode::kCreate, Create(hostile, "")) ==
        Lines{f.begin + "operation=create znode=/a\\tresult=success\\n2026-01-01 00:00:00,000 INFO "
                        "forged\\x1b[2J znode_type=persistent result=failure"});
}

TEST_CASE("users are recorded without their passwords, and failed authentication too") {
  AuditFixture f;
  f.Call(f.tag, OpCode::kAuth, Auth("digest", "bob\n:secret"));
  f.service.is_refusing_data = true;
  const std::string bob =
      f.begin.substr(0, f.begin.find("user=")) + "user=bob\\n,10.0.0.1 ip=10.0.0.1 operation=";
  CHECK(f.LinesOf(OpCode::kCreate, Create("/a", "")) ==
        Lines{bob + "create znode=/a znode_type=persistent result=failure"});
  CHECK(f.LinesOf(OpCode::kAuth, Auth("ev\til", "secret")) ==
        Lines{bob + "authenticate detail=ev\\til result=failure"});
}

}  // namespace
}  // namespace quorate::rpc::zk
