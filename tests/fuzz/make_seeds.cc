// SPDX-License-Identifier: Apache-2.0

// Writes seed inputs for libFuzzer, for the targets whose inputs our own encoders can make:
//   make_seeds CORPUS_DIRECTORY
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/message.h"
#include "rpc/frontend/event_history.h"
#include "rpc/peer/frame.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/proto/quorate/v1/tree.pb.h"
#include "rpc/tls/testing/test_certificates.h"
#include "rpc/zookeeper/testing/test_packets.h"
#include "rpc/zookeeper_files/snapshot_writer.h"
#include "tools/zookeeper/test_files.h"
#include "tree/command.h"
#include "tree/record.h"
#include "tree/store/backup_file.h"
#include "tree/tree.h"

namespace quorate::fuzz {
namespace {

using rpc::zk::OpCode;

class Corpus {
 public:
  explicit Corpus(std::filesystem::path directory) : directory_(std::move(directory)) {}

  void Add(const std::string& target, const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories(directory_ / target);
    std::ofstream(directory_ / target / name, std::ios::binary) << bytes;
  }

 private:
  const std::filesystem::path directory_;
};

class NobodyListens final : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

// Of the target http_target.
void AddHttp(const Corpus& corpus) {
  corpus.Add("http_target", "command", "/commands/set_trace_mask?traceMask=%2D5&a=b+c");
  corpus.Add("http_target", "metrics", "/metrics?name[]=znode_count&name%5B%5D=%C3%A4#end");
  corpus.Add("http_target", "upwards", "/commands/%2e%2e/.././etc/passwd%00");
}

// Of the target console_change. The first byte is twice the number of the change.
void AddConsole(const Corpus& corpus) {
  const auto add = [&corpus](const std::string& name, char change, const std::string& body) {
    corpus.Add("console_change", name, std::string(1, change) + body);
  };
  add("create", 0, R"({"path":"/a","data":"eA==","acl":"world"})");
  add("refused", 1, R"({"path":"/a","data":"eA==","acl":"readers"})");
  add("set", 2, R"({"path":"/zookeeper/quota","data":"eA==","version":0})");
  add("delete", 4, R"({"path":"/a","version":0})");
  add("close", 6, R"({"session":"0x1a2b"})");
  add("transfer", 8, R"({"member":2})");
  const std::string rest = R"(","membership":7})";
  add("add", 10, R"({"change":"add","member":5,"line":"[::1]:2888:3888;0.0.0.0:2181)" + rest);
  add("brackets", 10, R"({"change":"add","member":9,"line":"[[a]:1:2)" + rest);
  add("remove", 10, R"({"change":"remove","member":3,"line":")" + rest);
  add("promote", 10, R"({"change":"promote","member":4,"line":")" + rest);
  add("demote", 10, R"({"change":"demote","member":2,"line":")" + rest);
}

// Of the targets sasl_jaas and sasl_token.
void AddSasl(const Corpus& corpus) {
  corpus.Add("sasl_jaas", "file",
             std::string(1, '\0') +
                 "# users\nServer { /* of */ a.Module required user_a=\"x\\\"\\101${p}\" k=v; };\n"
                 "\"Other\" { b optional; c sufficient; };");
  corpus.Add("sasl_jaas", "rules",
             std::string("\1\x0c") + "app/host@XYZ" +
                 "DEFAULT RULE:[2:$1;$2@$0](app.*)s/^(a)([^@]*)@.*/$2$1\\x/g RULE:[1:$1]");
  corpus.Add("sasl_token", "right",
             std::string(1, '\0') +
                 "charset=utf-8,username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"N\",nc=00000001,"
                 "cnonce=\"c\",digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,response=R,"
                 "qop=auth");
}

// Returns `bytes` after their length, as fuzz::Input reads a piece.
template <typename Length>
std::string Piece(std::string_view bytes) {
  const auto length = static_cast<Length>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)).append(bytes);
}

