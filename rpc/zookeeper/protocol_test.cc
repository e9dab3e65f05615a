// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/protocol.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;
using tree::Zxid;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  std::string digits;
  for (char c : hex) {
    if (c != ' ') digits.push_back(c);
  }
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Returns the body of a request that is given with length prefix and header.
std::string Body(std::string_view hex) { return FromHex(hex).substr(12); }

TEST_CASE("a connect request of a new session is read, with and without the read-only flag") {
  const std::string packet = FromHex(
      "00000000 0000000000000009 00007530 0000000000000000 00000010"
      "00000000000000000000000000000000 01");
  auto request = DecodeConnectRequest(packet);
  REQUIRE(request.ok());
  CHECK(request->timeout_ms == 30000);
  CHECK(request->last_zxid_seen == 9);
  CHECK(request->session_id == 0);
  CHECK(request->password.size() == 16);
  CHECK(request->has_read_only);
  CHECK(request->read_only);
  auto old = DecodeConnectRequest(packet.substr(0, 44));
  REQUIRE(old.ok());
  CHECK_FALSE(old->has_read_only);
  CHECK_FALSE(DecodeConnectRequest(packet.substr(0, 43)).ok());
}

TEST_CASE("a connect response has the bytes that clients expect") {
  ConnectResponse response;
  response.timeout_ms = 30000;
  response.session_id = 0x0100001234567890;
  response.password = FromHex("000102030405060708090a0b0c0d0e0f");
  std::string out;
  AppendConnectResponse(response, &out);
  CHECK(out == FromHex("00000025 00000000 00007530 0100001234567890 00000010"
                       "000102030405060708090a0b0c0d0e0f 00"));
  response.has_read_only = false;
  out.clear();
  AppendConnectResponse(response, &out);
  CHECK(out.size() == 40);
}

TEST_CASE("a create is read, and answered with its path") {
  tree::Request request;
  std::vector<OpCode> shapes;
  const std::string body = Body(
      "00000032 00000001 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64"
      "00000006 616e796f6e65 00000000");
  REQUIRE(DecodeWrite(OpCode::kCreate, body, &request, &shapes) == ErrorCode::kOk);
  REQUIRE(request.ops.size() == 1);
  CHECK(request.ops[0].path == "/a");
  CHECK(request.ops[0].has_data);
  CHECK(request.ops[0].data == "x");
  CHECK(request.ops[0].acl == tree::OpenAcl());
  CHECK(request.ops[0].mode == tree::CreateMode::kPersistent);

  tree::OpResult result;
  result.path = "/a";
  std::string out;
  {
    ReplyWriter reply(&out, 1, Zxid(5), ErrorCode::kOk);
    WriteOpResult(OpCode::kCreate, result, reply.body());
  }
  CHECK(out == FromHex("00000016 00000001 0000000000000005 00000000 00000002 2f61"));
}

TEST_CASE("reads, notifications and errors have the bytes that clients expect") {
  ReadRequest read;
  const std::string body = Body("0000000f 00000002 00000004 00000002 2f61 01");
  REQUIRE(DecodeReadRequest(body, true, &read));
  CHECK(read.path == "/a");
  CHECK(read.watch);
  CHECK_FALSE(DecodeReadRequest(body.substr(0, 6), true, &read));

  std::string out;
  AppendNotification(tree::EventType::kNodeDataChanged, "/a", Zxid(6), &out);
  CHECK(out == FromHex("0000001e ffffffff 0000000000000006 00000000 00000003 00000003 00000002"
                       "2f61"));
  out.clear();
  { ReplyWriter reply(&out, 5, Zxid(7), ErrorCode::kNoNode); }
  CHECK(out == FromHex("00000010 00000005 0000000000000007 ffffff9b"));
}

