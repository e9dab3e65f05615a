// SPDX-License-Identifier: Apache-2.0

// The operations 500 to 507 of ClickHouse Keeper, and the znodes that announce them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rpc/frontend/listing.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using Strings = std::vector<std::string>;
using tree::ErrorCode;

constexpr int32_t kEphemeral = 1;

std::string PathAndInt(const std::string& path, int32_t number) {
  std::string body = Path(path);
  BigEndianWriter(&body).Int(number);
  return body;
}

std::string FilteredList(const std::string& path, bool watch, ChildKind kind) {
  return PathAndWatch(path, watch) + std::string(1, static_cast<char>(kind));
}

std::string Detailed(const std::string& path, ChildKind kind, bool stats, bool data,
                     bool watch = false) {
  return FilteredList(path, watch, kind) + std::string(1, stats ? '\1' : '\0') +
         std::string(1, data ? '\1' : '\0');
}

std::string CheckStat(const std::string& path, int32_t version, tree::Stat stat) {
  std::string body = PathAndInt(path, version);
  BigEndianWriter writer(&body);
  WriteStat(stat, writer);
  return body;
}

tree::Stat AnyStat() {
  const tree::Zxid any(-1);
  return {any, any, -1, -1, -1, -1, -1, tree::SessionId(-1), -1, -1, any};
}

// Returns a request of each operation.
std::vector<std::pair<OpCode, std::string>> OneOfEach() {
  return {{OpCode::kFilteredList, FilteredList("/", false, ChildKind::kAll)},
          {OpCode::kCheckNotExists, PathAndInt("/a", -1)},
          {OpCode::kCreateIfNotExists, Create("/a", "")},
          {OpCode::kRemoveRecursive, PathAndInt("/a", 10)},
          {OpCode::kCheckStat, CheckStat("/a", -1, AnyStat())},
          {OpCode::kTryRemove, PathAndInt("/a", -1)},
          {OpCode::kFilteredListDetailed, Detailed("/", ChildKind::kAll, true, true)},
          {OpCode::kListRecursive, PathAndInt("/", 10)}};
}

// The contents of a reply to a list.
struct Listed {
  Strings names;  // sorted, unless they are paths
  Strings data;   // in the order of the names as they were sent
  size_t stats = 0;
  int32_t num_children = 0;
};

tree::Stat ReadStat(BigEndianReader& reader) {
  tree::Stat stat;
  stat.czxid = tree::Zxid(reader.Int<int64_t>());
  reader.Raw(24);
  stat.version = reader.Int<int32_t>();
  reader.Raw(8);
  stat.ephemeral_owner = tree::SessionId(reader.Int<int64_t>());
  stat.data_length = reader.Int<int32_t>();
  stat.num_children = reader.Int<int32_t>();
  reader.Raw(8);
  return stat;
}

Listed ReadList(BigEndianReader& reader, bool is_detailed) {
  Listed listed;
  for (int32_t left = reader.Int<int32_t>(); left > 0; --left) {
    listed.names.emplace_back(reader.String());
  }
  listed.num_children = ReadStat(reader).num_children;
  if (is_detailed) {
    listed.stats = static_cast<size_t>(reader.Int<int32_t>());
    for (size_t left = listed.stats; left > 0; --left) ReadStat(reader);
    for (int32_t left = reader.Int<int32_t>(); left > 0; --left) {
      listed.data.emplace_back(reader.String());
    }
  }
  CHECK(reader.ok());
  return listed;
}

