// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "rpc/zookeeper/opcodes.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/answer.h"
#include "tests/differential/generator.h"
#include "tests/differential/operation.h"
#include "tests/differential/relation.h"
#include "tests/differential/requests.h"

namespace quorate::differential {
namespace {

std::string Bytes(std::initializer_list<int64_t> words) {
  std::string bytes;
  BigEndianWriter writer(&bytes);
  for (int64_t word : words) writer.Int(static_cast<int32_t>(word));
  return bytes;
}

std::string Reply(int32_t xid, int64_t zxid, int32_t error, const std::string& body) {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(xid);
  writer.Int(zxid);
  writer.Int(error);
  writer.Raw(body);
  return packet;
}

std::string StatBytes(int64_t czxid, int64_t mzxid, int64_t mtime, int32_t version, int64_t owner) {
  std::string bytes;
  BigEndianWriter writer(&bytes);
  for (int64_t value : {czxid, mzxid, int64_t{1000}, mtime}) writer.Int(value);
  for (int32_t value : {version, 0, 0}) writer.Int(value);
  writer.Int(owner);
  for (int32_t value : {0, 0}) writer.Int(value);
  writer.Int(czxid);
  return bytes;
}

Operation Asking(wire::OpCode op) {
  Operation operation;
  operation.requests.push_back(MakeRead(op, Text("/a"), false));
  return operation;
}

// Returns the kinds of differences between two answers to one request.
std::vector<std::string> Kinds(Comparison* comparison, const std::string& reference,
                               const std::string& ours, wire::OpCode op = wire::kExists) {
  std::vector<std::string> kinds;
  for (const Difference& difference : comparison->Compare(
           Asking(op), true, {DecodeReplyTo(op, reference)}, {DecodeReplyTo(op, ours)})) {
    kinds.push_back(difference.kind);
  }
  return kinds;
}

Answer Event(int32_t type, int64_t zxid, const std::string& path) {
  std::string body = Bytes({type, 3});
  BigEndianWriter(&body).String(path);
  return DecodeEvent(Reply(wire::kNotificationXid, zxid, 0, body));
}

TEST_CASE("zxids may differ, but not their order") {
  Relation relation;
  CHECK(relation.SameChange(10, 100));
  CHECK(relation.SameChange(20, 200));
  CHECK(relation.SameChange(10, 100));
  CHECK_FALSE(relation.SameChange(10, 101));
  CHECK_FALSE(relation.SameChange(11, 100));
  CHECK_FALSE(relation.SameChange(15, 250));
  CHECK_FALSE(relation.SameChange(25, 150));
  CHECK(relation.SameChange(15, 150));
  CHECK(relation.SameChange(0, 0));
  CHECK_FALSE(relation.SameChange(0, 5));
  CHECK_FALSE(relation.SameChange(-1, 5));
}

TEST_CASE("the newest change seen by a client must not contradict the order of changes") {
  Relation relation;
  REQUIRE(relation.SameChange(10, 100));
  REQUIRE(relation.SameChange(20, 200));
  CHECK(relation.SameMoment(10, 100));
  CHECK(relation.SameMoment(10, 150));  // one server has numbered entries that are no changes
  CHECK(relation.SameMoment(12, 150));
  CHECK_FALSE(relation.SameMoment(11, 99));
  CHECK_FALSE(relation.SameMoment(15, 200));  // ours has seen a change that the reference has not
  CHECK_FALSE(relation.SameMoment(20, 199));
  CHECK_FALSE(relation.SameMoment(13, 120));  // goes back
  CHECK_FALSE(relation.SameChange(11, 151));  // between two moments at one server only

  Relation cluster(/*alone=*/false);
  CHECK(cluster.SameMoment(12, 150));
  CHECK(cluster.SameMoment(13, 120));  // from a server that is behind the first one
}

TEST_CASE("each session has one partner, and each change has one time") {
  Relation relation;
  CHECK(relation.SameSession(1, 7));
  CHECK(relation.SameSession(1, 7));
  CHECK_FALSE(relation.SameSession(1, 8));
  CHECK_FALSE(relation.SameSession(2, 7));
  CHECK_FALSE(relation.SameSession(0, 7));
  CHECK(relation.SameSession(0, 0));
  CHECK(relation.SameTime(1, 1000, 10, 2000));
  CHECK(relation.SameTime(1, 1000, 10, 2000));
  CHECK_FALSE(relation.SameTime(1, 1000, 10, 2001));
  CHECK_FALSE(relation.SameTime(2, 1000, 20, 0));
}

TEST_CASE("an answer is compared field by field") {
  Comparison comparison;
  const std::string reference = Reply(1, 5, 0, StatBytes(5, 5, 1000, 0, 0));
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 9, 1000, 0, 0))).empty());
  using Expected = std::vector<std::string>;
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 9, 1000, 1, 0))) ==
        Expected{"exists: version"});
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 8, 1000, 0, 0))) ==
        Expected{"exists: mzxid"});
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 9, 1001, 0, 0))) ==
        Expected{"exists: mtime"});
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 9, 1000, 0, 3))) ==
        Expected{"exists: ephemeralOwner"});
  CHECK(Kinds(&comparison, reference, Reply(2, 9, 0, StatBytes(9, 9, 1000, 0, 0))) ==
        Expected{"exists: xid"});
  CHECK(Kinds(&comparison, reference, Reply(1, 9, -101, "")) ==
        Expected{"exists: err: reference Ok(0), here NoNode(-101)"});
  CHECK(Kinds(&comparison, reference, Reply(1, 9, 0, StatBytes(9, 9, 1000, 0, 0) + "x")) ==
        Expected{"exists: number of fields"});
}

