// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/generator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/zookeeper/opcodes.h"
#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {
namespace {

constexpr char kAliceDigest[] = "alice:Cuk7ajo4ciREnCr0kLoqUur5dbU=";  // digest of alice:one
constexpr char kBobDigest[] = "bob:yqVrLFrvoaI9z9fohteaNPJvRu8=";      // digest of bob:two
constexpr size_t kBigDataBytes = 900'000;
constexpr int64_t kTtlMsMax = 0xffffffffff;

}  // namespace

Operation Generator::Next() {
  const uint64_t dice = Below(100);
  if (dice < 4) return Connect();
  Operation operation;
  if (dice < 6) {
    operation.kind = OperationKind::kDrop;
    operation.slot = static_cast<int>(Below(kClients));
    return operation;
  }
  return Requests();
}

Operation Generator::Connect() {
  Operation operation;
  operation.kind = OperationKind::kConnect;
  operation.slot = static_cast<int>(Below(kClients));
  operation.timeout_ms = OneOf({60'000, 60'000, 60'000, 0, -1, 1, 299'999, 1 << 30});
  operation.with_read_only = Chance(800);
  const uint64_t dice = Below(1000);
  operation.connect = dice < 300   ? ConnectKind::kNewSession
                      : dice < 920 ? ConnectKind::kOwnSession
                      : dice < 960 ? ConnectKind::kWrongPassword
                      : dice < 999 ? ConnectKind::kUnknownSession
                                   : ConnectKind::kZxidOfTheFuture;
  return operation;
}

Operation Generator::Requests() {
  Operation operation;
  operation.slot = static_cast<int>(Below(kClients));
  slot_ = operation.slot;
  if (Chance(25)) {
    operation.requests.push_back(Alone());
  } else {
    const uint64_t count = !with_quotas_ && Chance(150) ? 2 + Below(6) : 1;
    for (uint64_t i = 0; i < count; ++i) {
      operation.requests.push_back(Any());
      // ZooKeeper may check requests that follow at once against the old list.
      if (operation.requests.back().op == wire::kSetAcl) break;
    }
    // A createContainer with an ephemeral mode makes no ephemeral node, but while it is in flight
    // ZooKeeper treats it as one, and may delete it with the session.
    const bool has_container =
        std::any_of(operation.requests.begin(), operation.requests.end(),
                    [](const Request& r) { return r.op == wire::kCreateContainer; });
    if (Chance(25) && !has_container) {
      operation.requests.push_back(MakeEmpty(wire::kCloseSession));
    }
  }
  for (Request& request : operation.requests) GiveXid(operation.slot, &request);
  return operation;
}

void Generator::GiveXid(int slot, Request* request) {
  ++last_xid_;
  request->xid = last_xid_ * kClients + slot;
  if (request->op == wire::kPing && Chance(900)) request->xid = wire::kPingXid;
  if (request->op == wire::kAuth && Chance(700)) request->xid = wire::kAuthXid;
  const bool sets = request->op == wire::kSetWatches || request->op == wire::kSetWatches2;
  if (sets && Chance(300)) request->xid = wire::kSetWatchesXid;
}

Request Generator::Alone() {
  switch (Below(10)) {
    case 0:
    case 1:
      return Auth(/*right=*/false);
    case 2:
    case 3:
    case 4:
      return Auth(/*right=*/true);
    case 5:
    case 6:
      return Raw();
    default:
      return MakeEmpty(
          OneOf({wire::kNotification, wire::kError, wire::kSasl, wire::OpCode{10}, wire::OpCode{23},
                 wire::OpCode{99}, wire::OpCode{rpc::zk::kOpCodeMax + 1}, wire::OpCode{498},
                 wire::OpCode{999}, wire::OpCode{-12}, wire::OpCode{1 << 30}}));
  }
}

Request Generator::Any() {
  Request request;
  do {
    request = AnyAtAll();
  } while (!IsWanted(request));
  return request;
}

bool Generator::IsWanted(const Request& request) const {
  return without_.empty() || without_.count(OpName(request.op)) == 0;
}