Listed ListIn(const Packet& packet, bool is_detailed) {
  CHECK(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  Listed listed = ReadList(reader, is_detailed);
  CHECK(reader.empty());
  if (listed.data.empty()) std::sort(listed.names.begin(), listed.names.end());
  return listed;
}

Strings PathsIn(const Packet& packet) {
  CHECK(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  Strings paths;
  for (int32_t left = reader.Int<int32_t>(); left > 0; --left) paths.emplace_back(reader.String());
  CHECK(reader.ok());
  CHECK(reader.empty());
  return paths;
}

// /p has two persistent children and one ephemeral one.
uint32_t ConnectWithChildren(Fixture* f) {
  const uint32_t tag = f->ConnectSession();
  for (const auto& [path, data, flags] : std::vector<std::tuple<std::string, std::string, int32_t>>{
           {"/p", "", 0}, {"/p/a", "A", 0}, {"/p/b", "B", 0}, {"/p/e", "E", kEphemeral}}) {
    REQUIRE(f->Call(tag, OpCode::kCreate, Create(path, data, flags)).error == ErrorCode::kOk);
  }
  return tag;
}

// Creates a znode that nobody may read.
void CreateUnreadable(Fixture* f, uint32_t tag, const std::string& path) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.String("");
  WriteAcl({{tree::permission::kDelete | tree::permission::kCreate, {"world", "anyone"}}}, writer);
  writer.Int<int32_t>(0);
  REQUIRE(f->Call(tag, OpCode::kCreate, body).error == ErrorCode::kOk);
}

TEST_CASE("the feature flags name what is served, packed from the highest bit on") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  // All of 0 to 10 but 5, watches in a multiRead.
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/keeper/feature_flags", false))) ==
        "\xFB\xE0");
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/keeper/api_version", false))) == "3");
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/keeper", false)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kGetAcl, Path("/keeper")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/keeper/none", false)).error ==
        ErrorCode::kNoNode);
  CHECK(PathsIn(f.Call(tag, OpCode::kGetChildren, PathAndWatch("/keeper", false))) ==
        Strings{"api_version", "feature_flags"});
  const Listed all = ListIn(
      f.Call(tag, OpCode::kFilteredListDetailed, Detailed("/keeper", ChildKind::kAll, true, true)),
      true);
  CHECK(all.data == Strings{"3", "\xFB\xE0"});
  CHECK(all.num_children == 2);
}

TEST_CASE("the virtual znodes are in no list, and cannot be written") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  CHECK(PathsIn(f.Call(tag, OpCode::kGetChildren, PathAndWatch("/", false))) ==
        Strings{"zookeeper"});
  CHECK(f.Call(tag, OpCode::kCreate, Create("/keeper", "")).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/keeper/x", "")).error == ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kSetData, SetData("/keeper/api_version", "9")).error ==
        ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kRemoveRecursive, PathAndInt("/keeper", 10)).error ==
        ErrorCode::kBadArguments);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/keeper2", "")).error == ErrorCode::kOk);
}

TEST_CASE("without the extensions, nothing is announced, and each of them is unknown") {
  Fixture f([] {
    Config config = TestConfig();
    config.keeper_extensions = GENERATE(true, false);
    return config;
  }());
  if (f.config.keeper_extensions) f.service.version = tree::kVersionKeeper - 1;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/keeper/feature_flags", false)).error ==
        ErrorCode::kNoNode);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/keeper", "mine")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kMulti, Multi({{OpCode::kTryRemove, PathAndInt("/a", -1)}})).error ==
        ErrorCode::kMarshallingError);
  CHECK(
      f.Call(tag, OpCode::kMultiRead, Multi({{OpCode::kExists, PathAndWatch("/", false)}})).error ==
      ErrorCode::kMarshallingError);
  for (const auto& [op, body] : OneOfEach()) {
    const uint32_t other = f.ConnectSession();
    f.Write(other, 5, op, body);
    f.Settle();
    CHECK(f.Next(other).error == ErrorCode::kUnimplemented);
    CHECK_FALSE(f.sockets.open(other));
  }
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/a", false)).error == ErrorCode::kNoNode);
}

TEST_CASE("a filtered list has the children of one kind, and the stat of all") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const auto names = [&](ChildKind kind) {
    const Listed listed =
        ListIn(f.Call(tag, OpCode::kFilteredList, FilteredList("/p", false, kind)), false);
    CHECK(listed.num_children == 3);
    return listed.names;
  };
  CHECK(names(ChildKind::kAll) == Strings{"a", "b", "e"});
  CHECK(names(ChildKind::kPersistent) == Strings{"a", "b"});
  CHECK(names(ChildKind::kEphemeral) == Strings{"e"});
  CHECK(f.Call(tag, OpCode::kFilteredList, FilteredList("/none", false, ChildKind::kEphemeral))
            .error == ErrorCode::kNoNode);
  CHECK(f.Call(tag, OpCode::kFilteredList, FilteredList("/p", false, ChildKind(3))).error ==
        ErrorCode::kMarshallingError);
}

