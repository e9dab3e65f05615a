// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/four_letter_words.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

Config AllWords() {
  Config config = TestConfig();
  config.four_letter_words = {"*"};
  config.max_client_connections = 0;
  return config;
}

class WordsFixture : public Fixture {
 public:
  explicit WordsFixture(Config c = AllWords()) : Fixture(std::move(c)) {
    service.current.leader_known = true;
    service.current.standalone = true;
  }

  // Sends `bytes`, and returns the whole answer, after which the connection is closed.
  std::string Ask(const std::string& bytes) {
    const uint32_t tag = Connect();
    sockets.Write(tag, bytes);
    sockets.RunIterations();
    CHECK_FALSE(sockets.open(tag));
    return sockets.received(tag);
  }
  std::map<std::string, std::string> Monitor() {
    std::map<std::string, std::string> values;
    const std::string text = Ask("mntr");
    for (size_t at = 0; at < text.size();) {
      const size_t tab = text.find('\t', at);
      const size_t end = text.find('\n', at);
      REQUIRE(tab < end);
      CHECK(values.emplace(text.substr(at, tab - at), text.substr(tab + 1, end - tab - 1)).second);
      at = end + 1;
    }
    return values;
  }
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a word that is not allowed is refused, and one that does not exist is no word") {
  Config config = AllWords();
  config.four_letter_words = {"srvr"};
  WordsFixture f(config);
  CHECK(f.Ask("ruok") == "ruok is not executed because it is not in the whitelist.\n");
  CHECK(f.Ask("stmk") == "stmk is not executed because it is not in the whitelist.\n");
  CHECK(Contains(f.Ask("srvr"), "Mode: standalone\n"));
  CHECK(f.Ask("what").empty());
}

TEST_CASE("without a leader only the words that need none are answered") {
  WordsFixture f;
  f.service.current.leader_known = false;
  CHECK(f.Ask("ruok") == "imok");
  CHECK(f.Ask("isro") == "null");
  CHECK(f.Ask("gtmk") == "306");
  CHECK(Contains(f.Ask("envi"), "\nzookeeper.version=3.8."));
  for (const char* word : {"srvr", "stat", "mntr", "conf", "cons", "crst", "srst", "dump", "wchs",
                           "wchc", "wchp", "dirs", "hash"}) {
    CHECK(f.Ask(word) == "This ZooKeeper instance is not currently serving requests\n");
  }
}

TEST_CASE("a word may come in parts, with its argument") {
  WordsFixture f;
  const uint32_t tag = f.Connect();
  const std::string bytes("stmk\0\0\0\0\0\0\1\2", 12);
  for (char byte : bytes) {
    CHECK(f.sockets.open(tag));
    f.sockets.Write(tag, std::string(1, byte));
    f.Settle();
  }
  CHECK(f.sockets.received(tag) == "258");
  CHECK(f.Ask("gtmk") == "258");
}

TEST_CASE("requests, connections and latencies are counted, until that is reset") {
  WordsFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Call(tag, OpCode::kCreate, Create("/a", "data"));
  f.Write(tag, 78, OpCode::kSetData, SetData("/a", "more"));
  f.sockets.RunIterations();
  f.Write(tag, 79, OpCode::kExists, PathAndWatch("/a", false));
  f.sockets.RunIterations();
  std::map<std::string, std::string> values = f.Monitor();
  CHECK(values["zk_outstanding_requests"] == "2");
  f.clock.Advance(40);
  f.Settle();
  CHECK(f.Next(tag).xid == 78);
  CHECK(f.Next(tag).xid == 79);
  values = f.Monitor();
  CHECK(values["zk_server_state"] == "standalone");
  CHECK(values["zk_outstanding_requests"] == "0");
  // These are the connect request, three requests and the previous word.
  CHECK(values["zk_packets_received"] == "5");
  CHECK(values["zk_packets_sent"] == "4");
  CHECK(values["zk_num_alive_connections"] == "2");
  CHECK(values["zk_global_sessions"] == "1");
  CHECK(values["zk_max_latency"] == "40");
  CHECK(values["zk_cnt_updatelatency"] == "2");
  CHECK(values["zk_max_updatelatency"] == "40");
  CHECK(values["zk_cnt_readlatency"] == "1");
  CHECK(values["zk_connection_request_count"] == "1");
  const std::string cons = f.Ask("cons");
  CHECK(Contains(cons, " /10.0.0.1:7000[1](queued=0,recved=4,sent=4,sid=0x3"));
  CHECK(Contains(cons, ",lop=EXIS,est=1700000000000,to=1200,lcxid=0x4f,lzxid=0x3,lresp="));
  CHECK(Contains(cons, ",llat=40,minlat=0,avglat=26,maxlat=40)\n"));
  CHECK(Contains(f.Ask("stat"), "Clients:\n /10.0.0.1:7000[1](queued=0,recved=4,sent=4)\n"));

  CHECK(f.Ask("crst") == "Connection stats reset.\n");
  CHECK(f.Ask("srst") == "Server stats reset.\n");
  CHECK(Contains(f.Ask("cons"), "[1](queued=0,recved=0,sent=0,sid=0x3"));
  CHECK(Contains(f.Ask("srvr"), "Latency min/avg/max: 0/0.0/0\n"));
  f.Call(tag, OpCode::kExists, PathAndWatch("/a", false));
  CHECK(Contains(f.Ask("cons"), "maxlat=0)\n"));
  CHECK(f.Monitor()["zk_cnt_readlatency"] == "1");
}

