// SPDX-License-Identifier: Apache-2.0

// Tests the front end in front of a real standalone server, packet by packet.
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/member/server.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/listener.h"
#include "rpc/zookeeper/protocol.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;
using tree::ErrorCode;

uint16_t FreePort() {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, {boost::asio::ip::make_address("127.0.0.1"), 0});
  return acceptor.local_endpoint().port();
}

class TestServer : private FrontendFactory {
 public:
  explicit TestServer(const std::string& more_config = "") : port_(FreePort()) {
    const std::string dir = std::string(std::getenv("TEST_TMPDIR")) + "/frontend_test";
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    auto config = ParseConfig("test.cfg",
                              "tickTime=200\ndataDir=" + dir + "\nclientPortAddress=127.0.0.1\n" +
                                  "4lw.commands.whitelist=ruok,srvr,isro\nclientPort=" +
                                  std::to_string(port_) + "\n" + more_config,
                              nullptr);
    REQUIRE(config.ok());
    auto server = Server::Create(*std::move(config), this);
    REQUIRE(server.ok());
    server_ = *std::move(server);
    thread_ = std::thread([this] { result_ = server_->Run(); });
  }
  ~TestServer() {
    server_->RequestStop();
    thread_.join();
    CHECK(result_.ok());
    server_.reset();
  }
  uint16_t port() const { return port_; }

 private:
  Frontend* Make(const Config& config, Service* service, Administration*) override {
    frontend_ =
        std::make_unique<ZkFrontend>(config, service, Clock::System(), RandomBytes::System());
    listener_ = std::make_unique<ZkListener>(frontend_.get());
    return frontend_.get();
  }
  absl::Status Open() override { return listener_->Start(); }
  void Close() override { listener_->Stop(); }
  void OnStatusPublished() override {}

  const uint16_t port_;
  std::unique_ptr<ZkFrontend> frontend_;
  std::unique_ptr<ZkListener> listener_;
  std::unique_ptr<Server> server_;
  absl::Status result_;
  std::thread thread_;
};

// The longest timeout that the server allows, because the machine that runs the test may be busy.
constexpr int32_t kTimeoutMs = 4000;

// A client that sends exactly the given bytes. Call and Next use Catch's macros, which only the
// test's own thread may use. Any one thread may use everything else.
class Client {
 public:
  explicit Client(const TestServer& server) {
    // The server's thread may not be listening yet.
    boost::system::error_code error = boost::asio::error::not_connected;
    while (error) {
      socket_ = tcp::socket(context_);
      socket_.connect({boost::asio::ip::make_address("127.0.0.1"), server.port()}, error);
      if (error) std::this_thread::yield();
    }
  }

  // Opens a session, or attaches to an existing one. Returns false if the server closes the
  // connection. The session id is 0 if the server refuses the session.
  bool Connect(int64_t session = 0, std::string password = std::string(16, '\0'),
               int64_t last_zxid = 0, bool with_read_only = true, bool with_queued = false) {
    SendRaw(ConnectPacket({.session = session,
                           .password = std::move(password),
                           .last_zxid = last_zxid,
                           .timeout_ms = wanted_timeout_ms,
                           .with_read_only = with_read_only}) +
            (with_queued ? std::exchange(queued_, {}) : ""));
    std::string reply;
    ConnectResponse response;
    if (!ReadFrame(&reply) || !DecodeConnectResponse(reply, with_read_only, &response)) {
      return false;
    }
    timeout_ms = response.timeout_ms;
    session_id = response.session_id;
    password_ = response.password;
    return true;
  }
  // Returns a client with a session. Retries, because a server that has just started closes
  // connections until it serves.
  static std::unique_ptr<Client> Connected(const TestServer& server,
                                           int32_t wanted_timeout_ms = kTimeoutMs) {
    while (true) {
      auto client = std::make_unique<Client>(server);
      client->wanted_timeout_ms = wanted_timeout_ms;
      if (client->Connect()) return client;
    }
  }

  void SendRaw(const std::string& bytes) {
    boost::asio::write(socket_, boost::asio::buffer(bytes));
  }
  void SendPacket(const std::string& packet) {
    std::string framed;
    BigEndianWriter(&framed).String(packet);
    SendRaw(framed);
  }
  // Appends a request to the bytes that Flush sends at once.
  Client& Add(int32_t xid, OpCode op, const std::string& body) {
    queued_ += RequestPacket(xid, op, body);
    return *this;
  }
  void Flush() { SendRaw(std::exchange(queued_, {})); }

