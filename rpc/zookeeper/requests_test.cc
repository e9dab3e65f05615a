// SPDX-License-Identifier: Apache-2.0

// The reply to each request, and the order in which errors are checked.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure_limit.h"
#include "rpc/frontend/request_limits.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;
using Strings = std::vector<std::string>;

constexpr int32_t kChildren = 1;
constexpr int32_t kData = 2;
constexpr int32_t kAny = 3;

std::string PathAndInt(const std::string& path, int32_t number) {
  std::string body = Path(path);
  BigEndianWriter(&body).Int(number);
  return body;
}

std::string CreateWithAcl(const std::string& path, const std::vector<tree::Acl>& acl) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.String(path);
  writer.String("");
  WriteAcl(acl, writer);
  writer.Int<int32_t>(0);
  return body;
}

std::string Auth(std::string_view scheme, std::string_view credentials) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int<int32_t>(0);
  writer.String(scheme);
  writer.String(credentials);
  return body;
}

std::string Delete(const std::string& path) { return PathAndInt(path, tree::kAnyVersion); }

// Returns the events that a connection was sent, as "3 /path". Fails on any other packet.
Strings Events(Fixture* f, uint32_t tag) {
  f->Settle();
  Strings events;
  std::string frame;
  while (TakeFrame(&f->sockets.received(tag), &frame)) {
    const Packet packet = DecodePacket(frame);
    REQUIRE(packet.xid == kNotificationXid);
    BigEndianReader reader(packet.body);
    const int32_t type = reader.Int<int32_t>();
    reader.Int<int32_t>();
    events.push_back(std::to_string(type) + " " + std::string(reader.String()));
  }
  return events;
}

Strings ReadStrings(const Packet& packet) {
  BigEndianReader reader(packet.body);
  Strings strings;
  for (int32_t left = reader.Int<int32_t>(); left > 0; --left) {
    strings.emplace_back(reader.String());
  }
  CHECK(reader.ok());
  CHECK(reader.empty());
  return strings;
}

TEST_CASE("a persistent watch stays, a recursive one hears of everything below, and both go") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t persistent = f.ConnectSession();
  const uint32_t recursive = f.ConnectSession();
  const Packet added = f.Call(persistent, OpCode::kAddWatch, PathAndInt("/p", 0));
  CHECK(added.error == ErrorCode::kOk);
  CHECK(added.body == std::string(4, '\0'));
  CHECK(f.Call(recursive, OpCode::kAddWatch, PathAndInt("/", 1)).error == ErrorCode::kOk);
  for (const char* path : {"/p", "/p/c"}) {
    REQUIRE(f.Call(writer, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  }
  REQUIRE(f.Call(writer, OpCode::kSetData, SetData("/p/c", "1")).error == ErrorCode::kOk);
  REQUIRE(f.Call(writer, OpCode::kDelete, Delete("/p/c")).error == ErrorCode::kOk);
  REQUIRE(f.Call(writer, OpCode::kDelete, Delete("/p")).error == ErrorCode::kOk);
  CHECK(Events(&f, persistent) == Strings{"1 /p", "4 /p", "4 /p", "2 /p"});
  CHECK(Events(&f, recursive) == Strings{"1 /p", "1 /p/c", "3 /p/c", "2 /p/c", "2 /p"});

  CHECK(f.Call(persistent, OpCode::kRemoveWatches, PathAndInt("/p", kAny)).error == ErrorCode::kOk);
  CHECK(f.Call(recursive, OpCode::kRemoveWatches, PathAndInt("/", kAny)).error == ErrorCode::kOk);
  REQUIRE(f.Call(writer, OpCode::kCreate, Create("/p", "")).error == ErrorCode::kOk);
  CHECK(Events(&f, persistent).empty());
  CHECK(Events(&f, recursive).empty());
}

TEST_CASE("watches are checked and removed by type, and what is not there is no watcher") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const auto check = [&](int32_t type) {
    return f.Call(tag, OpCode::kCheckWatches, PathAndInt("/", type)).error;
  };
  CHECK(check(kAny) == ErrorCode::kNoWatcher);
  f.Call(tag, OpCode::kGetData, PathAndWatch("/", true));
  CHECK(check(kData) == ErrorCode::kOk);
  CHECK(check(kAny) == ErrorCode::kOk);
  CHECK(check(kChildren) == ErrorCode::kNoWatcher);
  CHECK(f.Call(tag, OpCode::kRemoveWatches, PathAndInt("/", kChildren)).error ==
        ErrorCode::kNoWatcher);
  CHECK(f.Call(tag, OpCode::kRemoveWatches, PathAndInt("/", kData)).error == ErrorCode::kOk);
  CHECK(check(kAny) == ErrorCode::kNoWatcher);
  for (int32_t unknown : {0, 6, -1}) CHECK(check(unknown) == ErrorCode::kMarshallingError);
  for (int32_t unknown : {2, -1}) {
    CHECK(f.Call(tag, OpCode::kAddWatch, PathAndInt("/", unknown)).error ==
          ErrorCode::kMarshallingError);
  }
  CHECK(f.Call(tag, OpCode::kAddWatch, Path("/")).error == ErrorCode::kMarshallingError);
  const std::string null_path = std::string(4, '\xff') + std::string("\0\0\0\3", 4);
  CHECK(f.Call(tag, OpCode::kCheckWatches, null_path).error == ErrorCode::kMarshallingError);
  CHECK(f.Call(tag, OpCode::kRemoveWatches, null_path).error == ErrorCode::kNoWatcher);
  CHECK(check(kAny) == ErrorCode::kNoWatcher);
}