TEST_CASE("mntr says of a quorum what each member knows, and more if it leads") {
  WordsFixture f;
  f.service.current.voters = 3;
  const auto has = [&](const char* key) { return f.Monitor().contains(key); };
  f.service.current.is_leader = true;  // a standalone server is its own leader
  CHECK_FALSE(has("zk_quorum_size"));
  CHECK_FALSE(has("zk_synced_followers"));
  f.service.current.standalone = false;
  CHECK(f.Monitor()["zk_quorum_size"] == "3");
  CHECK(has("zk_synced_followers"));
  f.service.current.is_leader = false;
  CHECK(f.Monitor()["zk_quorum_size"] == "3");
  CHECK_FALSE(has("zk_synced_followers"));
}

TEST_CASE("a connection has begun a session before it asks for anything, and its port is seen") {
  WordsFixture f;
  const auto tag = f.sockets.Connect("::1", 7001);
  REQUIRE(tag.has_value());
  f.sockets.Write(*tag, ConnectPacket({}));
  f.Settle();
  const std::string cons = f.Ask("cons");
  CHECK(Contains(cons, " /[::1]:7001[1]("));
  CHECK(Contains(cons, ",lop=SESS,est=1700000000000,to=1200,lcxid=0x0,lzxid=0x1,"));
}

TEST_CASE("the sessions are dumped with their ephemeral nodes") {
  WordsFixture f;
  ConnectResponse first;
  const uint32_t tag = f.ConnectSession(&first);
  f.ConnectSession();
  f.Call(tag, OpCode::kCreate, Create("/e1", "", 1));
  f.Call(tag, OpCode::kCreate, Create("/e2", "", 1));
  const std::string dump = f.Ask("dump");
  CHECK(dump.find("SessionTracker dump:\nGlobal Sessions(2):\n0x3") == 0);
  CHECK(Contains(dump, "\t1200ms\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x3"));
  CHECK(Contains(dump, ":\n\t/e1\n\t/e2\nConnections dump:\nConnections (3):\n\tip: /10.0.0.1:"));
  CHECK(WordsFixture().Ask("dump") ==
        "SessionTracker dump:\nGlobal Sessions(0):\nephemeral nodes dump:\n"
        "Sessions with Ephemerals (0):\nConnections dump:\nConnections (1):\n"
        "\tip: /10.0.0.1:7000 sessionId: 0x0\n");
}

TEST_CASE("watches are listed by path and by connection") {
  WordsFixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Call(tag, OpCode::kExists, PathAndWatch("/none", true));
  f.Call(tag, OpCode::kGetData, PathAndWatch("/", true));
  f.Call(tag, OpCode::kGetChildren, PathAndWatch("/", true));
  char id[32];
  std::snprintf(id, sizeof(id), "0x%llx", static_cast<unsigned long long>(session.session_id));
  CHECK(f.Ask("wchs") == "1 connections watching 2 paths\nTotal watches:2\n");
  CHECK(f.Ask("wchc") == std::string(id) + "\n\t/\n\t/none\n\n");
  const std::string by_path = f.Ask("wchp");
  CHECK(Contains(by_path, std::string("/\n\t") + id + "\n"));
  CHECK(Contains(by_path, std::string("/none\n\t") + id + "\n"));
  CHECK(f.Monitor()["zk_watch_count"] == "3");
}

TEST_CASE("a watched path cannot forge a line of a reply, or act on a terminal") {
  WordsFixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Call(tag, OpCode::kExists, PathAndWatch("/a\n/forged\n\t0x1\x1b[2J\xff\\", true));
  char id[32];
  std::snprintf(id, sizeof(id), "0x%llx", static_cast<unsigned long long>(session.session_id));
  const std::string shown = "/a\\n/forged\\n\\t0x1\\x1b[2J\\xff\\";
  CHECK(f.Ask("wchc") == std::string(id) + "\n\t" + shown + "\n\n");
  CHECK(f.Ask("wchp") == shown + "\n\t" + id + "\n\n");
}