TEST_CASE("one child that may not be read refuses a list that reads the children") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  CreateUnreadable(&f, tag, "/p/secret");
  CHECK(f.Call(tag, OpCode::kFilteredList, FilteredList("/p", false, ChildKind::kAll)).error ==
        ErrorCode::kOk);
  for (const ChildKind kind : {ChildKind::kPersistent, ChildKind::kEphemeral}) {
    CHECK(f.Call(tag, OpCode::kFilteredList, FilteredList("/p", false, kind)).error ==
          ErrorCode::kNoAuth);
  }
  CHECK(f.Call(tag, OpCode::kFilteredListDetailed, Detailed("/p", ChildKind::kAll, false, true))
            .error == ErrorCode::kNoAuth);
}

TEST_CASE("a list has stats and data where they are asked for") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const auto read = [&](ChildKind kind, bool stats, bool data) {
    return ListIn(f.Call(tag, OpCode::kFilteredListDetailed, Detailed("/p", kind, stats, data)),
                  true);
  };
  Listed listed = read(ChildKind::kAll, true, true);
  REQUIRE(listed.names.size() == 3);
  CHECK(listed.stats == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(listed.data[i] == std::string(1, static_cast<char>(listed.names[i][0] - 'a' + 'A')));
  }
  listed = read(ChildKind::kEphemeral, false, true);
  CHECK(listed.names == Strings{"e"});
  CHECK(listed.data == Strings{"E"});
  CHECK(listed.stats == 0);
  listed = read(ChildKind::kPersistent, true, false);
  CHECK(listed.names == Strings{"a", "b"});
  CHECK(listed.stats == 2);
  CHECK(listed.data.empty());
  listed = read(ChildKind::kAll, false, false);
  CHECK(listed.names == Strings{"a", "b", "e"});
  CHECK(listed.stats == 0);
}

TEST_CASE("a client that reconnects hears nothing of its watches of virtual znodes") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int<int64_t>(0);
  writer.Int<int32_t>(1);
  writer.String("/keeper/feature_flags");
  writer.Int<int32_t>(0);
  writer.Int<int32_t>(0);
  CHECK(f.Call(tag, OpCode::kSetWatches, body).error == ErrorCode::kOk);
  CHECK(f.sockets.received(tag).empty());
}

TEST_CASE("a filtered list sets a watch, which any child fires") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const uint32_t other = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kFilteredList, FilteredList("/p", true, ChildKind::kEphemeral)).error ==
        ErrorCode::kOk);
  f.Call(other, OpCode::kCreate, Create("/p/new", ""));
  CHECK(f.Next(tag).xid == kNotificationXid);
}

// Creates /p with `count` children.
void CreateMany(Fixture* f, uint32_t tag, size_t count) {
  f->Call(tag, OpCode::kCreate, Create("/p", ""));
  for (size_t made = 0; made < count;) {
    std::vector<std::pair<OpCode, std::string>> items;
    for (; items.size() < 1000 && made < count; ++made) {
      items.emplace_back(OpCode::kCreate, Create("/p/" + std::to_string(made), "old"));
    }
    REQUIRE(f->Call(tag, OpCode::kMulti, Multi(items)).error == ErrorCode::kOk);
  }
}