Request Generator::AnyAtAll() {
  const uint64_t dice = Below(1000);
  if (dice < 480) return Write();
  if (dice < 730) return Read();
  if (dice < 880) return Watching();
  if (dice < 960) return Other();
  return Malformed();
}

Request Generator::Write() {
  const uint64_t dice = Below(100);
  if (dice < 38) return Create();
  if (dice < 56) return MakeVersioned(wire::kDelete, Path(), Version());
  if (dice < 74) return MakeSetData(PathToWrite(), Data(), Version());
  if (dice < 81) return MakeSetAcl(Chance(900) ? Text(GoodPath()) : Path(), Acl(), Version());
  if (dice < 86 && with_quotas_) return Quota();
  return Multi();
}

Request Generator::Read() {
  const uint64_t dice = Below(100);
  const bool watch = Watches();
  if (dice < 25) return MakeRead(wire::kExists, Path(), watch);
  if (dice < 50) return MakeRead(wire::kGetData, Path(), watch);
  if (dice < 65) return MakeRead(wire::kGetChildren, Path(), watch);
  if (dice < 80) return MakeRead(wire::kGetChildren2, Path(), watch);
  if (dice < 90) return MakePathOnly(wire::kGetAcl, Path());
  return MultiRead();
}

bool Generator::Watches() {
  const bool watches = Chance(500);
  return watches && styles_[static_cast<size_t>(slot_)] == Style::kOneShot;
}

Request Generator::Watching() {
  const Style style = styles_[static_cast<size_t>(slot_)];
  const uint64_t dice = Below(100);
  if (dice < 25) return SetWatches();
  if (style == Style::kOneShot) {
    const wire::OpCode op = OneOf({wire::kRemoveWatches, wire::kCheckWatches});
    return MakeWatch(op, Text(GoodPath()), OneOf({1, 2, 3, 1, 2, 3, 0, 6, -1}));
  }
  const int32_t mode = style == Style::kPersistent ? 0 : 1;
  if (dice < 70) {
    const bool good = Chance(900);
    return MakeWatch(wire::kAddWatch, Text(Chance(100) ? "/" : GoodPath()),
                     good ? mode : OneOf({2, -1}));
  }
  return MakeWatch(wire::kRemoveWatches, Text(GoodPath()), OneOf({3, 3, 3, 0, 6}));
}

Request Generator::Other() {
  if (Chance(20)) return MakeReconfig(Text("server.9=h:1:2;3"), Text(), Text(), -1);
  switch (Below(6)) {
    case 0:
      return MakePathOnly(wire::kSync, Path());
    case 1:
      return MakeEmpty(wire::kPing);
    case 2:
      return MakePathOnly(wire::kGetEphemerals, Chance(300) ? Text("/") : Path());
    case 3:
      return MakePathOnly(wire::kGetAllChildrenNumber, Path());
    case 4:
      return MakeEmpty(wire::kWhoAmI);
    default:
      return MakeRead(wire::kExists, Text("/"), Watches());
  }
}