TEST_CASE("setWatches2 brings all five kinds back") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t tag = f.ConnectSession();
  const int64_t since = f.Call(writer, OpCode::kCreate, Create("/a", "")).zxid;
  std::string body;
  BigEndianWriter body_writer(&body);
  body_writer.Int(since);
  for (const char* path : {"/a", "/e", "/a", "/p", "/r"}) {
    body_writer.Int<int32_t>(1);
    body_writer.String(path);
  }
  CHECK(f.Call(tag, OpCode::kSetWatches2, body).error == ErrorCode::kOk);
  f.Call(writer, OpCode::kSetData, SetData("/a", "1"));
  for (const char* path : {"/a/c", "/e", "/p", "/p/c", "/r", "/r/c"}) {
    REQUIRE(f.Call(writer, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  }
  CHECK(Events(&f, tag) == Strings{"3 /a", "4 /a", "1 /e", "1 /p", "4 /p", "1 /r", "1 /r/c"});
}

TEST_CASE("an event of what a client may not read is not for it, but spends its watch") {
  Fixture f;
  const uint32_t owner = f.ConnectSession();
  const uint32_t recursive = f.ConnectSession();
  const uint32_t once = f.ConnectSession();
  REQUIRE(f.Call(owner, OpCode::kAuth, Auth("digest", "o:o")).error == ErrorCode::kOk);
  for (const uint32_t tag : {owner, recursive}) f.Call(tag, OpCode::kAddWatch, PathAndInt("/", 1));
  f.Call(once, OpCode::kExists, PathAndWatch("/s", true));
  f.Call(once, OpCode::kGetChildren, PathAndWatch("/", true));
  const std::vector<tree::Acl> creator_all = {{tree::permission::kAll, {"auth", ""}}};
  f.Write(owner, 1, OpCode::kCreate, CreateWithAcl("/s", creator_all));
  f.Write(owner, 2, OpCode::kCreate, Create("/s/c", ""));
  f.Settle();
  // The change of the root's children is visible to every client.
  CHECK(Events(&f, once) == Strings{"4 /"});
  CHECK(Events(&f, recursive) == Strings{"1 /s/c"});
  for (const char* path : {"/s", "/s/c"}) {
    const Packet event = f.Next(owner);
    CHECK(event.xid == kNotificationXid);
    CHECK(event.body.find(path) != std::string::npos);
    CHECK(f.Next(owner).error == ErrorCode::kOk);
  }
  f.Write(owner, 3, OpCode::kDelete, Delete("/s/c"));
  f.Write(owner, 4, OpCode::kDelete, Delete("/s"));
  f.Settle();
  CHECK(Events(&f, recursive) == Strings{"2 /s/c"});
  CHECK(Events(&f, once).empty());
}

TEST_CASE("multiRead answers each read by itself, and sets no watch") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/a", "data")).error == ErrorCode::kOk);
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/a/c", "")).error == ErrorCode::kOk);
  const auto item = [](OpCode op, const std::string& path) {
    std::string bytes;
    BigEndianWriter writer(&bytes);
    WriteMultiResultHeader(op, writer);
    writer.Raw(PathAndWatch(path, true));
    return bytes;
  };
  std::string end;
  BigEndianWriter end_writer(&end);
  WriteMultiEnd(end_writer);
  const Packet packet = f.Call(tag, OpCode::kMultiRead,
                               item(OpCode::kGetData, "/a") + item(OpCode::kGetData, "/none") +
                                   item(OpCode::kGetChildren, "/a") + end);
  REQUIRE(packet.error == ErrorCode::kOk);
  BigEndianReader reader(packet.body);
  CHECK(reader.Int<int32_t>() == 4);
  CHECK(reader.Raw(5) == std::string(5, '\0'));
  CHECK(reader.String() == "data");
  reader.Raw(68);  // the stat
  CHECK(reader.Int<int32_t>() == -1);
  CHECK(reader.Int<uint8_t>() == 0);
  CHECK(reader.Int<int32_t>() == static_cast<int32_t>(ErrorCode::kNoNode));
  CHECK(reader.Int<int32_t>() == static_cast<int32_t>(ErrorCode::kNoNode));
  CHECK(reader.Int<int32_t>() == 8);
  CHECK(reader.Raw(5) == std::string(5, '\0'));
  CHECK(reader.Int<int32_t>() == 1);
  CHECK(reader.String() == "c");
  CHECK(reader.rest() == end);
  REQUIRE(f.Call(tag, OpCode::kSetData, SetData("/a", "1")).error == ErrorCode::kOk);

  CHECK(f.Call(tag, OpCode::kMultiRead, end).body == end);
  for (OpCode op : {OpCode::kGetAcl, OpCode::kCreate, OpCode::kGetAllChildrenNumber}) {
    CHECK(f.Call(tag, OpCode::kMultiRead, item(op, "/a") + end).error ==
          ErrorCode::kMarshallingError);
  }
  CHECK(f.Call(tag, OpCode::kMultiRead, item(OpCode::kGetData, "/a")).error ==
        ErrorCode::kMarshallingError);
}