TEST_CASE("long detailed lists in a multiRead are read in pieces, and what follows them too") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const size_t count = kNodesPerHold * 3;
  CreateMany(&f, tag, count);
  const std::pair<OpCode, std::string> list = {OpCode::kFilteredListDetailed,
                                               Detailed("/p", ChildKind::kPersistent, true, true)};
  const Packet packet =
      f.Call(tag, OpCode::kMultiRead,
             Multi({list, {OpCode::kGetData, PathAndWatch("/p/7", false)}, list}));
  REQUIRE(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  reader.Raw(9);
  CHECK(ReadList(reader, true).data.size() == count);
  reader.Raw(9);
  CHECK(reader.String() == "old");
  reader.Raw(68);
  reader.Raw(9);
  CHECK(ReadList(reader, true).data.size() == count);
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

// The list takes many pieces, and shows the children at the last one.
TEST_CASE("a long detailed list shows the changes that were made while it was read") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  const size_t count = kNodesPerHold * 3;
  CreateMany(&f, tag, count);
  f.Write(tag, 1, OpCode::kFilteredListDetailed,
          Detailed("/p", ChildKind::kPersistent, true, true, /*watch=*/true));
  REQUIRE(f.sockets.RunIteration());
  CHECK(f.sockets.received(tag).empty());
  const std::string last = std::to_string(count - 1);
  f.sockets.Write(other, RequestPacket(1, OpCode::kMulti,
                                       Multi({{OpCode::kDelete, PathAndInt("/p/0", -1)},
                                              {OpCode::kDelete, PathAndInt("/p/" + last, -1)},
                                              {OpCode::kCreate, Create("/p/new", "new")}})));
  REQUIRE(f.sockets.RunIteration());
  CHECK(f.sockets.received(tag).empty());
  f.service.Apply(&f.frontends);
  f.Settle();
  const Packet packet = f.Next(tag);
  CHECK(packet.xid == 1);
  const Listed listed = ListIn(packet, true);
  CHECK(listed.names.size() == count - 1);
  CHECK(listed.stats == count - 1);
  const auto has = [&](const std::string& name) {
    return std::count(listed.names.begin(), listed.names.end(), name);
  };
  CHECK(has("0") == 0);
  CHECK(has(last) == 0);
  CHECK(has("new") == 1);
  CHECK(has("1") == 1);
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

TEST_CASE("a recursive list is breadth first, without its root, and is cut at its maximum") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  for (const char* path : {"/r", "/r/a", "/r/a/x", "/r/a/x/y", "/r/b", "/r/b/z"}) {
    f.Call(tag, OpCode::kCreate, Create(path, ""));
  }
  const auto list = [&](const std::string& path, int32_t max) {
    return PathsIn(f.Call(tag, OpCode::kListRecursive, PathAndInt(path, max)));
  };
  Strings all = list("/r", 100);
  REQUIRE(all.size() == 5);
  std::sort(all.begin(), all.begin() + 2);
  CHECK(all[0] == "/r/a");
  CHECK(all[1] == "/r/b");
  std::sort(all.begin() + 2, all.begin() + 4);
  CHECK(all[2] == "/r/a/x");
  CHECK(all[3] == "/r/b/z");
  CHECK(all[4] == "/r/a/x/y");
  CHECK(list("/r", 3).size() == 3);
  CHECK(list("/r", 0).empty());
  CHECK(list("/r/a/x/y", 10).empty());
  CHECK(f.Call(tag, OpCode::kListRecursive, PathAndInt("/none", 10)).error == ErrorCode::kNoNode);
  CreateUnreadable(&f, tag, "/r/secret");
  f.Call(tag, OpCode::kCreate, Create("/r/secret/below", ""));
  CHECK(list("/r", 100).size() == 6);
  CHECK(f.Call(tag, OpCode::kListRecursive, PathAndInt("/r/secret", 10)).error ==
        ErrorCode::kNoAuth);
}

