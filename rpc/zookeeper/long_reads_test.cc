// SPDX-License-Identifier: Apache-2.0

// Requests that read much of the tree: they are answered in pieces, between which the tree is
// unlocked. The work in one hold of the lock is counted, not timed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;
using Strings = std::vector<std::string>;

constexpr int kMany = 30'000;
// A piece may exceed kNodesPerHold, because it completes the group of children that it has begun,
// and because other requests may have read znodes before it in the same hold.
constexpr size_t kHoldMax = 3 * kNodesPerHold;

std::string NameOf(int i) { return "n" + std::to_string(i); }

Strings SortedNames(BigEndianReader& reader) {
  Strings names;
  for (int32_t left = reader.Int<int32_t>(); left > 0; --left) names.emplace_back(reader.String());
  std::sort(names.begin(), names.end());
  REQUIRE(reader.ok());
  return names;
}

class LargeTree : public Fixture {
 public:
  LargeTree() {
    REQUIRE(Call(writer, OpCode::kCreate, Create("/d", "")).error == ErrorCode::kOk);
    REQUIRE(Call(writer, OpCode::kCreate, Create("/d/m", "")).error == ErrorCode::kOk);
    for (int begin = 0; begin < kMany; begin += 1000) {
      std::string multi;
      BigEndianWriter to(&multi);
      for (int i = begin; i < begin + 1000; ++i) {
        WriteMultiResultHeader(OpCode::kCreate, to);
        to.Raw(Create("/d/m/" + NameOf(i), "", 1));
      }
      WriteMultiEnd(to);
      REQUIRE(Call(writer, OpCode::kMulti, multi).error == ErrorCode::kOk);
    }
  }
  // Sends a request, and runs `iterations` iterations of the loop.
  void Begin(OpCode op, const std::string& body, int iterations) {
    Write(reader, 77, op, body);
    for (; iterations > 0; --iterations) REQUIRE(sockets.RunIteration());
    REQUIRE(sockets.received(reader).empty());
  }
  // Applies a write without an iteration of the loop.
  void Change(OpCode op, const std::string& body) {
    tree::Request request;
    std::vector<OpCode> shapes;
    REQUIRE(DecodeWrite(op, body, &request, &shapes) == ErrorCode::kOk);
    CommandBatch batch;
    tree::CommandHeader header;
    header.proposer = service.proposer();
    header.proposer_tag = other_tag;
    tree::AppendRequest(header, request, batch.bytes.get());
    batch.commands.push_back({0, batch.bytes->size()});
    service.Submit(std::move(batch));
    service.Apply(&frontends);
  }
  std::string Version(const std::string& path) {
    std::string body = Path(path);
    BigEndianWriter(&body).Int(tree::kAnyVersion);
    return body;
  }
  size_t LongestHold() const { return loop.longest_hold(); }

  const uint32_t writer = ConnectSession();
  const uint32_t reader = ConnectSession();
  const uint32_t other_tag = 1'000'000;  // not the tag of a connection
};

TEST_CASE("a long list is read in pieces and is of one moment, with its watch") {
  LargeTree f;
  f.Begin(OpCode::kGetChildren2, PathAndWatch("/d/m", true), 3);
  f.Change(OpCode::kCreate, Create("/d/m/new", ""));
  for (int i = 0; i < kMany; i += 3) f.Change(OpCode::kDelete, f.Version("/d/m/" + NameOf(i)));
  // A later request waits for the list, but a ping does not.
  f.Write(f.reader, 78, OpCode::kExists, PathAndWatch("/d", false));
  f.Write(f.reader, kPingXid, OpCode::kPing, "");
  f.Settle();
  CHECK(f.Next(f.reader).xid == kPingXid);
  const Packet packet = f.Next(f.reader);
  CHECK(packet.xid == 77);
  REQUIRE(packet.error == ErrorCode::kOk);
  CHECK(packet.zxid == f.service.ReadTree()->last_zxid().value());
  BigEndianReader reader(packet.body);
  Strings expected = {"new"};
  for (int i = 0; i < kMany; ++i) {
    if (i % 3 != 0) expected.push_back(NameOf(i));
  }
  std::sort(expected.begin(), expected.end());
  CHECK(SortedNames(reader) == expected);
  CHECK(reader.rest().size() == 68);  // the stat
  CHECK(f.Next(f.reader).xid == 78);
  f.Change(OpCode::kCreate, Create("/d/m/later", ""));
  f.Settle();
  CHECK(f.Next(f.reader).xid == kNotificationXid);
  CHECK(f.LongestHold() <= kHoldMax);
}