TEST_CASE("ephemerals are listed by prefix, and only the client's own") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  for (const char* path : {"/e1", "/e2", "/x"}) {
    REQUIRE(f.Call(tag, OpCode::kCreate, Create(path, "", 1)).error == ErrorCode::kOk);
  }
  CHECK(ReadStrings(f.Call(tag, OpCode::kGetEphemerals, Path("/"))) == Strings{"/e1", "/e2", "/x"});
  CHECK(ReadStrings(f.Call(tag, OpCode::kGetEphemerals, Path("/e"))) == Strings{"/e1", "/e2"});
  CHECK(ReadStrings(f.Call(other, OpCode::kGetEphemerals, Path("/"))).empty());
  CHECK(f.Call(tag, OpCode::kGetEphemerals, "").error == ErrorCode::kMarshallingError);
}

TEST_CASE("all descendants are counted") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  for (const char* path : {"/a", "/a/b", "/a/b/c", "/a/d"}) {
    REQUIRE(f.Call(tag, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  }
  const auto count = [&](const std::string& path) {
    const Packet packet = f.Call(tag, OpCode::kGetAllChildrenNumber, Path(path));
    REQUIRE(packet.error == ErrorCode::kOk);
    return BigEndianReader(packet.body).Int<int32_t>();
  };
  CHECK(count("/a") == 3);
  CHECK(count("/a/d") == 0);
  CHECK(count("/") == 7);
  CHECK(f.Call(tag, OpCode::kGetAllChildrenNumber, Path("/none")).error == ErrorCode::kNoNode);
}

TEST_CASE("a client can ask who it is, but not for the hash of its password") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "u:secret")).error == ErrorCode::kOk);
  const Packet packet = f.Call(tag, OpCode::kWhoAmI, "");
  std::string expected;
  BigEndianWriter writer(&expected);
  writer.Int<int32_t>(2);
  for (const char* text : {"ip", "10.0.0.1", "digest", "u"}) writer.String(text);
  CHECK(packet.body == expected);
}