void CreateChildren(Fixture* f, uint32_t tag, const std::string& parent, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    const std::string path = parent + "/" + std::to_string(i);
    REQUIRE(f->Call(tag, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  }
}

// Creates a parent with a path of 100 KB, and `count` children. Returns the parent's path.
std::string CreateLongPaths(Fixture* f, uint32_t tag, size_t count) {
  const std::string parent = "/" + std::string(100'000, 'p');
  f->Call(tag, OpCode::kCreate, Create(parent, ""));
  CreateChildren(f, tag, parent, 0, count);
  return parent;
}

TEST_CASE("a recursive list of long paths is read in pieces, and refused if it is too long") {
  Config config = TestConfig();
  config.max_reply_bytes = 4 << 20;
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  const std::string parent = CreateLongPaths(&f, tag, 30);
  f.Write(tag, 1, OpCode::kListRecursive, PathAndInt(parent, -1));
  // A path of this length costs as much to copy as a look at hundreds of znodes.
  REQUIRE(f.sockets.RunIteration());
  CHECK(f.sockets.received(tag).empty());
  f.Settle();
  CHECK(PathsIn(f.Next(tag)).size() == 30);
  CreateChildren(&f, tag, parent, 30, 100);
  CHECK(f.Call(tag, OpCode::kListRecursive, PathAndInt(parent, -1)).error == kReplyTooLarge);
}

TEST_CASE("a detailed list of long paths is read in pieces") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const size_t count = 100;
  const std::string parent = CreateLongPaths(&f, tag, count);
  f.Write(tag, 1, OpCode::kFilteredListDetailed, Detailed(parent, ChildKind::kAll, true, true));
  // Each look-up costs as much as hundreds of others.
  REQUIRE(f.sockets.RunIteration());
  CHECK(f.sockets.received(tag).empty());
  f.Settle();
  CHECK(ListIn(f.Next(tag), true).names.size() == count);
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

TEST_CASE("the conditional writes, alone") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const auto error = [&](OpCode op, const std::string& body) {
    return f.Call(tag, op, body).error;
  };
  CHECK(error(OpCode::kCheckNotExists, PathAndInt("/none", -1)) == ErrorCode::kOk);
  CHECK(error(OpCode::kCheckNotExists, PathAndInt("/p/a", -1)) == ErrorCode::kNodeExists);
  CHECK(error(OpCode::kCheckNotExists, PathAndInt("/p/a", 0)) == ErrorCode::kNodeExists);
  CHECK(error(OpCode::kCheckNotExists, PathAndInt("/p/a", 7)) == ErrorCode::kOk);
  for (const char* data : {"first", "second"}) {
    const Packet made = f.Call(tag, OpCode::kCreateIfNotExists, Create("/n", data));
    CHECK(made.error == ErrorCode::kOk);
    CHECK(DataOf(made) == "/n");
  }
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/n", false))) == "first");
  tree::Stat expected = AnyStat();
  expected.version = 0;
  expected.data_length = 5;
  CHECK(error(OpCode::kCheckStat, CheckStat("/n", 0, expected)) == ErrorCode::kOk);
  expected.data_length = 6;
  CHECK(error(OpCode::kCheckStat, CheckStat("/n", -1, expected)) == ErrorCode::kBadVersion);
  CHECK(error(OpCode::kCheckStat, CheckStat("/none", -1, AnyStat())) == ErrorCode::kNoNode);
  CHECK(error(OpCode::kTryRemove, PathAndInt("/none", -1)) == ErrorCode::kOk);
  CHECK(error(OpCode::kTryRemove, PathAndInt("/p", -1)) == ErrorCode::kOk);
  CHECK(error(OpCode::kTryRemove, PathAndInt("/n", 7)) == ErrorCode::kOk);
  CHECK(error(OpCode::kExists, PathAndWatch("/n", false)) == ErrorCode::kOk);
  CHECK(error(OpCode::kTryRemove, PathAndInt("/n", 0)) == ErrorCode::kOk);
  CHECK(error(OpCode::kExists, PathAndWatch("/n", false)) == ErrorCode::kNoNode);
  CHECK(error(OpCode::kRemoveRecursive, PathAndInt("/p", 3)) == ErrorCode::kNotEmpty);
  CHECK(error(OpCode::kRemoveRecursive, PathAndInt("/p", 4)) == ErrorCode::kOk);
  CHECK(error(OpCode::kRemoveRecursive, PathAndInt("/p", 4)) == ErrorCode::kOk);
  CHECK(error(OpCode::kRemoveRecursive, PathAndInt("/", 9)) == ErrorCode::kBadArguments);
}

TEST_CASE("the conditional writes, in a multi, with a header of their own") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const Packet packet = f.Call(tag, OpCode::kMulti,
                               Multi({{OpCode::kCheckNotExists, PathAndInt("/none", -1)},
                                      {OpCode::kCreateIfNotExists, Create("/p/a", "")},
                                      {OpCode::kCheckStat, CheckStat("/p/a", 0, AnyStat())},
                                      {OpCode::kTryRemove, PathAndInt("/none", -1)},
                                      {OpCode::kRemoveRecursive, PathAndInt("/p", 9)}}));
  REQUIRE(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  for (const OpCode op : {OpCode::kCheckNotExists, OpCode::kCreateIfNotExists, OpCode::kCheckStat,
                          OpCode::kTryRemove, OpCode::kRemoveRecursive}) {
    CHECK(reader.Int<int32_t>() == static_cast<int32_t>(op));
    reader.Raw(5);
    if (op == OpCode::kCreateIfNotExists) CHECK(reader.String() == "/p/a");
  }
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/p", false)).error == ErrorCode::kNoNode);

  f.Call(tag, OpCode::kMulti,
         Multi({{OpCode::kCreate, Create("/q", "")},
                {OpCode::kCheckNotExists, PathAndInt("/q", -1)}}));
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/q", false)).error == ErrorCode::kNoNode);
}

TEST_CASE("a multiRead may hold exists and every list") {
  Fixture f;
  const uint32_t tag = ConnectWithChildren(&f);
  const Packet packet = f.Call(
      tag, OpCode::kMultiRead,
      Multi({{OpCode::kExists, PathAndWatch("/p/a", false)},
             {OpCode::kExists, PathAndWatch("/none", false)},
             {OpCode::kGetChildren2, PathAndWatch("/p", false)},
             {OpCode::kFilteredList, FilteredList("/p", false, ChildKind::kAll)},
             {OpCode::kFilteredList, FilteredList("/p", false, ChildKind::kEphemeral)},
             {OpCode::kFilteredListDetailed, Detailed("/p", ChildKind::kEphemeral, true, true)},
             {OpCode::kFilteredListDetailed, Detailed("/p", ChildKind::kAll, false, false)},
             {OpCode::kGetData, PathAndWatch("/keeper/api_version", false)}}));
  REQUIRE(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  const auto header = [&reader] {
    const auto op = reader.Int<int32_t>();
    reader.Raw(5);
    return static_cast<OpCode>(op);
  };
  CHECK(header() == OpCode::kExists);
  CHECK(ReadStat(reader).data_length == 1);
  CHECK(header() == OpCode::kError);
  CHECK(reader.Int<int32_t>() == static_cast<int32_t>(ErrorCode::kNoNode));
  CHECK(header() == OpCode::kGetChildren2);
  CHECK(ReadList(reader, false).names.size() == 3);
  CHECK(header() == OpCode::kFilteredList);
  CHECK(ReadList(reader, false).names.size() == 3);
  CHECK(header() == OpCode::kFilteredList);
  CHECK(ReadList(reader, false).names == Strings{"e"});
  CHECK(header() == OpCode::kFilteredListDetailed);
  CHECK(ReadList(reader, true).data == Strings{"E"});
  CHECK(header() == OpCode::kFilteredListDetailed);
  CHECK(ReadList(reader, true).names.size() == 3);
  CHECK(header() == OpCode::kGetData);
  CHECK(reader.String() == "3");
}

// With ZooKeeper's form of the errors, ClickHouse ends a query with std::bad_cast.
TEST_CASE(
    "a client that has read the feature flags gets the errors of a multiRead as from Keeper") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const std::string body = Multi({{OpCode::kGetData, PathAndWatch("/none", false)}});
  const std::string before = f.Call(tag, OpCode::kMultiRead, body).body;
  BigEndianReader reader(before);
  CHECK(reader.Int<int32_t>() == static_cast<int32_t>(OpCode::kError));
  f.Call(tag, OpCode::kGetData, PathAndWatch("/keeper/feature_flags", false));
  const std::string after = f.Call(tag, OpCode::kMultiRead, body).body;
  BigEndianReader again(after);
  CHECK(again.Int<int32_t>() == static_cast<int32_t>(OpCode::kGetData));
  CHECK(again.Int<uint8_t>() == 0);
  CHECK(again.Int<int32_t>() == static_cast<int32_t>(ErrorCode::kNoNode));
  CHECK(again.Int<int32_t>() == -1);  // the end
}

TEST_CASE("the extensions know the chroot of linearizable reads") {
  Fixture f;
  ConnectWithChildren(&f);
  const uint32_t tag = f.ConnectSession();
  CHECK(DataOf(f.Call(tag, OpCode::kCreateIfNotExists, Create("/@linearizable/n", ""))) ==
        "/@linearizable/n");
  f.Write(tag, 1, OpCode::kListRecursive, PathAndInt("/@linearizable/p", 1));
  f.Settle();
  f.EndBarrier(1);
  const Strings paths = PathsIn(f.Next(tag));
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].starts_with("/@linearizable/p/"));
  f.Write(tag, 2, OpCode::kFilteredList,
          FilteredList("/@linearizable/p", false, ChildKind::kEphemeral));
  f.Settle();
  f.EndBarrier(2);
  CHECK(ListIn(f.Next(tag), false).names == Strings{"e"});
}

TEST_CASE("a body that is too short does not decode") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  for (const auto& [op, body] : OneOfEach()) {
    CAPTURE(InfoOf(op).name);
    for (size_t size = 0; size < body.size(); ++size) {
      CHECK(f.Call(tag, op, body.substr(0, size)).error == ErrorCode::kMarshallingError);
    }
  }
}

}  // namespace
}  // namespace quorate::rpc::zk