Request Generator::Create() {
  const wire::OpCode op = OneOf({wire::kCreate, wire::kCreate, wire::kCreate, wire::kCreate2,
                                 wire::kCreate2, wire::kCreateContainer, wire::kCreateTtl});
  int32_t flags = OneOf({0, 0, 0, 0, 1, 1, 2, 3});
  if (op == wire::kCreateContainer) flags = 4;
  if (op == wire::kCreateTtl) flags = OneOf({5, 5, 6});
  if (Chance(60)) flags = OneOf({0, 1, 2, 3, 4, 5, 6, 7, -1, 99});
  int64_t ttl_ms = OneOf<int64_t>({60'000, 3'600'000, kTtlMsMax, 1, 0, -1, kTtlMsMax + 1});
  // A negative TTL with a mode that has none stops ZooKeeper permanently.
  if (flags != 5 && flags != 6 && ttl_ms < 0) ttl_ms = 60'000;
  return MakeCreate(op, PathToWrite(), Data(), Acl(), flags, ttl_ms);
}

Request Generator::Quota() {
  const std::string node = OneOf<const char*>({"a", "b", "a/b"});
  const std::string path = "/zookeeper/quota/" + node;
  const std::string limit =
      absl::StrCat("count=", OneOf({-1, 1, 2, 5}), ",bytes=", OneOf({-1, 5, 20, 100}));
  const std::string limits = Chance(500)
                                 ? limit
                                 : absl::StrCat(limit, "=;byteHardLimit=", OneOf({-1, 10, 40}),
                                                ";countHardLimit=", OneOf({-1, 2, 4}));
  const AclEntries open = std::vector<AclEntry>{{}};
  switch (Below(8)) {
    case 0:
    case 1:
      return MakeCreate(wire::kCreate, Text(path), Text(""), open, 0);
    case 2:
      return MakeCreate(wire::kCreate, Text(path + "/zookeeper_limits"), Text(limits), open, 0);
    case 3:
      return MakeCreate(wire::kCreate, Text(path + "/zookeeper_stats"), Text("count=0,bytes=0"),
                        open, 0);
    case 4:
      return MakeSetData(Text(path + "/zookeeper_limits"), Text(limits), -1);
    case 5:
      return MakeVersioned(wire::kDelete, Text(path + "/zookeeper_limits"), -1);
    case 6:
      return MakeVersioned(wire::kDelete, Text(path + OneOf<const char*>({"", "/zookeeper_stats"})),
                           -1);
    default: {
      std::vector<Request> items{
          MakeCreate(wire::kCreate, Text(path), Text(""), open, 0),
          MakeCreate(wire::kCreate, Text(path + "/zookeeper_limits"), Text(limits), open, 0),
          MakeCreate(wire::kCreate, Text(path + "/zookeeper_stats"), Text("count=0,bytes=0"), open,
                     0)};
      return MakeMulti(wire::kMulti, items);
    }
  }
}

Request Generator::Multi() {
  std::vector<Request> items;
  for (uint64_t left = Below(6); left > 0; --left) {
    Request item = MultiItem();
    // ZooKeeper checks a quota as if each item were alone.
    if (IsWanted(item) && !(with_quotas_ && !items.empty())) items.push_back(std::move(item));
  }
  return MakeMulti(wire::kMulti, items);
}

Request Generator::MultiItem() {
  const uint64_t dice = Below(1000);
  // Most multis should succeed.
  const AclEntries acl = Chance(900) ? AclEntries(std::vector<AclEntry>{{}}) : Acl();
  if (dice < 380) {
    return MakeCreate(OneOf({wire::kCreate, wire::kCreate2}), Text(GoodPath()), SmallData(), acl,
                      OneOf({0, 0, 1, 2, 3}));
  }
  if (dice < 420) return MakeCreate(wire::kCreateContainer, Text(GoodPath()), SmallData(), acl, 4);
  if (dice < 460)
    return MakeCreate(wire::kCreateTtl, Text(GoodPath()), SmallData(), acl, 5, 60'000);
  if (dice < 640)
    return MakeVersioned(wire::kDelete, Text(GoodPath()), Chance(700) ? -1 : Version());
  if (dice < 820) return MakeSetData(Text(GoodPath()), SmallData(), Chance(700) ? -1 : Version());
  if (dice < 960) return MakeVersioned(wire::kCheck, Text(GoodPath()), Version());
  if (dice < 980) {
    return MakeCreate(wire::kCreate, PathToWrite(), SmallData(), Acl(), OneOf({0, 1, 2, 3, 4, 7}));
  }
  switch (Below(5)) {
    case 0:
      return MakeSetAcl(Text(GoodPath()), acl, -1);
    case 1:
      return MakeRead(wire::kGetData, Text(GoodPath()), false);
    case 2:
      return MakeRead(wire::kExists, Text(GoodPath()), false);
    case 3:
      return MakeVersioned(wire::kDelete, BadPath(), -1);
    default:
      return MakeEmpty(wire::kCloseSession);
  }
}

Request Generator::MultiRead() {
  std::vector<Request> items;
  for (uint64_t left = Below(5); left > 0; --left) {
    const wire::OpCode op = OneOf({wire::kGetData, wire::kGetChildren});
    items.push_back(MakeRead(Chance(970) ? op : wire::kGetAcl, Path(), Chance(200)));
  }
  if (Chance(20)) items.push_back(MakeVersioned(wire::kDelete, Text(GoodPath()), -1));
  return MakeMulti(wire::kMultiRead, items);
}

Request Generator::SetWatches() {
  const wire::OpCode op = OneOf({wire::kSetWatches, wire::kSetWatches2});
  std::vector<std::vector<std::string>> lists(op == wire::kSetWatches ? 3 : 5);
  const Style style = styles_[static_cast<size_t>(slot_)];
  for (size_t i = 0; i < lists.size(); ++i) {
    const Style of_list = i < 3 ? Style::kOneShot : i == 3 ? Style::kPersistent : Style::kRecursive;
    for (uint64_t left = style == of_list ? Below(3) : 0; left > 0; --left) {
      lists[i].push_back(GoodPath());
    }
  }
  std::optional<int64_t> relative_zxid;
  if (Chance(200)) relative_zxid = OneOf<int64_t>({0, -1, int64_t{1} << 60});
  return MakeSetWatches(op, relative_zxid, lists);
}

Request Generator::Auth(bool right) {
  if (right) {
    if (Chance(50)) return MakeAuth(Text("digest"), Text("super:secret"));
    return MakeAuth(Text("digest"), Text(OneOf<const char*>({"alice:one", "bob:two"})));
  }
  switch (Below(10)) {
    case 0:
      return MakeAuth(Text("digest"), Text("alice:wrong"));
    case 1:
      return MakeAuth(Text("digest"), Text("no colon"));
    case 2:
      return MakeAuth(Text("digest"), Text(""));
    case 3:
      return MakeAuth(Text("digest"), Text("super:wrong"));
    case 4:
      return MakeAuth(Text("nosuch"), Text("x"));
    case 5:
      return MakeAuth(Text("world"), Text("anyone"));
    case 6:
      return MakeAuth(Text("ip"), Text(""));
    case 7:
      return MakeAuth(Text("sasl"), Text("x"));
    case 8:
      return MakeAuth(Text("digest"), Text());
    default:
      return MakeAuth(Text(), Text("alice:one"));
  }
}

Request Generator::Malformed() {
  Request request;
  do {
    const uint64_t dice = Below(100);
    request = dice < 50 ? Write() : dice < 75 ? Read() : Watching();
  } while (request.body.empty() || request.body.size() > 2000);
  if (Chance(300)) {
    const size_t extra = 1 + Below(9);
    request.body.append(extra, static_cast<char>(Below(256)));
    absl::StrAppend(&request.text, ", ", extra, " bytes too many");
  } else {
    const size_t size = Below(request.body.size());
    request.body.resize(size);
    absl::StrAppend(&request.text, ", cut to ", size, " bytes");
  }
  if (request.body.size() < sizeof(int64_t)) request.has_relative_zxid = false;
  return request;
}

Request Generator::Raw() {
  Request request;
  request.raw = true;
  switch (Below(5)) {
    case 0:
      request.body = std::string("\xff\xff\xff\xff", 4);
      break;
    case 1:
      request.body = std::string("\x00\x10\x00\x00", 4);  // one above the limit
      break;
    case 2:
      request.body = std::string("\x00\x00\x00\x04\x00\x00\x00\x01", 8);  // half a header
      break;
    case 3:
      request.body = std::string(4, '\0');
      break;
    default:
      request.body = std::string("\x7f\xff\xff\xff", 4);
  }
  request.text = absl::StrCat("bytes ", Printable(request.body));
  return request;
}

std::string Generator::GoodPath() {
  auto name = [&] {
    return std::string(OneOf<const char*>({"a", "a", "b", "b", "c", "\xc3\xa9"}));
  };
  std::string path = "/" + name();
  if (Chance(450)) absl::StrAppend(&path, "/", name());
  if (Chance(150)) absl::StrAppend(&path, "/", name());
  if (Chance(60)) absl::StrAppendFormat(&path, "%010d", static_cast<int>(Below(6)));
  return path;
}

Text Generator::Path() {
  const uint64_t dice = Below(1000);
  if (dice < 25) return Text("/");
  if (dice < 50) {
    return Text(
        OneOf<const char*>({"/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/a",
                            "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits",
                            "/zookeeper/quota/a/zookeeper_stats"}));
  }
  if (dice < 100) return BadPath();
  return Text(GoodPath());
}

Text Generator::PathToWrite() {
  const Text path = Path();
  // Damaged limits or statistics make ZooKeeper refuse writes below their path.
  const bool is_of_quota = path == Text("/zookeeper/quota/a/zookeeper_limits") ||
                           path == Text("/zookeeper/quota/a/zookeeper_stats");
  return is_of_quota ? Text("/zookeeper/quota/a") : path;
}

Text Generator::BadPath() {
  switch (Below(16)) {
    case 0:
      return Text();
    case 1:
      return Text("");
    case 2:
      return Text("a");
    case 3:
      return Text("/a/");
    case 4:
      return Text("//a");
    case 5:
      return Text("/a//b");
    case 6:
      return Text("/.");
    case 7:
      return Text("/a/..");
    case 8:
      return Text("/./a");
    case 9:
      return Text(std::string("/a\0b", 4));
    case 10:
      return Text("/a/\x01");
    case 11:
      return Text("/a\x7f");
    case 12:
      return Text("/\xef\xbf\xbf");  // U+FFFF
    case 13:
      return Text("/\xee\x80\x80");  // U+E000, of private use
    case 14:
      return Text("/a/...");  // legal
    default:
      return Text("/\xf0\x9f\x98\x80");  // U+1F600, a surrogate pair in UTF-16
  }
}

Text Generator::Data() { return Chance(2) ? Text(std::string(kBigDataBytes, 'z')) : SmallData(); }

Text Generator::SmallData() {
  const uint64_t dice = Below(1000);
  if (dice < 60) return Text();
  if (dice < 160) return Text("");
  if (dice < 900) return Text(std::string(1 + Below(12), static_cast<char>('a' + Below(26))));
  return Text(std::string(1000 + Below(100), 'x'));
}

int32_t Generator::Version() { return OneOf({-1, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3, -2, 1'000'000}); }

AclEntries Generator::Acl() {
  if (Chance(700)) return std::vector<AclEntry>{{}};
  std::vector<AclEntry> acl;
  const uint64_t dice = Below(100);
  if (dice < 4) return AclEntries();
  if (dice < 8) return acl;
  for (uint64_t left = 1 + Below(3); left > 0; --left) {
    AclEntry& entry = acl.emplace_back();
    entry.perms = OneOf({31, 31, 31, 1, 3, 15, 16, 17, 30, 0});
    switch (Below(10)) {
      case 0:
      case 1:
      case 2:
        break;
      case 3:
        entry.scheme = "auth";
        entry.id = OneOf<const char*>({"", "ignored"});
        break;
      case 4:
      case 5:
        entry.scheme = "digest";
        entry.id = OneOf<const char*>({kAliceDigest, kBobDigest});
        break;
      case 6:
      case 7:
        entry.scheme = "ip";
        entry.id = OneOf<const char*>({"127.0.0.1", "127.0.0.0/8", "10.0.0.1"});
        break;
      default:
        if (Chance(500)) entry = BadAclEntry();
    }
  }
  return acl;
}

AclEntry Generator::BadAclEntry() {
  switch (Below(11)) {
    case 0:
      return {31, "world", "someone"};
    case 1:
      return {31, "digest", "nocolon"};
    case 2:
      return {31, "digest", "a:b:c"};
    case 3:
      return {31, "ip", "not an address"};
    case 4:
      return {31, "ip", "127.0.0.1/33"};
    case 5:
      return {31, "ip", "127.0.0.1/-1"};
    case 6:
      return {31, "nosuch", "x"};
    case 7:
      return {31, "", ""};
    case 8:
      return {31, "super", ""};
    case 9:
      return {-1, "world", "anyone"};
    default:
      return {64, "world", "anyone"};
  }
}

}  // namespace quorate::differential