TEST_CASE("authentication as ZooKeeper does it") {
  Fixture f;
  for (const auto& [scheme, credentials] : {std::pair("digest", "u:p"),
                                            {"digest", "a:b:c"},
                                            {"digest", "u"},
                                            {"digest", ""},
                                            {"ip", "1.2.3.4"}}) {
    const uint32_t tag = f.ConnectSession();
    const Packet reply = f.Call(tag, OpCode::kAuth, Auth(scheme, credentials));
    CHECK(reply.error == ErrorCode::kOk);
    CHECK(reply.zxid == 0);
    CHECK(f.sockets.open(tag));
  }
  for (const char* scheme : {"world", "auth", "sasl", "x509", "super", ""}) {
    const uint32_t tag = f.ConnectSession();
    CHECK(f.Call(tag, OpCode::kAuth, Auth(scheme, "")).error == ErrorCode::kAuthFailed);
    CHECK_FALSE(f.sockets.open(tag));
  }
  const uint32_t null_credentials = f.ConnectSession();
  std::string body = Auth("digest", "");
  body.replace(body.size() - 4, 4, "\xff\xff\xff\xff");
  CHECK(f.Call(null_credentials, OpCode::kAuth, body).error == ErrorCode::kAuthFailed);
  const uint32_t cut = f.ConnectSession();
  f.Write(cut, 1, OpCode::kAuth, "?");
  f.Settle();
  CHECK(f.sockets.received(cut).empty());
  CHECK_FALSE(f.sockets.open(cut));
}

TEST_CASE("a client with a certificate has its identity, and may ask for it again") {
  Config config = TestConfig();
  config.x509_super_user = "CN=admin";
  Fixture f(config);
  for (const std::string subject : {"CN=app", "CN=admin"}) {
    const uint32_t tag = f.sockets.ConnectWithCertificate(subject);
    f.sockets.Write(tag, ConnectPacket({}));
    f.Settle();
    f.Frame(tag);
    CHECK(f.Call(tag, OpCode::kAuth, Auth("x509", "any")).error == ErrorCode::kOk);
    const std::string shown = f.Call(tag, OpCode::kWhoAmI, "").body;
    CHECK(shown.find("x509") == shown.rfind("x509"));
    CHECK(shown.find(subject) != std::string::npos);
    CHECK((shown.find("super") != std::string::npos) == (subject == "CN=admin"));
  }
}

TEST_CASE("an authentication counts for what was asked behind it, and not before") {
  const std::vector<tree::Acl> own = {{tree::permission::kAll, {"digest", DigestId("u:p")}}};
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, CreateWithAcl("/n", own)).error == ErrorCode::kOk);
  f.Write(tag, 1, OpCode::kCreate, Create("/w", ""));  // the read waits for this write
  f.Write(tag, 2, OpCode::kGetData, PathAndWatch("/n", false));
  f.Write(tag, 3, OpCode::kSetData, SetData("/n", ""));
  f.Write(tag, kAuthXid, OpCode::kAuth, Auth("digest", "u:p"));
  f.Write(tag, 5, OpCode::kSetData, SetData("/n", ""));
  f.Write(tag, 6, OpCode::kGetData, PathAndWatch("/n", false));
  f.Settle();
  std::vector<std::pair<int32_t, ErrorCode>> answers;
  for (int i = 0; i < 6; ++i) {
    const Packet packet = f.Next(tag);
    if (packet.xid != kAuthXid) answers.emplace_back(packet.xid, packet.error);
  }
  const std::vector<std::pair<int32_t, ErrorCode>> expected = {{1, ErrorCode::kOk},
                                                               {2, ErrorCode::kNoAuth},
                                                               {3, ErrorCode::kNoAuth},
                                                               {5, ErrorCode::kOk},
                                                               {6, ErrorCode::kOk}};
  CHECK(answers == expected);
}

TEST_CASE("the password of the super user cannot be guessed fast") {
  Config config = TestConfig();
  config.super_digest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  const auto authenticate = [&f](uint32_t client, const std::string& credentials) {
    return f.Call(client, OpCode::kAuth, Auth("digest", credentials)).error;
  };
  // The right password is no failure.
  for (int i = 0; i < 2 * FailureLimit::kBurst; ++i) {
    REQUIRE(authenticate(other, "super:secret") == ErrorCode::kOk);
  }
  for (int i = 0; i < FailureLimit::kBurst; ++i) {
    REQUIRE(authenticate(tag, "super:guess" + std::to_string(i)) == ErrorCode::kOk);
  }
  CHECK(f.frontend.statistics().Sum().auth_failures == 0);
  CHECK(authenticate(other, "user:guess") == ErrorCode::kOk);
  // Another connection of the address has no more attempts.
  CHECK(authenticate(f.ConnectSession(), "super:secret") == ErrorCode::kAuthFailed);
  CHECK(authenticate(tag, "super:guess") == ErrorCode::kAuthFailed);
  CHECK(f.frontend.statistics().Sum().auth_failures == 2);
}