TEST_CASE("a difference because the reference does not answer is marked as a stall") {
  const Answer reply = DecodeReplyTo(wire::kExists, Reply(1, 5, -101, ""));
  Answer nothing, closed;
  nothing.kind = AnswerKind::kNothing;
  closed.kind = AnswerKind::kClosed;
  Comparison comparison;
  const auto is_stall = [&](const Answer& reference, const Answer& ours) {
    const auto differences = comparison.Compare(Asking(wire::kExists), true, {reference}, {ours});
    REQUIRE(differences.size() == 1);
    return differences[0].is_stall;
  };
  CHECK(is_stall(nothing, reply));
  CHECK_FALSE(is_stall(reply, nothing));
  CHECK_FALSE(is_stall(closed, reply));
}

TEST_CASE("children may have any order, but must have the same names") {
  auto children = [](const std::string& first, const std::string& second) {
    std::string body = Bytes({2});
    BigEndianWriter writer(&body);
    writer.String(first);
    writer.String(second);
    return Reply(1, 5, 0, body);
  };
  Comparison comparison;
  CHECK(Kinds(&comparison, children("a", "b"), children("b", "a"), wire::kGetChildren).empty());
  CHECK(Kinds(&comparison, children("a", "b"), children("b", "c"), wire::kGetChildren) ==
        std::vector<std::string>{"getChildren: child"});
}

TEST_CASE("events must have the same place between replies") {
  Comparison comparison;
  const Operation operation = Asking(wire::kExists);
  const Answer reply = DecodeReplyTo(wire::kExists, Reply(1, 5, -101, ""));
  const Answer event = Event(1, -1, "/a");
  CHECK(comparison.Compare(operation, true, {event, reply}, {event, reply}).empty());
  CHECK(comparison.Compare(operation, true, {event, reply}, {reply, event}).size() == 1);
  CHECK(comparison.Compare(operation, true, {event, reply}, {reply}).size() == 1);
  CHECK(comparison.Compare(operation, true, {reply}, {reply, event}).size() == 1);
  CHECK(comparison.Compare(operation, true, {event, reply}, {Event(2, -1, "/a"), reply}).size() ==
        1);
  CHECK(comparison.Compare(operation, true, {event, reply}, {Event(1, -1, "/b"), reply}).size() ==
        1);
}

TEST_CASE("the ephemeral nodes of a session may be deleted in any order") {
  Comparison comparison;
  Operation operation;
  operation.requests.push_back(MakeEmpty(wire::kCloseSession));
  CHECK(comparison
            .Compare(operation, false, {Event(2, -1, "/a"), Event(2, -1, "/b")},
                     {Event(2, -1, "/b"), Event(2, -1, "/a")})
            .empty());
  CHECK(comparison
            .Compare(operation, false, {Event(2, -1, "/a"), Event(2, -1, "/b")},
                     {Event(2, -1, "/b"), Event(2, -1, "/b")})
            .size() == 1);
}