TEST_CASE("a write behind a long read waits for it, and is made though its client has gone") {
  LargeTree f;
  f.Begin(OpCode::kGetChildren, PathAndWatch("/d/m", false), 2);
  f.Write(f.reader, 78, OpCode::kCreate, Create("/d/behind", ""));
  SECTION("it stays") {
    f.Settle();
    CHECK(f.Next(f.reader).xid == 77);
    CHECK(f.Next(f.reader).xid == 78);
  }
  SECTION("it goes") {
    f.sockets.RunIteration();
    f.sockets.HangUp(f.reader);
    f.Settle();
  }
  tree::Stat stat;
  CHECK(f.service.ReadTree()->Exists("/d/behind", &stat) == ErrorCode::kOk);
}

TEST_CASE("a znode that goes while its children are listed is not there") {
  LargeTree f;
  f.Begin(OpCode::kGetChildren, PathAndWatch("/d/m", true), 2);
  for (int i = 0; i < kMany; ++i) f.Change(OpCode::kDelete, f.Version("/d/m/" + NameOf(i)));
  f.Change(OpCode::kDelete, f.Version("/d/m"));
  f.Settle();
  CHECK(f.Next(f.reader).error == ErrorCode::kNoNode);
}

TEST_CASE("many reads, counts, ephemerals and watches are done in pieces") {
  LargeTree f;
  const auto call = [&f](uint32_t tag, OpCode op, const std::string& body) {
    const Packet packet = f.Call(tag, op, body);
    REQUIRE(packet.error == ErrorCode::kOk);
    return packet;
  };
  std::string lists;
  BigEndianWriter to(&lists);
  for (OpCode op : {OpCode::kGetChildren, OpCode::kGetData, OpCode::kGetChildren}) {
    WriteMultiResultHeader(op, to);
    to.String("/d/m");
    to.Int<uint8_t>(0);
  }
  for (int i = 0; i < kMany; ++i) {
    WriteMultiResultHeader(OpCode::kGetData, to);
    to.String("/d/m/" + NameOf(i));
    to.Int<uint8_t>(0);
  }
  WriteMultiEnd(to);
  CHECK(call(f.reader, OpCode::kMultiRead, lists).body.size() > size_t{kMany} * 90);

  const Packet count = call(f.reader, OpCode::kGetAllChildrenNumber, Path("/d"));
  BigEndianReader number(count.body);
  CHECK(number.Int<int32_t>() == kMany + 1);

  const Packet ephemerals = call(f.writer, OpCode::kGetEphemerals, Path("/d/m/n1"));
  BigEndianReader paths(ephemerals.body);
  CHECK(SortedNames(paths).size() == 11'111);

  std::string watches(8, '\0');
  BigEndianWriter watched(&watches);
  watched.Int<int32_t>(kMany);
  for (int i = 0; i < kMany; ++i) watched.String("/d/m/" + NameOf(i));
  watched.Int<int32_t>(0);
  watched.Int<int32_t>(0);
  f.Write(f.reader, 78, OpCode::kSetWatches, watches);
  f.Settle();
  int told = 0;  // all znodes have changed since zxid 0
  while (f.Next(f.reader).xid == kNotificationXid) ++told;
  CHECK(told == kMany);
  CHECK(f.LongestHold() <= kHoldMax);
}

void Skip(BigEndianReader& reader, int bytes) {
  for (; bytes > 0; --bytes) reader.Int<uint8_t>();
}

// Returns the data of the getData items of a multiRead, in order.
Strings DataItemsOf(const Packet& packet) {
  Strings data;
  BigEndianReader reader(packet.body);
  for (;;) {
    const auto op = static_cast<OpCode>(reader.Int<int32_t>());
    const bool at_end = reader.Int<uint8_t>() != 0;
    reader.Int<int32_t>();
    REQUIRE(reader.ok());
    if (at_end) return data;
    if (op == OpCode::kGetData) {
      data.emplace_back(reader.String());
      Skip(reader, 68);
    } else {
      for (int32_t left = reader.Int<int32_t>(); left > 0; --left) reader.String();
    }
  }
}

TEST_CASE("a multiRead in pieces shows nothing older than an event before its reply") {
  LargeTree f;
  const auto watch = [&f](const std::string& path, int32_t mode) {
    std::string body = Path(path);
    BigEndianWriter(&body).Int(mode);
    REQUIRE(f.Call(f.reader, OpCode::kAddWatch, body).error == ErrorCode::kOk);
  };
  watch("/d/m/" + NameOf(1), 0);
  watch("/d/m/" + NameOf(2), 0);
  watch("/d/small", 1);
  REQUIRE(f.Call(f.writer, OpCode::kCreate, Create("/d/small", "")).error == ErrorCode::kOk);
  CHECK(f.Next(f.reader).xid == kNotificationXid);
  std::string body;
  BigEndianWriter to(&body);
  const auto add = [&to](OpCode op, const std::string& path) {
    WriteMultiResultHeader(op, to);
    to.String(path);
    to.Int<uint8_t>(0);
  };
  add(OpCode::kGetChildren, "/d/small");
  for (int i = 0; i < kMany; ++i) add(OpCode::kGetData, "/d/m/" + NameOf(i));
  add(OpCode::kGetChildren, "/d/m");
  add(OpCode::kGetData, "/d/m/" + NameOf(1));
  WriteMultiEnd(to);
  f.Begin(OpCode::kMultiRead, body, 3);
  const std::string changed = "changed";
  f.Change(OpCode::kSetData, SetData("/d/m/" + NameOf(1), changed));
  f.Change(OpCode::kDelete, f.Version("/d/m/" + NameOf(2)));
  f.Change(OpCode::kCreate, Create("/d/small/child", ""));
  f.Change(OpCode::kSetData, SetData("/d/m/" + NameOf(3), changed));  // no watch, so no event
  f.Settle();
  for (int events = 0; events < 3; ++events) CHECK(f.Next(f.reader).xid == kNotificationXid);
  const Packet packet = f.Next(f.reader);
  REQUIRE(packet.error == ErrorCode::kOk);
  CHECK(packet.zxid == f.service.ReadTree()->last_zxid().value());
  BigEndianReader reader(packet.body);
  Skip(reader, 9);
  CHECK(SortedNames(reader) == Strings{"child"});
  const Strings data = DataItemsOf(packet);
  REQUIRE(data.size() == kMany);  // one of the results is an error
  CHECK(data[1] == changed);
  CHECK(data.back() == changed);
  CHECK(f.LongestHold() <= kHoldMax);
}

TEST_CASE("getEphemerals in pieces names none whose deletion was told before its reply") {
  LargeTree f;
  const std::string gone = "/d/m/" + NameOf(0);
  std::string watch = Path("/d/m");
  BigEndianWriter(&watch).Int<int32_t>(1);
  REQUIRE(f.Call(f.writer, OpCode::kAddWatch, watch).error == ErrorCode::kOk);
  f.Write(f.writer, 77, OpCode::kGetEphemerals, Path("/"));
  REQUIRE(f.sockets.RunIteration());
  f.Change(OpCode::kDelete, f.Version(gone));
  f.Settle();
  CHECK(f.Next(f.writer).xid == kNotificationXid);
  const Packet packet = f.Next(f.writer);
  REQUIRE(packet.xid == 77);
  BigEndianReader paths(packet.body);
  const Strings names = SortedNames(paths);
  CHECK(names.size() == kMany - 1);
  CHECK_FALSE(std::binary_search(names.begin(), names.end(), gone));
}

TEST_CASE("getEphemerals begins again if the one that it has got to goes") {
  LargeTree f;
  f.Write(f.writer, 77, OpCode::kGetEphemerals, Path("/"));
  REQUIRE(f.sockets.RunIteration());
  for (size_t pieces : {1, 2}) {  // an iteration reads one or two pieces
    const int last = static_cast<int>(pieces * kNodesPerHold) - 1;
    f.Change(OpCode::kDelete, f.Version("/d/m/" + NameOf(last)));
  }
  f.Settle();
  const Packet packet = f.Next(f.writer);
  REQUIRE(packet.error == ErrorCode::kOk);
  BigEndianReader paths(packet.body);
  CHECK(SortedNames(paths).size() == kMany - 2);
}

TEST_CASE("long lists of many connections do not hold the tree together") {
  LargeTree f;
  std::vector<uint32_t> readers;
  for (int i = 0; i < 20; ++i) readers.push_back(f.ConnectSession());
  for (uint32_t tag : readers) f.Write(tag, 1, OpCode::kGetChildren, PathAndWatch("/d/m", false));
  f.Settle();
  for (uint32_t tag : readers) CHECK(f.Next(tag).error == ErrorCode::kOk);
  CHECK(f.LongestHold() <= kHoldMax);
}

TEST_CASE("the watches of a connection that goes are dropped in pieces") {
  LargeTree f;
  std::string watches(8, '\x7f');
  BigEndianWriter to(&watches);
  to.Int<int32_t>(kMany);
  for (int i = 0; i < kMany; ++i) to.String("/d/m/" + NameOf(i));
  to.Int<int32_t>(0);
  to.Int<int32_t>(0);
  REQUIRE(f.Call(f.reader, OpCode::kSetWatches, watches).error == ErrorCode::kOk);
  const auto count = [&f] {
    MutexLock lock(&f.frontend.watches().mutex);
    return f.frontend.watches().table.watch_count();
  };
  CHECK(count() == kMany);
  f.sockets.HangUp(f.reader);
  CHECK(count() == 0);
}

}  // namespace
}  // namespace quorate::rpc::zk
