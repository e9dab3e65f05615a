// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/missed_events.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;
using Strings = std::vector<std::string>;

constexpr int32_t kPersistent = 0;
constexpr int32_t kRecursive = 1;

struct WatchedPaths {
  Strings data;
  Strings persistent;
  Strings recursive;
};

std::string SetWatches2(int64_t since, const WatchedPaths& paths) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int(since);
  const Strings none;
  for (const Strings* list : {&paths.data, &none, &none, &paths.persistent, &paths.recursive}) {
    writer.Int(static_cast<int32_t>(list->size()));
    for (const std::string& path : *list) writer.String(path);
  }
  return body;
}

std::string PathAndInt(const std::string& path, int32_t number) {
  std::string body = Path(path);
  BigEndianWriter(&body).Int(number);
  return body;
}

std::string Delete(const std::string& path) { return PathAndInt(path, tree::kAnyVersion); }

std::string EventOf(const Packet& packet) {
  BigEndianReader reader(packet.body);
  const int32_t type = reader.Int<int32_t>();
  reader.Int<int32_t>();
  return std::to_string(type) + " " + std::string(reader.String());
}

class Clients : public Fixture {
 public:
  explicit Clients(const Config& c = TestConfig()) : Fixture(c) {}

  // Returns the packets that the client was sent: events as "3 /path", replies as "reply".
  Strings Received(uint32_t tag) {
    Settle();
    Strings packets;
    std::string frame;
    while (TakeFrame(&sockets.received(tag), &frame)) {
      const Packet packet = DecodePacket(frame);
      packets.push_back(packet.xid == kNotificationXid ? EventOf(packet) : "reply");
    }
    return packets;
  }
  void Do(OpCode op, const std::string& body) { last_zxid = Call(writer, op, body).zxid; }
  void CreateAll(const Strings& paths) {
    for (const std::string& path : paths) Do(OpCode::kCreate, Create(path, ""));
  }
  // Sets the watches of a client that has connected again; it has seen everything up to `since`.
  // Returns what it is sent, the reply included.
  Strings Resume(uint32_t tag, int64_t since, const WatchedPaths& paths) {
    Write(tag, 5, OpCode::kSetWatches2, SetWatches2(since, paths));
    return Received(tag);
  }
  Statistics::Totals totals() { return frontend.statistics().Sum(); }

  const uint32_t writer = ConnectSession();
  int64_t last_zxid = 0;
};

TEST_CASE("a client that connects again gets what its persistent watches missed, then the reply") {
  Clients f;
  f.CreateAll({"/p", "/r", "/other"});
  const int64_t since = f.last_zxid;
  f.CreateAll({"/p/c", "/r/c", "/r/c/d", "/other/c", "/pp"});
  f.Do(OpCode::kSetData, SetData("/p", "1"));
  f.Do(OpCode::kSetData, SetData("/p/c", "1"));
  f.Do(OpCode::kSetData, SetData("/r/c/d", "1"));
  f.Do(OpCode::kDelete, Delete("/p/c"));
  f.Do(OpCode::kDelete, Delete("/p"));
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Resume(tag, since, {{}, {"/p"}, {"/r"}}) ==
        Strings{"4 /p", "1 /r/c", "1 /r/c/d", "3 /p", "3 /r/c/d", "4 /p", "2 /p", "reply"});
  CHECK(f.totals().missed_events_sent == 7);
  CHECK(f.totals().missed_events_lost == 0);
  // From now on the events come as they happen, once.
  f.CreateAll({"/p", "/r/e"});
  CHECK(f.Received(tag) == Strings{"1 /p", "1 /r/e"});
  // One that has seen everything gets nothing.
  CHECK(f.Resume(f.ConnectSession(), f.last_zxid, {{}, {"/p"}, {"/r"}}) == Strings{"reply"});
}