TEST_CASE("who knows the super password passes every list; so does everybody with skipACL") {
  const std::vector<tree::Acl> nobody = {{tree::permission::kAll, {"digest", "u:h"}}};
  Config config = TestConfig();
  config.super_digest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, CreateWithAcl("/n", nobody)).error == ErrorCode::kOk);
  REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "super:guess")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kNoAuth);
  REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "super:secret")).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kSetData, SetData("/n", "1")).error == ErrorCode::kOk);

  config = TestConfig();
  config.skip_acl = true;
  Fixture open(config);
  const uint32_t anyone = open.ConnectSession();
  REQUIRE(open.Call(anyone, OpCode::kCreate, CreateWithAcl("/n", nobody)).error == ErrorCode::kOk);
  CHECK(open.Call(anyone, OpCode::kSetData, SetData("/n", "1")).error == ErrorCode::kOk);
  CHECK(open.Call(anyone, OpCode::kGetData, PathAndWatch("/n", false)).error == ErrorCode::kOk);
  const Packet who = open.Call(anyone, OpCode::kWhoAmI, "");
  CHECK(BigEndianReader(who.body).Int<int32_t>() == 1);
}

TEST_CASE("an access control list is bounded as each member would have to keep it") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const auto set = [&](const std::vector<tree::Acl>& acl) {
    std::string body = Path("/n");
    BigEndianWriter writer(&body);
    WriteAcl(acl, writer);
    writer.Int<int32_t>(-1);
    return f.Call(tag, OpCode::kSetAcl, body).error;
  };
  const auto entries = [](int count, const std::string& scheme, const std::string& id) {
    std::vector<tree::Acl> acl;
    for (int i = 0; i < count; ++i) acl.push_back({i, {scheme, id}});
    acl.push_back({tree::permission::kAll, {"world", "anyone"}});
    return acl;
  };
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/n", "")).error == ErrorCode::kOk);
  CHECK(set(entries(kAclEntriesMax - 1, "digest", "u:h")) == ErrorCode::kOk);
  CHECK(set(entries(kAclEntriesMax, "digest", "u:h")) == ErrorCode::kInvalidAcl);
  CHECK(set(entries(3, "digest", "u:" + std::string(30'000, 'h'))) == ErrorCode::kInvalidAcl);
  // Each "auth" entry becomes one entry for each of the client's three identities.
  REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "a:a")).error == ErrorCode::kOk);
  REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "b:b")).error == ErrorCode::kOk);
  CHECK(set(entries(kAclEntriesMax / 3 - 1, "auth", "")) == ErrorCode::kOk);
  CHECK(set(entries(kAclEntriesMax / 3 + 1, "auth", "")) == ErrorCode::kInvalidAcl);
  // A rejected write does not get into the log.
  f.Write(tag, 5, OpCode::kCreate, CreateWithAcl("/x", entries(60'000, "auth", "")));
  f.sockets.RunIterations();
  CHECK(f.service.batches.empty());
  CHECK(f.Next(tag).error == ErrorCode::kInvalidAcl);
}

TEST_CASE("a multi checks permissions a bounded number of times") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/n", "")).error == ErrorCode::kOk);
  std::string checks;
  BigEndianWriter writer(&checks);
  for (int i = 0; i < 10'000; ++i) {
    WriteMultiResultHeader(OpCode::kCheck, writer);
    writer.String("/n");
    writer.Int<int32_t>(-1);
  }
  WriteMultiEnd(writer);
  CHECK(f.Call(tag, OpCode::kMulti, checks).error == ErrorCode::kOk);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(f.Call(tag, OpCode::kAuth, Auth("digest", "u:" + std::to_string(i))).error ==
            ErrorCode::kOk);
  }
  CHECK(f.Call(tag, OpCode::kMulti, checks).error == kReplyTooLarge);
}