TEST_CASE("a multi is read, and answered in success and in failure") {
  tree::Request request;
  std::vector<OpCode> shapes;
  const std::string body = Body(
      "00000037 00000004 0000000e 0000000d 00 ffffffff 00000002 2f61 00000000 00000002 00 ffffffff"
      "00000002 2f61 ffffffff ffffffff 01 ffffffff");
  REQUIRE(DecodeWrite(OpCode::kMulti, body, &request, &shapes) == ErrorCode::kOk);
  CHECK(request.multi);
  REQUIRE(request.ops.size() == 2);
  CHECK(request.ops[0].kind == tree::OpKind::kCheck);
  CHECK(request.ops[0].version == 0);
  CHECK(request.ops[1].kind == tree::OpKind::kDelete);
  CHECK(request.ops[1].version == -1);

  std::vector<tree::OpResult> results(2);
  std::string out;
  {
    ReplyWriter reply(&out, 4, Zxid(7), ErrorCode::kOk);
    WriteMultiResult(shapes, results, reply.body());
  }
  CHECK(out == FromHex("0000002b 00000004 0000000000000007 00000000 0000000d 00 00000000 00000002"
                       "00 00000000 ffffffff 01 ffffffff"));
  results[0].error = ErrorCode::kBadVersion;
  results[1].error = ErrorCode::kRuntimeInconsistency;
  out.clear();
  {
    ReplyWriter reply(&out, 4, Zxid(7), ErrorCode::kOk);
    WriteMultiResult(shapes, results, reply.body());
  }
  CHECK(out == FromHex("00000033 00000004 0000000000000007 00000000 ffffffff 00 ffffff99 ffffff99"
                       "ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff"));
}

TEST_CASE("a multi may hold only what ZooKeeper allows in it") {
  tree::Request request;
  std::vector<OpCode> shapes;
  // A multi of writes must not hold a getData (4).
  const std::string reads = FromHex("00000004 00 ffffffff 00000002 2f61 00 ffffffff 01 ffffffff");
  CHECK(DecodeWrite(OpCode::kMulti, reads, &request, &shapes) == ErrorCode::kMarshallingError);
  // A multi must not hold a deleteContainer (20).
  const std::string removal = FromHex("00000014 00 ffffffff 00000002 2f61 ffffffff 01 ffffffff");
  request = {};
  CHECK(DecodeWrite(OpCode::kMulti, removal, &request, &shapes) == ErrorCode::kMarshallingError);
  // A multi must not hold a check or setData of a null path; outside of a multi, the null path is a
  // bad argument.
  for (const char* hex : {"0000000d 00 ffffffff ffffffff ffffffff ffffffff 01 ffffffff",
                          "00000005 00 ffffffff ffffffff ffffffff ffffffff ffffffff 01 ffffffff"}) {
    request = {};
    CHECK(DecodeWrite(OpCode::kMulti, FromHex(hex), &request, &shapes) ==
          ErrorCode::kMarshallingError);
  }
  // An empty multi is legal.
  request = {};
  CHECK(DecodeWrite(OpCode::kMulti, FromHex("ffffffff 01 ffffffff"), &request, &shapes) ==
        ErrorCode::kOk);
  CHECK(request.ops.empty());
}

// Returns a create record without its opcode; the record of a createTTL if `ttl_ms` is given.
std::string CreateRecord(int32_t flags, std::optional<int64_t> ttl_ms) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String("/a");
  writer.Int<int32_t>(-1);
  writer.Int<int32_t>(0);
  writer.Int(flags);
  if (ttl_ms.has_value()) writer.Int(*ttl_ms);
  return body;
}

TEST_CASE("the opcode says what kind of node is created") {
  const auto kind_of = [](OpCode code, const std::string& body) {
    tree::Request request;
    std::vector<OpCode> shapes;
    REQUIRE(DecodeWrite(code, body, &request, &shapes) == ErrorCode::kOk);
    return request.ops.at(0).kind;
  };
  for (int32_t flags : {0, 3, 4, 9}) {
    const std::string record = CreateRecord(flags, std::nullopt);
    CHECK(kind_of(OpCode::kCreate, record) == tree::OpKind::kCreate);
    CHECK(kind_of(OpCode::kCreate2, record) == tree::OpKind::kCreate);
    CHECK(kind_of(OpCode::kCreateContainer, record) == tree::OpKind::kCreateContainer);
  }
  CHECK(kind_of(OpCode::kCreateTtl, CreateRecord(0, 7)) == tree::OpKind::kCreateTtl);

  tree::Request request;
  std::vector<OpCode> shapes;
  REQUIRE(DecodeWrite(OpCode::kCreateTtl, CreateRecord(6, 1234), &request, &shapes) ==
          ErrorCode::kOk);
  CHECK(request.ops[0].mode == tree::CreateMode::kPersistentSequentialWithTtl);
  CHECK(request.ops[0].ttl_ms == 1234);
  request = {};
  CHECK(DecodeWrite(OpCode::kCreateTtl, CreateRecord(6, std::nullopt), &request, &shapes) ==
        ErrorCode::kMarshallingError);
  request = {};
  CHECK(DecodeWrite(OpCode::kDeleteContainer, FromHex("00000002 2f61"), &request, &shapes) ==
        ErrorCode::kBadArguments);

  tree::OpResult result;
  result.path = "/a";
  for (OpCode code : {OpCode::kCreate2, OpCode::kCreateContainer, OpCode::kCreateTtl}) {
    std::string out;
    BigEndianWriter writer(&out);
    WriteOpResult(code, result, writer);
    CHECK(out.size() == 6 + 68);
  }
}