void AddBackup(const Corpus& corpus) {
  const std::string path = std::filesystem::temp_directory_path() / "make_seeds.backup";
  const tree::BackupHeader header{std::string(16, 'c'), tree::Zxid(300), 2, 1, 1, {1, 2, 3}, {4}};
  auto writer = tree::BackupFileWriter::Create(path, header);
  if (!writer.ok() || !(*writer)->Add("key", "value").ok() || !(*writer)->Finish().ok()) {
    std::cerr << path << ": it cannot be written\n";
    return;
  }
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  std::filesystem::remove(path);
  corpus.Add("backup_file", "repaired", '\0' + bytes.str());
  corpus.Add("backup_file", "as_it_is", '\1' + bytes.str());
}

void AddCommands(const Corpus& corpus) {
  const tree::SessionId session(0x0100000000000001);
  tree::CommandHeader header{.proposer = {1, 1}, .session = session};
  header.kind = tree::CommandKind::kCreateSession;
  std::string create;
  tree::AppendCreateSession(header, 10'000, std::string(tree::kPasswordBytes, 'p'), &create);
  header.kind = tree::CommandKind::kRequest;
  header.attach_zxid = tree::Zxid(1);
  tree::Request request;
  request.multi = true;
  request.identities = {{"ip", "10.0.0.1"}};
  request.ops = {{.kind = tree::OpKind::kCreate,
                  .path = "/a",
                  .has_data = true,
                  .data = "value",
                  .acl = tree::OpenAcl()},
                 {.kind = tree::OpKind::kSetData, .path = "/a", .version = 0},
                 {.kind = tree::OpKind::kCheck, .path = "/a", .version = 1},
                 {.kind = tree::OpKind::kDelete, .path = "/a"}};
  std::string write;
  tree::AppendRequest(header, request, &write);
  header.kind = tree::CommandKind::kCloseSession;
  std::string close;
  tree::AppendCloseSession(header, &close);
  corpus.Add("command", "session",
             Piece<uint16_t>(create) + Piece<uint16_t>(write) + Piece<uint16_t>(close));

  std::string numbered;
  std::string all = Piece<uint16_t>(create);
  for (uint64_t sequence : {1, 2, 2, 4, 3, 1}) {
    numbered.clear();
    tree::AppendSequencedRequest(header, sequence, sequence / 2, request, &numbered);
    all += Piece<uint16_t>(numbered);
  }
  corpus.Add("command", "sequenced", all + Piece<uint16_t>(close));

  header.session = tree::kNoSession;
  header.attach_zxid = tree::Zxid(0);
  request.ops = {{.kind = tree::OpKind::kCheckAbsent, .path = "/a/b"},
                 {.kind = tree::OpKind::kCreate, .path = "/a", .acl = tree::OpenAcl()},
                 {.kind = tree::OpKind::kCreate, .path = "/a/b", .acl = tree::OpenAcl()},
                 {.kind = tree::OpKind::kRefused, .refusal = tree::ErrorCode::kNoSpace},
                 {.kind = tree::OpKind::kCheckCreated, .path = "/", .created_zxid = tree::Zxid(0)},
                 {.kind = tree::OpKind::kDeleteRecursive, .path = "/a", .version = 0}};
  write.clear();
  tree::AppendRequest(header, request, &write);
  corpus.Add("command", "recursive", Piece<uint16_t>(write) + Piece<uint16_t>(write));

  request.has_branches = true;
  request.compares = {
      {tree::CompareTarget::kCzxid, tree::CompareRelation::kEqual, "/a", 0, {}},
      {tree::CompareTarget::kValue, tree::CompareRelation::kNotEqual, "/", 0, "value"},
      {tree::CompareTarget::kVersion, tree::CompareRelation::kLess, "/zookeeper", 1, {}}};
  request.ops = {{.kind = tree::OpKind::kCreate,
                  .path = "/a/b/c",
                  .acl = tree::OpenAcl(),
                  .with_parents = true},
                 {.kind = tree::OpKind::kGetChildren, .path = "/a"},
                 {.kind = tree::OpKind::kGet, .path = "/a/b/c"},
                 {.kind = tree::OpKind::kExists, .path = "/a/b"},
                 {.kind = tree::OpKind::kDeleteRecursive, .path = "/a"}};
  request.then_count = 2;
  write.clear();
  tree::AppendRequest(header, request, &write);
  corpus.Add("command", "branches", Piece<uint16_t>(write) + Piece<uint16_t>(write));
}

std::vector<consensus::Message> Messages() {
  using namespace consensus;  // NOLINT: each of its messages is named below
  Message message{.from = MemberId(1), .to = MemberId(2), .term = Term(3)};
  std::vector<Message> messages;
  const auto add = [&](auto body) {
    message.body = std::move(body);
    messages.push_back(message);
  };
  add(VoteRequest{.pre_vote = true, .last_index = Index(7), .last_term = Term(2)});
  add(VoteResponse{.granted = true});
  AppendRequest append{.prev_index = Index(7), .prev_term = Term(2), .commit = Index(6)};
  append.entries.push_back(
      {.index = Index(8), .term = Term(3), .payload = Slice(std::string("command"))});
  add(std::move(append));
  add(AppendAccepted{.match_index = Index(8), .received_index = Index(9)});
  add(AppendRejected{.prev_index = Index(8)});
  add(Heartbeat{.commit = Index(8)});
  add(HeartbeatResponse{});
  add(ReadIndexRequest{.request_id = 5});
  add(ReadIndexResponse{.request_id = 5, .index = Index(8)});
  add(TimeoutNow{});
  const Membership membership{.voters = {MemberId(1), MemberId(2)}, .learners = {MemberId(3)}};
  add(SnapshotChunk{.meta = {.index = Index(8), .term = Term(3), .membership = membership},
                    .offset = 4,
                    .last = true,
                    .bytes = Slice(std::string("records"))});
  add(SnapshotAck{.index = Index(8), .next_offset = 11});
  add(DirectoryEpochRequest{});
  add(DirectoryEpochResponse{.directory_epoch = 1, .known_directory_epoch = 1});
  return messages;
}

void AddMessages(const Corpus& corpus) {
  std::string all(1 + sizeof(uint32_t), '\1');  // "sealed", and space for the checksum
  rpc::AppendHelloFrame({.from = consensus::MemberId(1),
                         .to = consensus::MemberId(2),
                         .nonce = std::string(rpc::kNonceBytes, 'n')},
                        &all);
  rpc::AppendChallengeFrame({std::string(rpc::kNonceBytes, 'm')}, &all);
  rpc::AppendProofFrame({std::string(rpc::kProofBytes, 'p')}, &all);
  int number = 0;
  for (const consensus::Message& message : Messages()) {
    std::string bytes;
    consensus::EncodeMessage(message, &bytes);
    corpus.Add("message", "kind-" + std::to_string(++number), bytes);
    rpc::AppendMessageFrame(message, &all);
  }
  rpc::AppendForwardFrame({"one command", "another"}, &all);
  rpc::AppendTouchFrame({1, 2}, &all);
  corpus.Add("peer_frame", "all", all);
}

std::string Request(int client, OpCode op, const std::string& body) {
  std::string bytes(1, static_cast<char>(client));
  return bytes.append(1, static_cast<char>(op)) + Piece<uint8_t>(body);
}

void AddRequests(const Corpus& corpus) {
  using rpc::zk::Create;
  using rpc::zk::Path;
  using rpc::zk::PathAndWatch;
  using rpc::zk::SetData;
  corpus.Add("session", "watch",
             Request(0, OpCode::kCreate, Create("/a", "0")) +
                 Request(1, OpCode::kGetData, PathAndWatch("/a", true)) +
                 Request(1, OpCode::kGetChildren2, PathAndWatch("/a", true)) +
                 Request(2, OpCode::kSetData, SetData("/a", "1")) +
                 Request(0, OpCode::kCreate, Create("/a/b-", "", 3)) +
                 Request(3, OpCode::kSync, Path("/a")) +
                 Request(1, OpCode::kAddWatch, Path("/a") + std::string("\0\0\0\1", 4)) +
                 Request(1, OpCode::kGetAcl, Path("/a")) + Request(0, OpCode::kCloseSession, ""));
  const std::string connect = rpc::zk::ConnectPacket({});
  corpus.Add("connection", "connect",
             Piece<uint16_t>(connect) +
                 Piece<uint16_t>(rpc::zk::RequestPacket(1, OpCode::kCreate, Create("/a", "0"))));
  for (const char* word : {"ruok", "srvr", "stat", "mntr", "isro", "envi"}) {
    corpus.Add("connection", word, Piece<uint16_t>(word));
  }
  corpus.Add("request", "create", static_cast<char>(OpCode::kCreate) + Create("/a", "0"));
  corpus.Add("request", "set", static_cast<char>(OpCode::kSetData) + SetData("/a", "0"));
  // As request.cc maps the numbers of ClickHouse Keeper's operations.
  const auto keeper = [](OpCode op) {
    return static_cast<char>(static_cast<int>(op) - static_cast<int>(OpCode::kFilteredList) - 128);
  };
  const std::string path_and_number = Path("/a") + std::string("\0\0\0\1", 4);
  corpus.Add("request", "create_if_not_exists",
             keeper(OpCode::kCreateIfNotExists) + Create("/a", "0"));
  corpus.Add("request", "check_stat",
             keeper(OpCode::kCheckStat) + path_and_number + std::string(68, '\xff'));
  corpus.Add("request", "remove_recursive", keeper(OpCode::kRemoveRecursive) + path_and_number);
}

// Returns a step of native_session.
std::string Step(char choice, const google::protobuf::MessageLite& message) {
  return choice + Piece<uint8_t>(message.SerializeAsString());
}

void AddNativeMessages(const Corpus& corpus) {
  constexpr char kOfSession = 1;
  constexpr char kOfGet = 4;  // Method::kGet, shifted left by the two bits of flags
  v1::SessionRequest watch;
  watch.add_requests()->mutable_watch()->set_path("/");
  watch.mutable_requests(0)->mutable_watch()->set_scope(v1::WATCH_SCOPE_SUBTREE);
  v1::SessionRequest write;
  v1::Request::Write* both = write.add_requests()->mutable_write();
  both->set_sequence(1);
  both->add_operations()->mutable_create()->set_path("/a");
  both->add_operations()->mutable_create()->set_path("/a/b");
  write.add_requests()->mutable_list()->set_path("/");
  write.add_requests()->mutable_get()->set_path("/a");
  write.mutable_requests(2)->mutable_get()->set_linearizable(true);
  write.add_requests()->mutable_sync();
  write.add_requests()->mutable_who_am_i();
  v1::SessionRequest remove;
  remove.set_acknowledged_sequence(1);
  v1::Request::Write* second = remove.add_requests()->mutable_write();
  second->set_sequence(2);
  second->add_operations()->mutable_delete_()->set_path("/a");
  second->mutable_operations(0)->mutable_delete_()->set_recursive(true);
  v1::SessionRequest keeper;
  keeper.set_acknowledged_sequence(2);
  v1::Request::Write* third = keeper.add_requests()->mutable_write();
  third->set_sequence(3);
  third->add_operations()->mutable_check_not_exists()->set_path("/a");
  third->add_operations()->mutable_create_if_not_exists()->set_path("/a");
  third->add_operations()->mutable_check_stat()->set_path("/a");
  third->mutable_operations(2)->mutable_check_stat()->set_version(0);
  third->add_operations()->mutable_try_remove()->set_path("/a");
  third->add_operations()->mutable_remove_recursive()->set_path("/a");
  third->mutable_operations(4)->mutable_remove_recursive()->set_limit(10);
  keeper.add_requests()->mutable_list()->set_path("/");
  keeper.mutable_requests(1)->mutable_list()->set_kind(v1::CHILD_KIND_PERSISTENT);
  keeper.mutable_requests(1)->mutable_list()->set_with_stats(true);
  keeper.mutable_requests(1)->mutable_list()->set_with_data(true);
  keeper.add_requests()->mutable_list_recursive()->set_path("/");
  keeper.mutable_requests(2)->mutable_list_recursive()->set_max(3);
  corpus.Add("native_session", "keeper",
             Step(kOfSession, write) + Step(kOfSession, remove) + Step(kOfSession, keeper));
  v1::GetRequest get;
  get.set_path("/a");
  corpus.Add("native_session", "requests",
             Step(kOfSession, watch) + Step(kOfSession, write) + Step(kOfGet, get) +
                 Step(kOfSession, remove));
}

void AddRecords(const Corpus& corpus) {
  std::string key, value;
  tree::EncodeHeadKey(&key);
  tree::EncodeHead({.zxid = tree::Zxid(7), .nodes = 1, .sessions = 1}, &value);
  std::string bytes(10, '\0');
  bytes[0] = 7;
  bytes += Piece<uint8_t>(key) + Piece<uint16_t>(value);
  key.clear();
  tree::EncodeSessionKey(tree::SessionId(5), &key);
  bytes += Piece<uint8_t>(key) + Piece<uint16_t>(std::string(34, '\1'));
  key.clear();
  tree::EncodeNodeKey({tree::Zxid(0), 0}, &key);
  bytes += Piece<uint8_t>(key) + Piece<uint16_t>(std::string(90, '\0'));
  corpus.Add("tree_record", "each_kind", bytes);
}

// Adds the records of a valid tree, with a session that has responses.
void AddTree(const Corpus& corpus) {
  tree::Tree tree;
  NobodyListens listener;
  tree::CommandHeader header{.session = tree::SessionId(0x0100000000000001)};
  std::string command;
  tree::AppendCreateSession(header, 10'000, std::string(tree::kPasswordBytes, 'p'), &command);
  tree.Apply(tree::Zxid(1), command, {}, &listener);
  header.attach_zxid = tree::Zxid(1);
  tree::Request request;
  request.multi = true;
  request.ops = {{.kind = tree::OpKind::kSetData, .path = "/zookeeper"},
                 {.kind = tree::OpKind::kCreate,
                  .path = "/a",
                  .acl = tree::OpenAcl(),
                  .mode = tree::CreateMode::kEphemeralSequential}};
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    command.clear();
    tree::AppendSequencedRequest(header, sequence, sequence / 3, request, &command);
    tree.Apply(tree.last_zxid() + 1, command, {}, &listener);
    // The last request fails.
    if (sequence == 2) request.ops[0].path = "/none";
  }
  const auto zxid = static_cast<uint16_t>(tree.last_zxid().value());
  const uint64_t digest = tree.digest();
  std::string bytes(reinterpret_cast<const char*>(&zxid), sizeof(zxid));
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
  tree.ForEachRecord([&bytes](std::string_view key, std::optional<std::string_view> value) {
    bytes += Piece<uint8_t>(key) + Piece<uint16_t>(*value);
  });
  corpus.Add("tree_record", "whole_tree", bytes);
}

void AddTexts(const Corpus& corpus) {
  corpus.Add("config", "cluster",
             "tickTime=2000\ndataDir=/data\nclientPort=2181\n"
             "server.1=a:2888:3888:participant;2181\nserver.2=[::1]:2888:3888:observer\n"
             "maxSessionTimeout=40000\n# comment\n4lw.commands.whitelist=srvr, stat\n");
  AddHttp(corpus);
  AddConsole(corpus);
  AddSasl(corpus);
  corpus.Add("path", "plain", std::string(1, '\0') + "/a/b-c/d");
  corpus.Add("path", "sequential", std::string(1, '\1') + "/a/");
  const auto acl = [](std::string_view scheme, std::string_view id) {
    return std::string("\x1f\0\0\0", 4) + Piece<uint8_t>(scheme) + Piece<uint8_t>(id);
  };
  corpus.Add("acl", "each_scheme",
             std::string(1, '\1') + Piece<uint8_t>("digest") + Piece<uint8_t>("u:x") +
                 acl("world", "anyone") + acl("auth", "") + acl("digest", "u:x") +
                 acl("ip", "10.0.0.0/8") + acl("ip", "fe80::1/64"));
}

void AddRecentEvents(const Corpus& corpus) {
  rpc::EventHistory history(1 << 20, tree::Zxid(2));
  const rpc::Readers somebody = std::make_shared<const std::vector<tree::Acl>>(
      std::vector<tree::Acl>{{31, {"digest", "u:x"}}, {1, {"ip", "10.0.0.1"}}});
  history.Add(tree::EventType::kNodeCreated, "/a", tree::Zxid(3), nullptr);
  history.Add(tree::EventType::kNodeCreated, "/a/b", tree::Zxid(3), somebody);
  history.Add(tree::EventType::kNodeDataChanged, "/a/b", tree::Zxid(200), somebody);
  history.Add(tree::EventType::kNodeDeleted, "/a/c", tree::Zxid(300), nullptr);
  corpus.Add("recent_events", "each_kind", "\x2c\x01" + Piece<uint16_t>(history.Take()->Encode(0)));
}

std::string ZookeeperSnapshot() {
  std::string bytes;
  zookeeper_files::SnapshotWriter writer([&bytes](std::string_view piece) {
    bytes += piece;
    return absl::OkStatus();
  });
  const std::vector<tree::Acl> open = tree::OpenAcl();
  const std::vector<tree::Acl> list = {{1, {"digest", "u:x"}}, {31, {"ip", "10.0.0.1"}}};
  const zookeeper_files::SnapshotWriter::Lists lists = {{list, 1}};
  writer.Begin({{tree::SessionId(5), 1000}}, lists).IgnoreError();
  for (std::string_view path : {"/", "/zookeeper", "/zookeeper/quota", "/a", "/a/b", "/a/e"}) {
    zookeeper_files::SnapshotNode node;
    node.path = path;
    node.has_data = true;
    node.data = path;
    node.acl = path == "/a/b" ? &list : &open;
    node.stat.czxid = node.stat.mzxid = node.stat.pzxid = tree::Zxid(path[1] == 'a' ? 3 : 0);
    node.stat.owner = tree::SessionId(path == "/a/e" ? 5 : 0);
    writer.Node(node).IgnoreError();
  }
  writer.End(tree::Zxid(3)).IgnoreError();
  return bytes;
}

void AddZookeeperFiles(const Corpus& corpus) {
  const std::string snapshot = ZookeeperSnapshot();
  corpus.Add("zookeeper_snapshot", "file", std::string(1, '\0') + snapshot);
  // Without the last checksum, and without digest and checksum.
  corpus.Add("zookeeper_snapshot", "open", "1" + snapshot.substr(0, snapshot.size() - 13));
  corpus.Add("zookeeper_snapshot", "old", "1" + snapshot.substr(0, snapshot.size() - 67));

  using namespace tools::zookeeper;  // NOLINT: its builders, and each of its types is named below
  using Type = TransactionType;
  const std::string timeout = RecordBuilder().Int(1000).bytes();
  const std::string list =
      RecordBuilder().String("/b").AclList({{1, {"ip", "::1"}}}).Int(1).bytes();
  const std::string closed = RecordBuilder().Int(1).String("/e").bytes();
  RecordBuilder container, ttl;
  container.String("/c").String("").AclList().Int(3);
  ttl.String("/t").Null().AclList().Int(4).Long(5000);
  int64_t zxid = 0;
  std::string all(1, '1');
  const auto add = [&](Type type, std::string_view record,
                       std::optional<uint64_t> digest = std::nullopt) {
    all += Piece<uint16_t>(TransactionBytes(++zxid, type, record, digest));
  };
  add(Type::kCreateSession, timeout);
  add(Type::kCreate, CreateRecord("/b", "data", false, 1));
  add(Type::kCreate2, CreateRecord("/e", "", true, 2), 7);
  add(Type::kCreateContainer, container.bytes());
  add(Type::kCreateTtl, ttl.bytes());
  add(Type::kSetData, SetDataRecord("/b", "more", 1));
  add(Type::kSetAcl, list);
  add(Type::kMulti, MultiRecord({{Type::kCreate, CreateRecord("/a/m", "", false, 1)},
                                 {Type::kCheck, RecordBuilder().String("/a/m").Int(0).bytes()},
                                 {Type::kDelete, DeleteRecord("/a/m")}}));
  add(Type::kError, RecordBuilder().Int(-101).bytes());
  add(Type::kCloseSession, closed, 7);
  add(Type::kDeleteContainer, DeleteRecord("/c"));
  corpus.Add("zookeeper_log", "each_type", all);
  corpus.Add("zookeeper_log", "file",
             std::string(1, '\0') +
                 LogBuilder().Add(1, Type::kCreate, CreateRecord("/b", "", false, 1)).Padded());
}

void AddTlsStores(const Corpus& corpus) {
  using namespace rpc::tls;  // NOLINT: its makers of stores
  const TestIdentity ca = MakeIdentity({.common_name = "ca", .is_ca = true});
  const TestIdentity server = MakeIdentity({.common_name = "server", .issuer = &ca});
  const X509* above = ca.certificate.get();
  const std::string jks = MakeJks(&server, {above}, {above}, "pw");
  // Without the magic number and the hash at the end.
  corpus.Add("tls_jks", "key", jks.substr(4, jks.size() - 24));
  const std::string trusted = MakeJks(nullptr, {}, {above}, "pw");
  corpus.Add("tls_jks", "trusted", trusted.substr(4, trusted.size() - 24));
  corpus.Add("tls_store", "jks", "1" + jks);
  corpus.Add("tls_store", "jks_unchecked", "0" + trusted);
  corpus.Add("tls_store", "pkcs12", "1" + MakePkcs12(&server, {above}, "pw"));
  corpus.Add("tls_store", "pkcs12_trusted", "1" + MakePkcs12(nullptr, {above}, "pw"));
  const std::string certificates = ToPem(server.certificate.get()) + ToPem(above);
  corpus.Add("tls_store", "pem", "0" + ToPem(server.key.get()) + certificates);
  corpus.Add("tls_store", "pem_encrypted", "1" + ToPem(server.key.get(), "pw") + certificates);
  const CrlPtr list = MakeRevocationList(ca, {server.certificate.get()});
  corpus.Add("tls_store", "pem_revocation", "0" + certificates + ToPem(list.get()));
}

}  // namespace
}  // namespace quorate::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_seeds CORPUS_DIRECTORY\n";
    return 2;
  }
  const quorate::fuzz::Corpus corpus(argv[1]);
  quorate::fuzz::AddBackup(corpus);
  quorate::fuzz::AddCommands(corpus);
  quorate::fuzz::AddMessages(corpus);
  quorate::fuzz::AddRequests(corpus);
  quorate::fuzz::AddNativeMessages(corpus);
  quorate::fuzz::AddRecords(corpus);
  quorate::fuzz::AddTree(corpus);
  quorate::fuzz::AddTexts(corpus);
  quorate::fuzz::AddRecentEvents(corpus);
  quorate::fuzz::AddZookeeperFiles(corpus);
  quorate::fuzz::AddTlsStores(corpus);
  return 0;
}