TEST_CASE("the members are the data of /zookeeper/config, and cannot be changed by default") {
  Config config = TestConfig();
  ServerLine& first = config.servers[1];
  first.host = "a";
  first.peer_port = 1;
  first.election_port = 2;
  ServerLine& second = config.servers[3];
  second.host = "b";
  second.peer_port = 3;
  second.election_port = 4;
  second.client_port = 5;
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  const std::string path = "/zookeeper/config";
  const Packet packet = f.Call(tag, OpCode::kGetData, PathAndWatch(path, false));
  const std::string members =
      "server.1=a:1:2:participant\nserver.3=b:3:4:participant;0.0.0.0:5\nversion=0";
  CHECK(DataOf(packet) == members);
  const std::string stat = packet.body.substr(4 + members.size());
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch(path, false)).body == stat);
  BigEndianReader stat_reader(std::string_view(stat).substr(52));
  CHECK(stat_reader.Int<int32_t>() == static_cast<int32_t>(members.size()));
  CHECK(f.Call(tag, OpCode::kSetData, SetData(path, "")).error == ErrorCode::kNoAuth);

  const std::string change = Path("") + Path("") + Path("") + std::string(8, '\xff');
  CHECK(f.Call(tag, OpCode::kReconfig, "?").error == ErrorCode::kMarshallingError);
  CHECK(f.Call(tag, OpCode::kReconfig, change).error == ErrorCode::kReconfigDisabled);
  Fixture standalone;
  CHECK(DataOf(standalone.Call(standalone.ConnectSession(), OpCode::kGetData,
                               PathAndWatch(path, false)))
            .empty());
}

TEST_CASE("a reconfig waits for the requests before it, and those after it wait for its outcome") {
  Fixture f;
  f.service.holds_reconfigurations = true;
  const uint32_t tag = f.ConnectSession();
  const std::string change =
      Path("server.4=d:1:2;3") + std::string(4, '\xff') + Path("") + std::string(7, '\0') + "\x07";
  f.Write(tag, 1, OpCode::kCreate, Create("/before", ""));
  f.Write(tag, 2, OpCode::kReconfig, change);
  f.Write(tag, 3, OpCode::kCreate, Create("/behind", ""));
  f.sockets.RunIterations();
  CHECK(f.service.reconfigurations.empty());
  f.Settle();
  CHECK(f.Next(tag).xid == 1);
  REQUIRE(f.service.reconfigurations.size() == 1);
  const Reconfiguration& request = f.service.reconfigurations[0].first;
  CHECK(request.joining == "server.4=d:1:2;3");
  CHECK_FALSE(request.leaving.has_value());
  CHECK(request.new_members == "");
  CHECK(request.based_on == 7);
  CHECK_FALSE(request.identities.empty());
  tree::Stat stat;
  CHECK(f.service.ReadTree()->Exists("/behind", &stat) == ErrorCode::kNoNode);
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Settle();
  CHECK(f.Next(tag).xid == kPingXid);

  f.service.reconfigurations[0].second({true, ErrorCode::kReconfigInProgress, tree::Zxid(0)});
  f.Settle();
  const Packet refused = f.Next(tag);
  CHECK(refused.xid == 2);
  CHECK(refused.error == ErrorCode::kReconfigInProgress);
  const Packet behind = f.Next(tag);
  CHECK(behind.xid == 3);
  CHECK(behind.error == ErrorCode::kOk);

  f.Write(tag, 4, OpCode::kReconfig, change);
  f.Settle();
  REQUIRE(f.service.reconfigurations.size() == 2);
  f.service.reconfigurations[1].second({true, ErrorCode::kOk, tree::Zxid(1000)});
  f.Settle();
  const Packet done = f.Next(tag);
  CHECK(done.xid == 4);
  CHECK(done.error == ErrorCode::kOk);
  CHECK(done.zxid == 1000);

  // The outcome is not known: the client learns of a lost connection, and of no success.
  f.Write(tag, 5, OpCode::kReconfig, change);
  f.Settle();
  REQUIRE(f.service.reconfigurations.size() == 3);
  f.service.reconfigurations[2].second({});
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("a null path does not decode; one that cannot be is no node, but for exists") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const std::string null_path(4, '\xff');
  for (OpCode op : {OpCode::kExists, OpCode::kGetData, OpCode::kGetChildren, OpCode::kGetChildren2,
                    OpCode::kGetAcl, OpCode::kGetAllChildrenNumber}) {
    CAPTURE(static_cast<int32_t>(op));
    CHECK(f.Call(tag, op, null_path + '\0').error == ErrorCode::kMarshallingError);
    CHECK(f.Call(tag, op, Path("x") + '\0').error == ErrorCode::kNoNode);
    CHECK(f.Call(tag, op, Path("") + '\0').error == ErrorCode::kOk);  // the root, as in ZooKeeper
    const std::string with_nul = Path(std::string("/a\0b", 4)) + '\0';
    CHECK(f.Call(tag, op, with_nul).error ==
          (op == OpCode::kExists ? ErrorCode::kBadArguments : ErrorCode::kNoNode));
  }
}

