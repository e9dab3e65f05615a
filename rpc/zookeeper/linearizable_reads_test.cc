// SPDX-License-Identifier: Apache-2.0

// Reads that wait for a barrier, and the chroot by which a client asks for them.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

Config LinearizableConfig() {
  Config config = TestConfig();
  config.linearizable_reads = true;
  return config;
}

std::string Delete(const std::string& path) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.Int<int32_t>(-1);
  return body;
}

std::string AddWatch(const std::string& path, int32_t mode) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.Int(mode);
  return body;
}

std::string SetWatches(int64_t since, const std::vector<std::string>& data_watches) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int(since);
  writer.Int(static_cast<int32_t>(data_watches.size()));
  for (const std::string& path : data_watches) writer.String(path);
  writer.Int<int32_t>(0);
  writer.Int<int32_t>(0);
  return body;
}

// Returns the first string of a reply or an event.
std::string FirstString(const Packet& packet) {
  BigEndianReader reader(packet.body);
  return std::string(reader.String());
}

std::string PathOfEvent(const Packet& packet) {
  CHECK(packet.xid == kNotificationXid);
  BigEndianReader reader(packet.body);
  reader.Int<int32_t>();
  reader.Int<int32_t>();
  return std::string(reader.String());
}

// Calls a read, ends its barrier, which is the newest one, and returns the reply.
Packet Read(Fixture& f, uint32_t tag, OpCode op, const std::string& body) {
  f.Write(tag, 78, op, body);
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(f.service.syncs.size());
  const Packet packet = f.Next(tag);
  CHECK(packet.xid == 78);
  return packet;
}

TEST_CASE("with linearizableReads, a read shows what was committed before it anywhere") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  f.Call(other, OpCode::kCreate, Create("/a", "old"));
  f.Write(tag, 1, OpCode::kGetData, PathAndWatch("/a", false));
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  REQUIRE(f.service.syncs.size() == 1);
  f.Call(other, OpCode::kSetData, SetData("/a", "new"));
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(1);
  CHECK(DataOf(f.Next(tag)) == "new");
}

TEST_CASE("the linearizable reads of an iteration share one barrier, over all connections") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  for (int32_t xid = 1; xid <= 20; ++xid) {
    f.Write(tag, xid, OpCode::kExists, PathAndWatch("/", false));
    f.Write(other, xid, OpCode::kGetChildren, PathAndWatch("/", false));
  }
  f.Settle();
  REQUIRE(f.service.syncs.size() == 1);
  f.EndBarrier(1);
  for (int32_t xid = 1; xid <= 20; ++xid) {
    CHECK(f.Next(tag).xid == xid);
    CHECK(f.Next(other).xid == xid);
  }
  CHECK(f.service.syncs.size() == 1);
}

TEST_CASE("an administrator makes the reads of a session linearizable, and plain again") {
  Fixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  const uint32_t admin = f.ConnectSession();
  const std::string parent(LinearizableSessions::kParent);
  const std::string name = parent + "/" + absl::StrFormat("0x%x", session.session_id);
  const auto call = [&f](uint32_t of, OpCode op, const std::string& body) {
    REQUIRE(f.Call(of, op, body).error == ErrorCode::kOk);
  };
  const std::string exists = PathAndWatch("/", false);
  call(admin, OpCode::kCreate, Create(parent, ""));
  call(tag, OpCode::kExists, exists);
  call(admin, OpCode::kCreate, Create(name, ""));
  CHECK(f.service.syncs.empty());
  CHECK(Read(f, tag, OpCode::kExists, exists).error == ErrorCode::kOk);
  CHECK(f.service.syncs.size() == 1);
  call(admin, OpCode::kExists, exists);  // other sessions stay as they are
  CHECK(f.service.syncs.size() == 1);

  SECTION("the setting stays when the session moves to another connection") {
    const uint32_t moved = f.Connect();
    f.sockets.Write(moved, ConnectPacket({session.session_id, session.password}));
    f.Settle();
    f.Frame(moved);
    CHECK(Read(f, moved, OpCode::kExists, exists).error == ErrorCode::kOk);
    call(admin, OpCode::kDelete, Delete(name));
    call(moved, OpCode::kExists, exists);
    CHECK(f.service.syncs.size() == 2);
  }
  SECTION("the setting is removed with its znode") {
    call(admin, OpCode::kSetData, SetData(name, "x"));
    CHECK(Read(f, tag, OpCode::kExists, exists).error == ErrorCode::kOk);
    call(admin, OpCode::kDelete, Delete(name));
    call(tag, OpCode::kExists, exists);
    CHECK(f.service.syncs.size() == 2);
  }
  SECTION("a tree that replaces the one before has its own settings") {
    const bool is_kept = GENERATE(true, false);
    if (!is_kept) f.Write(admin, 1, OpCode::kDelete, Delete(name));
    f.sockets.RunIterations();
    f.service.ReplaceTree(&f.frontends);
    f.frontends.OnBatchApplied();
    f.Settle();
    const uint32_t again = f.Connect();
    f.sockets.Write(again, ConnectPacket({session.session_id, session.password}));
    f.Settle();
    f.Frame(again);
    f.Write(again, 1, OpCode::kExists, exists);
    f.Settle();
    CHECK(f.sockets.received(again).empty() == is_kept);
  }
}