TEST_CASE("only the intended differences are accepted") {
  Comparison comparison;
  const Operation operation = Asking(wire::kExists);
  CHECK(comparison.Compare(operation, true, {Event(1, -1, "/a")}, {Event(1, 7, "/a")}).empty());
  CHECK(comparison.Compare(operation, true, {Event(1, 7, "/a")}, {Event(1, -1, "/a")}).size() == 1);
  CHECK(comparison.known_differences().at("notification-zxid") == 1);

  auto items = [](wire::OpCode type, const std::string& stat) {
    std::string body;
    BigEndianWriter writer(&body);
    for (int i = 0; i < 2; ++i) {
      writer.Int(static_cast<int32_t>(type));
      writer.Int<uint8_t>(0);
      writer.Int<int32_t>(0);
      writer.String("/a");
      writer.Raw(stat);
    }
    writer.Raw(Bytes({-1}) + "\1" + Bytes({-1}));
    return Reply(1, 5, 0, body);
  };
  const std::string create = items(wire::kCreate, "");
  const std::string create2 = items(wire::kCreate2, StatBytes(5, 5, 1000, 0, 0));
  CHECK(Kinds(&comparison, create, create2, wire::kMulti).empty());
  CHECK(comparison.known_differences().at("create2-in-multi") == 2);
  CHECK(Kinds(&comparison, create2, create, wire::kMulti).size() == 1);

  const std::string found = Reply(1, 5, 0, "");
  const std::string none = Reply(1, 5, -121, "");
  CHECK(Kinds(&comparison, found, none, wire::kCheckWatches).empty());
  CHECK(Kinds(&comparison, none, found, wire::kCheckWatches).size() == 1);
  CHECK(Kinds(&comparison, found, none, wire::kRemoveWatches).size() == 1);

  Operation connect;
  connect.kind = OperationKind::kConnect;
  connect.connect = ConnectKind::kWrongPassword;
  Answer closed;
  closed.kind = AnswerKind::kClosed;
  CHECK(comparison.Compare(connect, false, {closed}, {}).empty());
  CHECK(comparison.Compare(connect, false, {}, {closed}).size() == 1);
  connect.connect = ConnectKind::kOwnSession;
  CHECK(comparison.Compare(connect, false, {closed}, {}).size() == 1);
}

TEST_CASE("a seed always generates the same operations, and every request occurs") {
  std::set<wire::OpCode> ops;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    Generator one(seed), two(seed);
    for (int i = 0; i < 500; ++i) {
      const Operation operation = one.Next();
      REQUIRE(operation.Describe() == two.Next().Describe());
      for (const Request& request : operation.requests) ops.insert(request.op);
    }
  }
  // A check occurs only in a multi, and only servers send a deleteContainer. ZooKeeper 3.8 has no
  // opcode above that of whoAmI.
  for (const rpc::zk::OpCodeInfo& info : rpc::zk::kOpCodes) {
    if (!rpc::zk::IsServed(info.op) || info.op > wire::kWhoAmI) continue;
    INFO(info.name);
    CHECK(ops.contains(info.op) == (info.op != wire::kCheck && info.op != wire::kDeleteContainer));
  }
}

TEST_CASE("requests are encoded as the protocol requires") {
  CHECK(MakeRead(wire::kGetData, Text("/a"), true).body == std::string("\0\0\0\2/a\1", 7));
  const Request create =
      MakeCreate(wire::kCreate, Text("/a"), Text("x"), std::vector<AclEntry>{{}}, 0);
  CHECK(create.body.size() == 0x32 - 8);
  CHECK(MakePathOnly(wire::kSync, Text()).body == "\xff\xff\xff\xff");
  CHECK(MakeMulti(wire::kMulti, {}).body == std::string("\xff\xff\xff\xff\1\xff\xff\xff\xff"));
}

}  // namespace
}  // namespace quorate::differential