  bool ReadFrame(std::string* frame) {
    char length[4];
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::buffer(length), error);
    if (error) return false;
    frame->resize(static_cast<size_t>(LoadInt<std::endian::big, int32_t>(length)));
    boost::asio::read(socket_, boost::asio::buffer(*frame), error);
    return !error;
  }
  // Returns the next packet. Fails the test if the server closes the connection.
  Packet Next() {
    std::string frame;
    REQUIRE(ReadFrame(&frame));
    return DecodePacket(frame);
  }
  Packet Call(OpCode op, const std::string& body) {
    Add(++last_xid_, op, body);
    Flush();
    Packet packet = Next();
    CHECK(packet.xid == last_xid_);
    return packet;
  }
  bool HungUp() {
    std::string frame;
    return !ReadFrame(&frame);
  }
  std::string ReadAll() {
    std::string text;
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(text), error);
    return text;
  }

  int32_t wanted_timeout_ms = kTimeoutMs;
  int64_t session_id = 0;
  int32_t timeout_ms = 0;
  std::string password_;

 private:
  boost::asio::io_context context_;
  tcp::socket socket_{context_};
  std::string queued_;
  int32_t last_xid_ = 1000;
};

TEST_CASE(
    "pipelined requests are answered in order, and each read sees exactly the writes before it") {
  TestServer server;
  auto client = Client::Connected(server);
  REQUIRE(client->Call(OpCode::kCreate, Create("/a", "0")).error == ErrorCode::kOk);
  constexpr int kRounds = 300;
  for (int i = 1; i <= kRounds; ++i) {
    client->Add(4 * i, OpCode::kSetData, SetData("/a", "x" + std::to_string(i)));
    client->Add(4 * i + 1, OpCode::kSetData, SetData("/a", std::to_string(i)));
    client->Add(4 * i + 2, OpCode::kGetData, PathAndWatch("/a", false));
    client->Add(4 * i + 3, OpCode::kSync, Path("/a"));
  }
  client->Flush();
  int64_t zxid = 0;
  for (int i = 1; i <= kRounds; ++i) {
    for (int part = 0; part < 4; ++part) {
      const Packet packet = client->Next();
      REQUIRE(packet.xid == 4 * i + part);
      CHECK(packet.error == ErrorCode::kOk);
      CHECK(packet.zxid >= zxid);
      zxid = packet.zxid;
      if (part == 2) CHECK(DataOf(packet) == std::to_string(i));
    }
  }
}

TEST_CASE("requests sent along with the connect request are answered once the session is up") {
  TestServer server;
  auto writer = Client::Connected(server);
  REQUIRE(writer->Call(OpCode::kCreate, Create("/p", "x")).error == ErrorCode::kOk);
  // Results, events and session results are in the same inbox while other clients write and watch.
  for (int i = 0; i < 200; ++i) {
    for (int32_t xid = 1; xid <= 20; ++xid) writer->Add(xid, OpCode::kSetData, SetData("/p", "y"));
    writer->Flush();
    Client eager(server);
    eager.Add(1, OpCode::kGetData, PathAndWatch("/p", true))
        .Add(2, OpCode::kSetData, SetData("/p", "z"))
        .Add(3, OpCode::kGetData, PathAndWatch("/p", false))
        .Add(4, OpCode::kCloseSession, "");
    REQUIRE(eager.Connect(0, std::string(16, '\0'), 0, true, /*with_queued=*/true));
    std::vector<int32_t> replies;
    while (replies.size() < 4) {
      const Packet packet = eager.Next();
      if (packet.xid != kNotificationXid) replies.push_back(packet.xid);
    }
    CHECK(replies == std::vector<int32_t>{1, 2, 3, 4});
    CHECK(eager.HungUp());
    for (int32_t xid = 1; xid <= 20; ++xid) REQUIRE(writer->Next().xid == xid);
  }
}

TEST_CASE("reads that wait for writes are answered although other clients come and go") {
  TestServer server("maxClientCnxns=0\n");
  REQUIRE(Client::Connected(server)->Call(OpCode::kCreate, Create("/h", "")).error ==
          ErrorCode::kOk);
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto client = Client::Connected(server);
      for (int i = 0; i < 300; ++i) {
        client->Add(1, OpCode::kSetData, SetData("/h", "1"))
            .Add(2, OpCode::kSetData, SetData("/h", "2"))
            .Add(3, OpCode::kGetData, PathAndWatch("/h", false))
            .Flush();
        for (int32_t xid = 1; xid <= 3; ++xid) {
          std::string frame;
          if (client->ReadFrame(&frame) &&
              LoadInt<std::endian::big, int32_t>(frame.data()) == xid) {
            ++answered;
          }
        }
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto client = Client::Connected(server);
        client->Add(1, OpCode::kCloseSession, "").Flush();
        std::string frame;
        client->ReadFrame(&frame);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == 4 * 300 * 3);
}