TEST_CASE("znodes below the settings that name no session change nothing") {
  LinearizableSessions sessions;
  const std::string parent(LinearizableSessions::kParent);
  for (const char* name : {"/0x", "/1f", "/0x01f", "/0x1F", "/0x1g", "/0x1f/a",
                           "/0x1ffffffffffffffff", "", "/", "x/0x1f"}) {
    CHECK_FALSE(sessions.OnNodeEvent(tree::EventType::kNodeCreated, parent + name).has_value());
  }
  CHECK_FALSE(sessions.OnNodeEvent(tree::EventType::kNodeCreated, "/a/0x1f").has_value());
  const auto change =
      sessions.OnNodeEvent(tree::EventType::kNodeCreated, parent + "/0xff0000000000001f");
  REQUIRE(change.has_value());
  CHECK(sessions.Has(change->session));
  CHECK(change->session.value() == static_cast<int64_t>(0xff0000000000001f));
}

TEST_CASE("a read that came after a barrier has begun waits for the next one") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/", false));
  f.Settle();
  f.Write(tag, 2, OpCode::kExists, PathAndWatch("/", false));
  f.Settle();
  REQUIRE(f.service.syncs.size() == 2);
  f.EndBarrier(1);
  CHECK(f.Next(tag).xid == 1);
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(2);
  CHECK(f.Next(tag).xid == 2);
}

TEST_CASE("writes and linearizable reads of a connection are answered in their order") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", "0"));
  f.Write(tag, 2, OpCode::kGetData, PathAndWatch("/a", false));
  f.Write(tag, 3, OpCode::kSetData, SetData("/a", "1"));
  f.Write(tag, 4, OpCode::kGetData, PathAndWatch("/a", false));
  f.Settle();
  CHECK(f.Next(tag).xid == 1);
  CHECK(f.sockets.received(tag).empty());
  REQUIRE(f.service.syncs.size() == 1);
  f.EndBarrier(1);  // it serves the second read too: that read waits for the write alone
  CHECK(DataOf(f.Next(tag)) == "0");
  CHECK(f.Next(tag).xid == 3);
  CHECK(DataOf(f.Next(tag)) == "1");
}

TEST_CASE("pings, whoAmI and watches do not wait for a barrier") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kWhoAmI, "").error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kAddWatch, AddWatch("/", 0)).error == ErrorCode::kOk);
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/", false));
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Settle();
  CHECK(f.Next(tag).xid == kPingXid);
  CHECK(f.service.syncs.size() == 1);
}

TEST_CASE("no linearizable read is answered by a server without a quorum") {
  Fixture f(LinearizableConfig());
  f.service.current.in_touch = false;
  f.service.current.read_only = true;
  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response, {.read_only = true});
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/", false)).error == ErrorCode::kNotReadOnly);
  CHECK(f.service.syncs.empty());
}

TEST_CASE("a connection that closes while its reads wait leaves the others their barrier") {
  Fixture f(LinearizableConfig());
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/", false));
  f.Write(other, 1, OpCode::kExists, PathAndWatch("/", false));
  f.Settle();
  f.sockets.HangUp(tag);
  f.Settle();
  f.EndBarrier(1);
  CHECK(f.Next(other).xid == 1);
}