TEST_CASE("whoever connects again has got the same events as whoever stayed") {
  const uint64_t seed = GENERATE(range(1, 30));
  INFO("seed " << seed);
  std::mt19937_64 engine(seed);
  const auto below = [&engine](uint64_t limit) { return engine() % limit; };
  Clients f;
  const auto any = [&below](const Strings& from) { return from[below(from.size())]; };
  const Strings names = {"/a", "/a/b", "/a/b/c", "/a/x", "/b", "/b/b", "/b/b/c"};
  WatchedPaths paths;
  for (const std::string& name : names) {
    if (below(3) == 0) paths.persistent.push_back(name);
    if (below(3) == 0) paths.recursive.push_back(name);
  }
  if (below(4) == 0) paths.persistent.push_back("/");
  if (below(4) == 0) paths.recursive.push_back("/");
  const uint32_t stays = f.ConnectSession();
  uint32_t leaves = f.ConnectSession();
  Strings got;
  Strings expected;
  int64_t since = 0;
  for (const uint32_t tag : {stays, leaves}) {
    for (const std::string& path : paths.persistent) {
      since = f.Call(tag, OpCode::kAddWatch, PathAndInt(path, kPersistent)).zxid;
    }
    for (const std::string& path : paths.recursive) {
      since = f.Call(tag, OpCode::kAddWatch, PathAndInt(path, kRecursive)).zxid;
    }
  }
  for (int round = 0; round < 20; ++round) {
    f.sockets.HangUp(leaves);
    for (uint64_t changes = below(8); changes > 0; --changes) {
      const std::string path = any(names);
      const uint64_t kind = below(3);
      if (kind == 0) f.Do(OpCode::kCreate, Create(path, ""));
      if (kind == 1) f.Do(OpCode::kSetData, SetData(path, "x"));
      if (kind == 2) f.Do(OpCode::kDelete, Delete(path));
    }
    leaves = f.ConnectSession();
    for (const std::string& packet : f.Resume(leaves, since, paths)) {
      if (packet != "reply") got.push_back(packet);
    }
    f.Do(OpCode::kSetData, SetData("/", "live"));
    for (const std::string& packet : f.Received(leaves)) got.push_back(packet);
    since = f.last_zxid;
  }
  expected = f.Received(stays);
  CHECK(got == expected);
}

TEST_CASE("one-shot watches get what differs, beside the events of persistent watches") {
  Clients f;
  f.CreateAll({"/p", "/once", "/same"});
  const int64_t since = f.last_zxid;
  f.Do(OpCode::kSetData, SetData("/once", "1"));
  f.Do(OpCode::kSetData, SetData("/once", "2"));
  f.Do(OpCode::kSetData, SetData("/p", "1"));
  f.Do(OpCode::kSetData, SetData("/p", "2"));
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Resume(tag, since, {{"/once", "/same"}, {"/p"}, {}}) ==
        Strings{"3 /once", "3 /p", "3 /p", "reply"});
  f.Do(OpCode::kSetData, SetData("/same", "1"));
  CHECK(f.Received(tag) == Strings{"3 /same"});
}

TEST_CASE("missed events of what a client may not read are not for it") {
  Clients f;
  f.CreateAll({"/r"});
  const int64_t since = f.last_zxid;
  std::string secret;
  BigEndianWriter writer(&secret);
  writer.String("/r/secret");
  writer.String("");
  WriteAcl({{tree::permission::kAll, {"ip", "10.9.9.9"}}}, writer);
  writer.Int<int32_t>(0);
  f.Do(OpCode::kCreate, secret);
  f.CreateAll({"/r/open"});
  CHECK(f.Resume(f.ConnectSession(), since, {{}, {"/r"}, {"/r"}}) ==
        Strings{"4 /r", "1 /r/open", "4 /r", "reply"});
}

TEST_CASE("a client beyond the history is treated as by ZooKeeper, and is counted") {
  Config config = TestConfig();
  config.event_history_bytes = 1000;
  Clients f(config);
  f.CreateAll({"/p"});
  const int64_t since = f.last_zxid;
  for (int i = 0; i < 200; ++i) f.Do(OpCode::kSetData, SetData("/p", "1"));
  REQUIRE(f.history.oldest() > tree::Zxid(since));
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Resume(tag, since, {{}, {"/p"}, {}}) == Strings{"reply"});
  CHECK(f.totals().missed_events_lost == 1);
  f.Do(OpCode::kSetData, SetData("/p", "2"));
  CHECK(f.Received(tag) == Strings{"3 /p"});
}