TEST_CASE("bytes that are left over behind a request are ignored, missing ones are an error") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const std::string nothing(4, '\0');
  const std::pair<OpCode, std::string> requests[] = {
      {OpCode::kExists, PathAndWatch("/", false)},
      {OpCode::kGetData, PathAndWatch("/", false)},
      {OpCode::kGetChildren, PathAndWatch("/", false)},
      {OpCode::kGetChildren2, PathAndWatch("/", false)},
      {OpCode::kGetAcl, Path("/")},
      {OpCode::kSync, Path("/")},
      {OpCode::kSetData, SetData("/", "")},
      {OpCode::kSetWatches, std::string(8, '\0') + nothing + nothing + nothing},
      {OpCode::kSetWatches2,
       std::string(8, '\0') + nothing + nothing + nothing + nothing + nothing},
      {OpCode::kAddWatch, PathAndInt("/q", 0)},
      {OpCode::kCheckWatches, PathAndInt("/q", kAny)},
      {OpCode::kGetEphemerals, Path("/")},
      {OpCode::kGetAllChildrenNumber, Path("/")},
  };
  for (const auto& [op, body] : requests) {
    CAPTURE(static_cast<int32_t>(op));
    if (op != OpCode::kSync) CHECK(f.Call(tag, op, body + "more").error == ErrorCode::kOk);
    for (size_t size : {size_t{0}, size_t{3}, body.size() - 1}) {
      CHECK(f.Call(tag, op, body.substr(0, size)).error == ErrorCode::kMarshallingError);
    }
  }
}

TEST_CASE("what not all servers know yet is refused until they do") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.service.version = tree::kVersionExpiry - 1;
  const std::string container = Create("/c", "", 4);
  CHECK(f.Call(tag, OpCode::kCreateContainer, container).error == ErrorCode::kUnimplemented);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/n", "")).error == ErrorCode::kOk);
  f.service.version = tree::kVersionExpiry;
  CHECK(f.Call(tag, OpCode::kCreateContainer, container).error == ErrorCode::kOk);
}

TEST_CASE("operations that no client may ask for cost it the connection") {
  for (int32_t number = kOpCodeMin - 2; number <= kOpCodeMax + 2; ++number) {
    const auto op = static_cast<OpCode>(number);
    if (IsServed(op)) continue;
    CAPTURE(number);
    Fixture f;
    const uint32_t tag = f.ConnectSession();
    const Packet reply = f.Call(tag, op, Delete("/"));
    CHECK(reply.error == ErrorCode::kUnimplemented);
    CHECK(reply.zxid == -1);
    CHECK_FALSE(f.sockets.open(tag));
  }
}

TEST_CASE("every opcode that is served is answered, or ends the connection") {
  for (const OpCodeInfo& info : kOpCodes) {
    if (!IsServed(info.op)) continue;
    CAPTURE(info.name);
    Fixture f;
    const uint32_t tag = f.ConnectSession();
    f.Write(tag, 1, info.op, "");
    f.Settle();
    if (f.sockets.received(tag).empty()) {
      CHECK_FALSE(f.sockets.open(tag));
    } else {
      CHECK(f.Next(tag).error != ErrorCode::kUnimplemented);
    }
  }
}