TEST_CASE("a client with the chroot has linearizable reads, and others do not") {
  Fixture f;
  const uint32_t plain = f.ConnectSession();
  f.Call(plain, OpCode::kCreate, Create("/app", "top"));
  const uint32_t tag = f.ConnectSession();
  CHECK(DataOf(Read(f, tag, OpCode::kGetData, PathAndWatch("/@linearizable/app", false))) == "top");
  CHECK(f.service.syncs.size() == 1);
  CHECK(DataOf(f.Call(plain, OpCode::kGetData, PathAndWatch("/app", false))) == "top");
  CHECK(f.service.syncs.size() == 1);
}

TEST_CASE("paths of a client with the chroot are those of the tree below it, both ways") {
  Fixture f;
  const uint32_t plain = f.ConnectSession();
  const uint32_t tag = f.ConnectSession();
  // An ephemeral and sequential znode.
  CHECK(FirstString(f.Call(tag, OpCode::kCreate, Create("/@linearizable/n-", "x", 3))) ==
        "/@linearizable/n-0000000000");
  CHECK(DataOf(f.Call(plain, OpCode::kGetData, PathAndWatch("/n-0000000000", false))) == "x");

  SECTION("the root is the chroot itself") {
    CHECK(Read(f, tag, OpCode::kExists, PathAndWatch("/@linearizable", false)).error ==
          ErrorCode::kOk);
    CHECK(f.Call(tag, OpCode::kCreate, Create("/@linearizable", "")).error ==
          ErrorCode::kNodeExists);
  }
  SECTION("in a multi") {
    const Packet packet = f.Call(tag, OpCode::kMulti,
                                 Multi({{OpCode::kCreate, Create("/@linearizable/m", "")},
                                        {OpCode::kDelete, Delete("/@linearizable/n-0000000000")}}));
    BigEndianReader reader(packet.body);
    CHECK(reader.Int<int32_t>() == static_cast<int32_t>(OpCode::kCreate));
    reader.Raw(5);
    CHECK(reader.String() == "/@linearizable/m");
    CHECK(f.Call(plain, OpCode::kGetData, PathAndWatch("/m", false)).error == ErrorCode::kOk);
    CHECK(f.Call(plain, OpCode::kGetData, PathAndWatch("/n-0000000000", false)).error ==
          ErrorCode::kNoNode);
  }
  SECTION("in a multiRead") {
    const Packet packet =
        Read(f, tag, OpCode::kMultiRead,
             Multi({{OpCode::kGetData, PathAndWatch("/@linearizable/n-0000000000", false)}}));
    BigEndianReader reader(packet.body);
    CHECK(reader.Int<int32_t>() == static_cast<int32_t>(OpCode::kGetData));
    reader.Raw(5);
    CHECK(reader.String() == "x");
  }
  SECTION("in getEphemerals") {
    const Packet packet = Read(f, tag, OpCode::kGetEphemerals, Path("/@linearizable"));
    BigEndianReader reader(packet.body);
    REQUIRE(reader.Int<int32_t>() == 1);
    CHECK(reader.String() == "/@linearizable/n-0000000000");
    CHECK(Read(f, tag, OpCode::kGetAllChildrenNumber, Path("/@linearizable")).error ==
          ErrorCode::kOk);
  }
  SECTION("in events, of watches that a read has set and of persistent ones") {
    Read(f, tag, OpCode::kGetData, PathAndWatch("/@linearizable/n-0000000000", true));
    f.Call(plain, OpCode::kSetData, SetData("/n-0000000000", "y"));
    CHECK(PathOfEvent(f.Next(tag)) == "/@linearizable/n-0000000000");
    CHECK(f.Call(tag, OpCode::kAddWatch, AddWatch("/@linearizable", 0)).error == ErrorCode::kOk);
    f.Call(plain, OpCode::kCreate, Create("/other", ""));
    CHECK(PathOfEvent(f.Next(tag)) == "/@linearizable");
    CHECK(f.Call(tag, OpCode::kRemoveWatches, AddWatch("/@linearizable", 4)).error ==
          ErrorCode::kOk);
  }
}

