// Writes inputs for the targets whose bytes our own encoders make, as a start for libFuzzer:
//   make_seeds CORPUS_DIRECTORY
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/message.h"
#include "rpc/peer/frame.h"
#include "rpc/zk/test_packets.h"
#include "tree/command.h"
#include "tree/record.h"

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

// `bytes` after their length, as fuzz::Input takes it.
template <typename Length>
std::string Piece(std::string_view bytes) {
  const auto length = static_cast<Length>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)).append(bytes);
}

void AddCommands(const Corpus& corpus) {
  const tree::SessionId session(0x0100000000000001);
  tree::CommandHeader header{.origin = {1, 1}, .session = session};
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
  add(AppendResponse{.success = true, .match_index = Index(8)});
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
  add(StandingRequest{});
  add(StandingResponse{.birth = 1, .known_birth = 1});
  return messages;
}

void AddMessages(const Corpus& corpus) {
  std::string all(1, '\1');
  rpc::AppendHelloFrame({.from = consensus::MemberId(1), .to = consensus::MemberId(2)}, &all);
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
  corpus.Add("request", "create", std::string(1, '\1') + Create("/a", "0"));
  corpus.Add("request", "set", std::string(1, '\5') + SetData("/a", "0"));
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

void AddTexts(const Corpus& corpus) {
  corpus.Add("config", "cluster",
             "tickTime=2000\ndataDir=/data\nclientPort=2181\n"
             "server.1=a:2888:3888:participant;2181\nserver.2=[::1]:2888:3888:observer\n"
             "maxSessionTimeout=40000\n# comment\n4lw.commands.whitelist=srvr, stat\n");
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

}  // namespace
}  // namespace quorate::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_seeds CORPUS_DIRECTORY\n";
    return 2;
  }
  const quorate::fuzz::Corpus corpus(argv[1]);
  quorate::fuzz::AddCommands(corpus);
  quorate::fuzz::AddMessages(corpus);
  quorate::fuzz::AddRequests(corpus);
  quorate::fuzz::AddRecords(corpus);
  quorate::fuzz::AddTexts(corpus);
  return 0;
}