TEST_CASE("a client that wants to authenticate by SASL is told that there is nothing to do") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const Packet reply = f.Call(tag, OpCode::kSasl, Path("token"));
  CHECK(reply.error == ErrorCode::kOk);
  CHECK(reply.zxid == 0);
  CHECK(reply.body == std::string(4, '\xff'));
  f.Write(tag, 1, OpCode::kSasl, "?");
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("when disks are full, what adds data is refused in its turn, and all else is taken") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kCreate, Create("/a", "data")).error == ErrorCode::kOk);
  f.service.is_refusing_data = true;
  CHECK(f.Call(tag, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kSystemError);
  CHECK(f.Call(tag, OpCode::kSetData, SetData("/a", "x")).error == ErrorCode::kSystemError);
  CHECK(f.Call(tag, OpCode::kCreate, "").error == ErrorCode::kMarshallingError);
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/a", false))) == "data");
  CHECK(f.Call(f.ConnectSession(), OpCode::kDelete, Delete("/a")).error == ErrorCode::kOk);
  f.service.is_refusing_data = false;
  CHECK(f.Call(tag, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kOk);
}

TEST_CASE("a reply that would exceed its limit is refused, and is not built") {
  Config config = TestConfig();
  config.max_reply_bytes = 100'000;
  Fixture f(config);
  const uint32_t tag = f.ConnectSession();
  const std::string data(10'000, 'x');
  const std::string name(90, 'n');
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/data", data)).error == ErrorCode::kOk);
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/few", "")).error == ErrorCode::kOk);
  REQUIRE(f.Call(tag, OpCode::kCreate, Create("/many", "")).error == ErrorCode::kOk);
  for (int i = 0; i < 2000; ++i) {
    const std::string each = name + std::to_string(i);
    if (i < 900) f.Call(tag, OpCode::kCreate, Create("/few/" + each, "", 1));
    f.Call(tag, OpCode::kCreate, Create("/many/" + each, "", 1));
  }
  const auto multi = [](OpCode op, const std::string& path, int count) {
    std::string bytes;
    BigEndianWriter writer(&bytes);
    for (int i = 0; i < count; ++i) {
      WriteMultiResultHeader(op, writer);
      writer.String(path);
      writer.Int<uint8_t>(0);
    }
    WriteMultiEnd(writer);
    return bytes;
  };
  const std::string watched = PathAndWatch("/many", true);
  const std::pair<OpCode, std::string> too_large[] = {
      {OpCode::kGetChildren, watched},
      {OpCode::kGetChildren2, watched},
      {OpCode::kGetEphemerals, Path("/many/")},
      {OpCode::kGetEphemerals, Path("")},
      {OpCode::kMultiRead, multi(OpCode::kGetData, "/data", 10)},
      {OpCode::kMultiRead, multi(OpCode::kGetChildren, "/few", 2)},
      {OpCode::kMultiRead, multi(OpCode::kGetChildren, "/many", 1)},
  };
  for (const auto& [op, body] : too_large) {
    CAPTURE(static_cast<int32_t>(op));
    const Packet packet = f.Call(tag, op, body);
    CHECK(packet.error == ErrorCode::kMarshallingError);
    CHECK(packet.body.empty());
  }
  // A multi whose replies could be too large is rejected before it is executed.
  std::string writes;
  BigEndianWriter writer(&writes);
  for (int i = 0; i < 800; ++i) {
    WriteMultiResultHeader(OpCode::kSetData, writer);
    writer.Raw(SetData("/few", ""));
  }
  WriteMultiEnd(writer);
  CHECK(f.Call(tag, OpCode::kMulti, writes).error == ErrorCode::kMarshallingError);
  CHECK(f.Call(tag, OpCode::kCheck, PathAndInt("/few", 0)).error == ErrorCode::kOk);
  // A multi whose results are short is executed, although each of them is an error.
  writes.clear();
  for (int i = 0; i < 800; ++i) {
    WriteMultiResultHeader(OpCode::kDelete, writer);
    writer.Raw(PathAndInt("/none", -1));
  }
  WriteMultiEnd(writer);
  CHECK(f.Call(tag, OpCode::kMulti, writes).error == ErrorCode::kOk);
  // The rejected read has set no watch.
  CHECK(f.Call(tag, OpCode::kCheckWatches, PathAndInt("/many", kAny)).error ==
        ErrorCode::kNoWatcher);
  const std::pair<OpCode, std::string> fitting[] = {
      {OpCode::kGetChildren2, PathAndWatch("/few", false)},
      {OpCode::kGetEphemerals, Path("/few/")},
      {OpCode::kGetAllChildrenNumber, Path("/many")},
      {OpCode::kMultiRead, multi(OpCode::kGetData, "/data", 9)},
      {OpCode::kMultiRead, multi(OpCode::kGetChildren, "/few", 1)},
  };
  for (const auto& [op, body] : fitting) CHECK(f.Call(tag, op, body).error == ErrorCode::kOk);
}

TEST_CASE("a check can stand alone") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kCheck, PathAndInt("/", 0)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kCheck, PathAndInt("/", 1)).error == ErrorCode::kBadVersion);
  CHECK(f.Call(tag, OpCode::kCheck, PathAndInt("/none", -1)).error == ErrorCode::kNoNode);
  CHECK(f.Call(tag, OpCode::kCheck, "").error == ErrorCode::kMarshallingError);
}

}  // namespace
}  // namespace quorate::rpc::zk