TEST_CASE("a client that reconnects with the chroot sets its watches with it") {
  Fixture f;
  const uint32_t plain = f.ConnectSession();
  f.Call(plain, OpCode::kCreate, Create("/a", ""));
  f.Call(plain, OpCode::kCreate, Create("/b", ""));
  const int64_t since = f.service.ReadTree()->last_zxid().value();
  f.Call(plain, OpCode::kSetData, SetData("/a", "1"));
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kSetWatches, SetWatches(since, {"/@linearizable/a", "/@linearizable/b"}));
  f.Settle();
  CHECK(PathOfEvent(f.Next(tag)) == "/@linearizable/a");
  CHECK(f.Next(tag).xid == 1);
  f.Call(plain, OpCode::kSetData, SetData("/b", "1"));
  CHECK(PathOfEvent(f.Next(tag)) == "/@linearizable/b");
}

TEST_CASE("a write with the chroot is done even if its client takes no more bytes before it") {
  Fixture f;
  const uint32_t plain = f.ConnectSession();
  const uint32_t tag = f.ConnectSession();
  f.sockets.Break(tag);
  f.Write(tag, kPingXid, OpCode::kPing, "");  // its reply shows that the client takes no more
  f.sockets.RunIterations();
  f.Write(tag, 1, OpCode::kCreate, Create("/@linearizable/a", ""));
  f.Settle();
  CHECK(f.Call(plain, OpCode::kExists, PathAndWatch("/a", false)).error == ErrorCode::kOk);
}

TEST_CASE("after a path with the chroot, a path without it is an error, except of the system") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kCreate, Create("/@linearizable/a", "")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kAddWatch, AddWatch("/a", 0)).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kMulti, Multi({{OpCode::kDelete, Delete("/a")}})).error ==
        ErrorCode::kBadArguments);
  for (const OpCode op : {OpCode::kGetData, OpCode::kExists, OpCode::kGetChildren}) {
    CHECK(Read(f, tag, op, PathAndWatch("/a", false)).error == ErrorCode::kBadArguments);
  }
  CHECK(Read(f, tag, OpCode::kGetEphemerals, Path("/")).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kSetWatches, SetWatches(1, {"/a"})).error == ErrorCode::kBadArguments);
  CHECK(Read(f, tag, OpCode::kGetData, PathAndWatch("/zookeeper/config", false)).error ==
        ErrorCode::kOk);
  CHECK(f.sockets.open(tag));
}

TEST_CASE("on a connection that began without the chroot, its name is like any other") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/", false)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/@linearizable", false)).error ==
        ErrorCode::kNoNode);
  CHECK(FirstString(f.Call(tag, OpCode::kCreate, Create("/@linearizable", "mine"))) ==
        "/@linearizable");
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/@linearizable", false))) == "mine");
  CHECK(f.service.syncs.empty());
}

TEST_CASE("names that begin like the chroot, and paths of the system, do not decide for it") {
  Fixture f;
  const uint32_t similar = f.ConnectSession();
  CHECK(f.Call(similar, OpCode::kGetData, PathAndWatch("/@linearizable2", false)).error ==
        ErrorCode::kNoNode);
  const uint32_t tag = f.ConnectSession();
  f.Call(tag, OpCode::kGetData, PathAndWatch("/zookeeper/config", false));
  CHECK(f.service.syncs.empty());
  CHECK(Read(f, tag, OpCode::kExists, PathAndWatch("/@linearizable", false)).error ==
        ErrorCode::kOk);
}

TEST_CASE("without linearizableChroot, the chroot is a name like any other") {
  Config config = TestConfig();
  config.linearizable_chroot = false;
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/@linearizable", false)).error ==
        ErrorCode::kNoNode);
}

TEST_CASE("malformed requests decide nothing, and get the errors that they get without a chroot") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  for (const OpCode op : {OpCode::kGetData, OpCode::kMulti, OpCode::kMultiRead, OpCode::kSetWatches,
                          OpCode::kAddWatch, OpCode::kCreate}) {
    CHECK(f.Call(tag, op, "abc").error == ErrorCode::kMarshallingError);
  }
  CHECK(Read(f, tag, OpCode::kExists, PathAndWatch("/@linearizable", false)).error ==
        ErrorCode::kOk);
}

}  // namespace
}  // namespace quorate::rpc::zk