TEST_CASE("without sendMissedEvents, and before a client has seen anything, nothing was missed") {
  Config config = TestConfig();
  config.send_missed_events = GENERATE(true, false);
  Clients f(config);
  f.CreateAll({"/p"});
  const int64_t since = config.send_missed_events ? GENERATE(0, -1) : f.last_zxid;
  f.Do(OpCode::kSetData, SetData("/p", "1"));
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Resume(tag, since, {{}, {"/p"}, {"/p"}}) == Strings{"reply"});
  f.Do(OpCode::kSetData, SetData("/p", "2"));
  CHECK(f.Received(tag) == Strings{"3 /p"});
  CHECK(f.totals().missed_events_lost == 0);
}

TEST_CASE("events keep the chroot of a client that uses one") {
  Clients f;
  f.CreateAll({"/p"});
  const int64_t since = f.last_zxid;
  f.CreateAll({"/p/c"});
  CHECK(f.Resume(f.ConnectSession(), since, {{}, {"/@linearizable/p"}, {"/@linearizable/p"}}) ==
        Strings{"1 /@linearizable/p/c", "4 /@linearizable/p", "reply"});
}

TEST_CASE("events during a long resumption follow the missed ones, once each") {
  constexpr int kMissed = 5'000;
  const std::string path = "/p" + std::string(1000, 'p');
  Clients f;
  f.CreateAll({path, "/q"});
  const int64_t since = f.last_zxid;
  for (int i = 0; i < kMissed; ++i) f.Do(OpCode::kSetData, SetData(path, ""));
  const uint32_t tag = f.ConnectSession();
  f.sockets.SetRoom(tag, 100);  // the client takes no more for now
  f.Write(tag, 5, OpCode::kSetWatches2, SetWatches2(since, {{"/q"}, {path}, {}}));
  f.Write(tag, 6, OpCode::kExists, PathAndWatch(path, false));
  f.Settle();
  // The server holds back what the client does not take.
  CHECK(f.totals().missed_events_sent < kMissed);
  f.Do(OpCode::kDelete, Delete(path));
  f.Do(OpCode::kSetData, SetData("/q", "1"));
  f.Do(OpCode::kCreate, Create(path, ""));
  f.sockets.SetRoom(tag, ManualSockets::kNoLimit);
  Strings received = f.Received(tag);
  CHECK(f.totals().missed_events_sent == kMissed + 2);
  CHECK(std::erase(received, "3 /q") == 1);
  Strings expected(kMissed, "3 " + path);
  for (const std::string& packet : {"2 " + path, "1 " + path}) expected.push_back(packet);
  for (int reply = 0; reply < 2; ++reply) expected.emplace_back("reply");
  CHECK((received == expected));  // without printing them
  CHECK(f.loop.longest_hold() <= 2 * kNodesPerHold);
}

TEST_CASE("a connection is closed if the history drops events that came during a resumption") {
  Config config = TestConfig();
  config.event_history_bytes = 0;
  Clients f(config);
  f.CreateAll({"/p"});
  WatchedPaths paths;
  paths.persistent = {"/p"};
  for (size_t i = 0; i < 2 * kNodesPerHold; ++i) {
    paths.persistent.push_back("/other" + std::to_string(i));
  }
  const uint32_t tag = f.ConnectSession();
  const int64_t since = f.service.ReadTree()->last_zxid().value();
  f.Write(f.writer, 6, OpCode::kSetData, SetData("/p", "1"));
  f.Write(tag, 5, OpCode::kSetWatches2, SetWatches2(since, paths));
  f.sockets.RunIteration();
  f.service.Apply(&f.frontends);  // in the middle of the resumption
  CHECK(f.Received(tag).empty());
  CHECK(f.Next(f.writer).xid == 6);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.totals().missed_events_lost == 1);
  // The next time the client is beyond the history, and stays.
  const uint32_t next = f.ConnectSession();
  CHECK(f.Resume(next, since, paths) == Strings{"reply"});
  f.Do(OpCode::kSetData, SetData("/p", "2"));
  CHECK(f.Received(next) == Strings{"3 /p"});
}