TEST_CASE("replies are sent as fast as the client fetches them, and none is lost") {
  TestServer server;
  auto client = Client::Connected(server);
  const std::string large(900 << 10, 'l');
  REQUIRE(client->Call(OpCode::kCreate, Create("/l", large)).error == ErrorCode::kOk);
  constexpr int32_t kReads = 300;
  client->Add(0, OpCode::kSetData, SetData("/l", large));
  for (int32_t xid = 1; xid <= kReads; ++xid) {
    client->Add(xid, OpCode::kGetData, PathAndWatch("/l", false));
  }
  client->Flush();
  for (int32_t xid = 0; xid <= kReads; ++xid) REQUIRE(client->Next().xid == xid);
}

TEST_CASE("the identities of a connection are limited, because each write includes them") {
  TestServer server;
  auto client = Client::Connected(server);
  std::string body;
  BigEndianWriter body_writer(&body);
  body_writer.Int<int32_t>(0);
  body_writer.String("digest");
  body_writer.String(std::string(4000, 'u') + ":p");
  CHECK(client->Call(OpCode::kAuth, body).error == ErrorCode::kOk);
  CHECK(client->Call(OpCode::kAuth, body).error == ErrorCode::kOk);  // the same credential
  // 16 such identities fit into 64 KiB.
  for (int i = 0; i < 15; ++i) {
    body[20] = static_cast<char>('a' + i);
    CHECK(client->Call(OpCode::kAuth, body).error == ErrorCode::kOk);
  }
  body[20] = 'v';
  CHECK(client->Call(OpCode::kAuth, body).error == ErrorCode::kAuthFailed);
  CHECK(client->HungUp());
}

TEST_CASE("a request that cannot be decoded is answered in its order") {
  TestServer server;
  auto client = Client::Connected(server);
  client->Add(1, OpCode::kCreate, Create("/a", "0"))
      .Add(2, OpCode::kSetData, "?")
      .Add(3, OpCode::kGetData, "?")
      .Add(4, OpCode::kGetData, PathAndWatch("/a", false))
      .Flush();
  CHECK(client->Next().error == ErrorCode::kOk);
  CHECK(client->Next().error == ErrorCode::kMarshallingError);
  CHECK(client->Next().error == ErrorCode::kMarshallingError);
  CHECK(DataOf(client->Next()) == "0");
}

TEST_CASE("a watch event is sent before any reply that shows the change, also to the writer") {
  TestServer server;
  auto writer = Client::Connected(server);
  auto reader = Client::Connected(server);
  REQUIRE(writer->Call(OpCode::kCreate, Create("/w", "0")).error == ErrorCode::kOk);
  REQUIRE(reader->Call(OpCode::kGetData, PathAndWatch("/w", true)).error == ErrorCode::kOk);
  REQUIRE(writer->Call(OpCode::kGetData, PathAndWatch("/w", true)).error == ErrorCode::kOk);
  writer->Add(7, OpCode::kSetData, SetData("/w", "1")).Flush();
  CHECK(writer->Next().xid == kNotificationXid);
  CHECK(writer->Next().xid == 7);
  // The reader reads until it gets the new value: the event must have arrived before that.
  bool told = false;
  for (int32_t xid = 1;; ++xid) {
    reader->Add(xid, OpCode::kGetData, PathAndWatch("/w", false)).Flush();
    Packet packet = reader->Next();
    if (packet.xid == kNotificationXid) {
      told = true;
      packet = reader->Next();
    }
    if (DataOf(packet) == "1") break;
  }
  CHECK(told);
}

TEST_CASE("watches that a client sets again fire for missed changes, or wait for new ones") {
  TestServer server;
  auto client = Client::Connected(server);
  client->Call(OpCode::kCreate, Create("/same", ""));
  const int64_t since = client->Call(OpCode::kCreate, Create("/changed", "")).zxid;
  client->Call(OpCode::kSetData, SetData("/changed", "1"));
  std::string body;
  BigEndianWriter body_writer(&body);
  body_writer.Int(since);
  body_writer.Int<int32_t>(3);
  for (const char* path : {"/same", "/changed", "/gone"}) body_writer.String(path);
  body_writer.Int<int32_t>(1);
  body_writer.String("/same");
  body_writer.Int<int32_t>(0);
  client->Add(-8, OpCode::kSetWatches, body).Flush();
  std::vector<std::pair<int32_t, std::string>> events;
  for (int i = 0; i < 3; ++i) {
    const Packet packet = client->Next();
    REQUIRE(packet.xid == kNotificationXid);
    BigEndianReader reader(packet.body);
    const int32_t type = reader.Int<int32_t>();
    reader.Int<int32_t>();
    events.emplace_back(type, reader.String());
  }
  CHECK(events ==
        std::vector<std::pair<int32_t, std::string>>{{3, "/changed"}, {2, "/gone"}, {1, "/same"}});
  CHECK(client->Next().xid == -8);
  client->Add(9, OpCode::kSetData, SetData("/same", "1")).Flush();
  CHECK(client->Next().xid == kNotificationXid);
  CHECK(client->Next().xid == 9);
}