TEST_CASE("mntr shows what takes memory") {
  WordsFixture f;
  auto lines = f.Monitor();
  CHECK(lines["zk_quorate_memory_result_caches_bytes"] == "0");
  const auto number = [&](const std::string& key) {
    return std::stoll(lines.at("zk_quorate_" + key));
  };
  const int64_t before = number("memory_sessions_bytes");
  f.ConnectSession();
  MemoryBudget& memory = f.service.memory();
  memory.SetLimit(1000);
  memory.Add(MemoryUse::kUnsent, 11);
  memory.Add(MemoryUse::kReads, 12);
  memory.Add(MemoryUse::kRequests, 13);
  memory.CountRefused();
  memory.CountClosed();
  memory.CountClosed();
  f.service.shown.watches = {5, 600};
  f.service.shown.snapshot_bytes_received = 70;
  lines = f.Monitor();
  CHECK(number("memory_sessions_bytes") > before);
  CHECK(number("memory_limit_bytes") == 1000);
  CHECK(number("memory_unsent_bytes") == 11);
  CHECK(number("memory_reads_bytes") == 12);
  CHECK(number("memory_requests_bytes") == 13);
  CHECK(number("memory_requests_refused") == 1);
  CHECK(number("memory_connections_closed") == 2);
  CHECK(number("all_watch_count") == 5);
  CHECK(number("memory_watches_bytes") == 600);
  CHECK(number("snapshot_received_bytes") == 70);
}

TEST_CASE("the configuration is shown with the members") {
  Config config = AllWords();
  config.client_port = 2181;
  config.data_dir = config.log_dir = "/no/such/directory";
  config.tick_time_ms = 2000;
  config.min_session_timeout_ms = 4000;
  config.max_session_timeout_ms = 40000;
  config.init_limit = 10;
  config.sync_limit = 5;
  CHECK(WordsFixture(config).Ask("conf") ==
        "clientPort=2181\nsecureClientPort=-1\ndataDir=/no/such/directory\ndataDirSize=0\n"
        "dataLogDir=/no/such/directory\ndataLogSize=0\ntickTime=2000\nmaxClientCnxns=0\n"
        "minSessionTimeout=4000\nmaxSessionTimeout=40000\nclientPortListenBacklog=-1\n"
        "serverId=3\n");
  for (uint32_t id : {3, 4}) {
    ServerLine& server = config.servers[id];
    server.host = "host" + std::to_string(id);
    server.peer_port = 2888;
    server.election_port = 3888;
    server.observer = id == 4;
  }
  const std::string text = WordsFixture(config).Ask("conf");
  CHECK(Contains(text, "serverId=3\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\n"));
  CHECK(Contains(text, "electionPort=3888\nquorumPort=2888\npeerType=0\nmembership: \n"));
  CHECK(
      Contains(text, "server.3=host3:2888:3888:participant\nserver.4=host4:2888:3888:observer\n"));
  CHECK(text.ends_with("version=0"));
  config.client_port = 0;
  config.secure_client_port = 2182;
  CHECK(WordsFixture(config).Ask("conf").starts_with("clientPort=-1\nsecureClientPort=2182\n"));
}

TEST_CASE("a long answer waits in pieces for a client that does not fetch it, and is whole") {
  constexpr int kConnections = 5000;
  WordsFixture f;
  for (int i = 0; i < kConnections; ++i) f.Connect();
  const uint32_t tag = f.Connect();
  f.sockets.SetRoom(tag, 0);
  f.sockets.Write(tag, "cons");
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  size_t iterations = 0;
  while (f.sockets.open(tag)) {
    f.sockets.SetRoom(tag, 50'000);
    f.Settle();
    ++iterations;
  }
  const std::string& answer = f.sockets.received(tag);
  CHECK(std::count(answer.begin(), answer.end(), '\n') == kConnections + 2);
  CHECK(iterations >= answer.size() / 50'000);

  const uint32_t lost = f.Connect();
  f.sockets.SetRoom(lost, 0);
  f.sockets.Write(lost, "cons");
  f.Settle();
  f.clock.Advance(61'000);
  for (int i = 0; i < 60; ++i) f.Pass(50);
  CHECK_FALSE(f.sockets.open(lost));
}

}  // namespace
}  // namespace quorate::rpc::zk