TEST_CASE("until a client has all missed events, it is shown no zxid after those that it has") {
  constexpr int kMissed = 3 * static_cast<int>(kNodesPerHold);
  Clients f;
  f.CreateAll({"/p", "/once"});
  const int64_t since = f.last_zxid;
  for (int i = 0; i < kMissed; ++i) f.Do(OpCode::kSetData, SetData("/p", ""));
  const uint32_t tag = f.ConnectSession();
  f.Write(f.writer, 6, OpCode::kSetData, SetData("/once", "1"));
  f.Write(tag, 5, OpCode::kSetWatches2, SetWatches2(since, {{"/once"}, {"/p"}, {}}));
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.sockets.RunIteration();
  f.service.Apply(&f.frontends);  // in the middle of the resumption
  f.Settle();
  int64_t shown = since;  // by the missed events
  int missed = 0;
  int others = 0;
  int64_t last = 0;
  std::string frame;
  while (TakeFrame(&f.sockets.received(tag), &frame)) {
    const Packet packet = DecodePacket(frame);
    last = packet.zxid;
    if (packet.xid == kNotificationXid && EventOf(packet) == "3 /p") {
      CHECK(packet.zxid == shown + 1);
      shown = packet.zxid;
      ++missed;
    } else if (missed < kMissed) {
      // A client that loses its connection here names the newest zxid that it was shown.
      CHECK(packet.zxid <= shown);
      ++others;
    }
  }
  CHECK(missed == kMissed);
  CHECK(others == 2);             // the reply to the ping, and the event of /once
  CHECK(last > since + kMissed);  // the reply to setWatches2
  // Afterwards pings show it.
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Settle();
  CHECK(f.Next(tag).zxid >= last);
}

TEST_CASE("a client that may send more watches to be set is shown no zxid before") {
  // Java's library sends so many that their paths have at least 128 Ki characters, and then more.
  constexpr size_t kBatch = 128u << 10;
  Clients f;
  f.CreateAll({"/p"});
  const int64_t since = f.last_zxid;
  f.Do(OpCode::kSetData, SetData("/p", "1"));
  const uint32_t tag = f.ConnectSession();
  WatchedPaths first;
  for (size_t i = 0; i < 1 + kBatch / 1000; ++i) {
    first.recursive.push_back("/" + std::to_string(i) + std::string(1000, 'a'));
  }
  f.Write(tag, 5, OpCode::kSetWatches2, SetWatches2(since, first));
  f.Settle();
  // If the connection breaks here, the client names the zxid of this reply.
  CHECK(f.Next(tag).zxid <= since);
  f.Write(tag, 6, OpCode::kSetWatches2, SetWatches2(since, {{}, {"/p"}, {}}));
  f.Settle();
  CHECK(EventOf(f.Next(tag)) == "3 /p");
  CHECK(f.Next(tag).zxid > since);
}

TEST_CASE("looking up long paths of events counts as work") {
  constexpr size_t kMax = kNodesPerHold;
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "/a";
  EventHistory history(8 << 20);
  for (size_t i = 1; i <= kMax; ++i) {
    history.Add(tree::EventType::kNodeDataChanged, deep, tree::Zxid(static_cast<int64_t>(i)),
                nullptr);
  }
  const std::vector<std::string_view> recursive = {"/a/a/b"};
  MissedEvents missed(history, tree::Zxid(0), {}, recursive);
  size_t reads = 0;
  for (; !missed.at_end(); ++reads) {
    missed.Read(
        kMax, [] { return false; },
        [](tree::EventType, std::string_view, tree::Zxid, const Readers&) {});
  }
  CHECK(reads > 100);
}

TEST_CASE("events that the history drops during a resumption are left out, and the rest is sent") {
  EventHistory history(2000, tree::Zxid(0));
  int64_t zxid = 0;
  const auto add = [&](int count) {
    for (; count > 0; --count) {
      history.Add(tree::EventType::kNodeDataChanged, "/p", tree::Zxid(++zxid), nullptr);
    }
  };
  add(20);
  const std::vector<std::string_view> paths = {"/p"};
  MissedEvents missed(history, tree::Zxid(5), paths, {});
  std::vector<int64_t> sent;
  const auto read = [&](size_t max) {
    missed.Read(
        max, [] { return false; },
        [&sent](tree::EventType, std::string_view, tree::Zxid at, const Readers&) {
          sent.push_back(at.value());
        });
  };
  read(3);
  CHECK(sent == std::vector<int64_t>{6, 7, 8});
  CHECK_FALSE(missed.has_gap());
  add(1000);
  sent.clear();
  read(SIZE_MAX);
  CHECK(missed.has_gap());
  CHECK(missed.at_end());
  REQUIRE_FALSE(sent.empty());
  CHECK(sent.front() == history.oldest().value() + 1);
  CHECK(sent.back() == zxid);
}

}  // namespace
}  // namespace quorate::rpc::zk