TEST_CASE("in a multi the flags say what kind of node is created") {
  struct Case {
    OpCode code;
    int32_t flags;
    std::optional<int64_t> ttl_ms;
    tree::OpKind kind;
    OpCode shape;
  };
  using tree::OpKind;
  const std::vector<Case> cases = {
      {OpCode::kCreate, 1, std::nullopt, OpKind::kCreate, OpCode::kCreate},
      {OpCode::kCreate2, 0, std::nullopt, OpKind::kCreate, OpCode::kCreate2},
      {OpCode::kCreate, 4, std::nullopt, OpKind::kCreateContainer, OpCode::kCreate2},
      {OpCode::kCreateContainer, 4, std::nullopt, OpKind::kCreateContainer, OpCode::kCreate2},
      {OpCode::kCreateContainer, 0, std::nullopt, OpKind::kCreate, OpCode::kCreate},
      {OpCode::kCreateTtl, 5, 10, OpKind::kCreateTtl, OpCode::kCreate2},
      {OpCode::kCreateTtl, 6, 0, OpKind::kCreateTtl, OpCode::kCreate2},
      {OpCode::kCreateTtl, 4, 10, OpKind::kCreateContainer, OpCode::kCreate2},
      {OpCode::kCreateTtl, 2, 10, OpKind::kCreate, OpCode::kCreate},
      {OpCode::kCreate, 9, std::nullopt, OpKind::kCreate, OpCode::kCreate},
  };
  const auto decode = [](OpCode code, const std::string& record, tree::Request* request,
                         std::vector<OpCode>* shapes) {
    std::string body;
    BigEndianWriter writer(&body);
    writer.Int(static_cast<int32_t>(code));
    writer.Raw(FromHex("00 ffffffff"));
    writer.Raw(record);
    writer.Raw(FromHex("ffffffff 01 ffffffff"));
    return DecodeWrite(OpCode::kMulti, body, request, shapes);
  };
  for (const Case& each : cases) {
    CAPTURE(static_cast<int32_t>(each.code), each.flags);
    tree::Request request;
    std::vector<OpCode> shapes;
    const std::string record = CreateRecord(each.flags, each.ttl_ms);
    REQUIRE(decode(each.code, record, &request, &shapes) == ErrorCode::kOk);
    CHECK(request.ops.at(0).kind == each.kind);
    CHECK(shapes == std::vector<OpCode>{each.shape});
  }
  for (OpCode code : {OpCode::kCreate, OpCode::kCreate2, OpCode::kCreateContainer}) {
    tree::Request request;
    std::vector<OpCode> shapes;
    CHECK(decode(code, CreateRecord(5, std::nullopt), &request, &shapes) ==
          ErrorCode::kMarshallingError);
  }
}

TEST_CASE("null and empty data are told apart") {
  std::string out;
  BigEndianWriter writer(&out);
  WriteData(false, {}, writer);
  WriteData(true, {}, writer);
  CHECK(out == FromHex("ffffffff 00000000"));
}

TEST_CASE("any bytes either decode or are refused") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50000; ++round) {
    std::string bytes;
    const size_t size = random() % 60;
    // Most bytes are small, so that lengths and counts are often plausible.
    while (bytes.size() < size)
      bytes.push_back(static_cast<char>(random() % 4 == 0 ? random() : random() % 3));
    ReadRequest read;
    DecodeReadRequest(bytes, true, &read);
    AuthRequest auth;
    DecodeAuthRequest(bytes, &auth);
    SetWatchesRequest watches;
    DecodeSetWatches(OpCode::kSetWatches2, bytes, &watches);
    (void)DecodeConnectRequest(bytes);
    for (OpCode op : {OpCode::kCreate, OpCode::kCreateTtl, OpCode::kDelete, OpCode::kSetData,
                      OpCode::kSetAcl, OpCode::kMulti}) {
      tree::Request request;
      std::vector<OpCode> shapes;
      if (DecodeWrite(op, bytes, &request, &shapes) != ErrorCode::kOk) continue;
      for (const tree::Op& each : request.ops) {
        CHECK(each.path.size() + each.data.size() <= bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace quorate::rpc::zk