TEST_CASE("a session moves to a new connection with its ephemerals, and the old one is closed") {
  TestServer server;
  auto old = Client::Connected(server);
  REQUIRE(old->Call(OpCode::kCreate, Create("/e", "", 1)).error == ErrorCode::kOk);
  Client moved(server);
  REQUIRE(moved.Connect(old->session_id, old->password_));
  CHECK(moved.session_id == old->session_id);
  CHECK(old->HungUp());
  CHECK(moved.Call(OpCode::kExists, PathAndWatch("/e", false)).error == ErrorCode::kOk);
  moved.Add(1, OpCode::kCloseSession, "").Flush();
  CHECK(moved.Next().error == ErrorCode::kOk);
  CHECK(moved.HungUp());
  auto other = Client::Connected(server);
  CHECK(other->Call(OpCode::kExists, PathAndWatch("/e", false)).error == ErrorCode::kNoNode);
}

TEST_CASE("a wrong password or an unknown session is answered with session id 0") {
  TestServer server;
  auto owner = Client::Connected(server);
  Client thief(server);
  REQUIRE(thief.Connect(owner->session_id, std::string(16, 'x')));
  CHECK(thief.session_id == 0);
  CHECK(thief.timeout_ms == 0);
  CHECK(thief.HungUp());
  Client lost(server);
  REQUIRE(lost.Connect(12345, std::string(16, 'x')));
  CHECK(lost.session_id == 0);
  // The owner of the session is not affected.
  CHECK(owner->Call(OpCode::kExists, PathAndWatch("/", false)).error == ErrorCode::kOk);
}

TEST_CASE("a session that is silent for its timeout ends, and its connection is closed") {
  TestServer server;
  auto silent = Client::Connected(server, 1000);
  auto watcher = Client::Connected(server);
  CHECK(silent->timeout_ms == 1000);
  REQUIRE(silent->Call(OpCode::kCreate, Create("/e", "", 1)).error == ErrorCode::kOk);
  REQUIRE(watcher->Call(OpCode::kExists, PathAndWatch("/e", true)).error == ErrorCode::kOk);
  CHECK(silent->HungUp());
}

TEST_CASE("a client that has seen a newer zxid than the server is refused") {
  TestServer server;
  auto client = Client::Connected(server);
  Client ahead(server);
  CHECK_FALSE(ahead.Connect(0, std::string(16, '\0'), 1 << 30));
}

TEST_CASE("clients that do not send the read-only flag are served without it") {
  TestServer server;
  Client::Connected(server);
  Client old(server);
  REQUIRE(old.Connect(0, std::string(16, '\0'), 0, /*with_read_only=*/false));
  CHECK(old.session_id != 0);
}

TEST_CASE("bad input closes the connection of its sender, and no other") {
  TestServer server;
  auto other = Client::Connected(server);
  const std::string bad[] = {
      std::string("\xff\xff\xff\xff", 4),     // negative length
      std::string("\x7f\xff\xff\xff", 4),     // huge length
      std::string("GET / HTTP/1.1\r\n\r\n"),  // another protocol
      std::string("\0\0\0\x04"
                  "abcd",
                  8),  // not a connect request
      std::string("\0\0\0\x2c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x7f\xff\xff\xff",
                  32) +
          std::string(16, 'p'),  // password longer than the packet
  };
  for (const std::string& bytes : bad) {
    Client client(server);
    client.SendRaw(bytes);
    CHECK(client.HungUp());
  }
  auto unknown = Client::Connected(server);
  CHECK(unknown->Call(static_cast<OpCode>(99), "").error == ErrorCode::kUnimplemented);
  CHECK(unknown->HungUp());
  auto short_header = Client::Connected(server);
  short_header->SendPacket("abc");
  CHECK(short_header->HungUp());
  CHECK(other->Call(OpCode::kExists, PathAndWatch("/", false)).error == ErrorCode::kOk);
}

TEST_CASE("only allowed four-letter words are answered") {
  TestServer server;
  Client::Connected(server);
  const auto ask = [&](const std::string& word) {
    Client client(server);
    client.SendRaw(word);
    return client.ReadAll();
  };
  CHECK(ask("ruok") == "imok");
  CHECK(ask("isro") == "rw");
  CHECK(ask("srvr").find("Mode: standalone\n") != std::string::npos);
  CHECK(ask("stat") == "stat is not executed because it is not in the whitelist.\n");
  CHECK(ask("nope").empty());
}

TEST_CASE("connections from one address are limited") {
  TestServer server("maxClientCnxns=2\n");
  auto first = Client::Connected(server);
  auto second = Client::Connected(server);
  Client third(server);
  CHECK(third.HungUp());
}

}  // namespace
}  // namespace quorate::rpc::zk
