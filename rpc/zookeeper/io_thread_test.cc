// SPDX-License-Identifier: Apache-2.0

// Sockets with TLS: what clients may send in a handshake and after it.
#include "rpc/zookeeper/io_thread.h"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address_v4.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/audit/testing/recorded_audit.h"
#include "rpc/tls/current_context.h"
#include "rpc/tls/options.h"
#include "rpc/tls/testing/test_certificates.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;
using std::chrono::milliseconds;

// A test fails when a client has waited so long.
constexpr timeval kPatience = {.tv_sec = 20, .tv_usec = 0};
constexpr size_t kReceiveBytes = 256u << 10;  // the I/O thread's buffer
constexpr size_t kRecordBytesMax = 16u << 10;

Config ConfigOf(int handshakes_max = -1) {
  Config config = TestConfig();
  config.four_letter_words = {"ruok"};
  config.ssl_handshakes_max = handshakes_max;
  return config;
}

// The client's end of a connection.
class Client {
 public:
  explicit Client(Descriptor socket) : socket_(std::move(socket)) {
    ::setsockopt(number(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  }

  int number() const { return socket_.number(); }
  SSL* ssl() { return ssl_.get(); }
  bool StartTls() {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), number());
    return SSL_connect(ssl_.get()) == 1;
  }
  void Send(const std::string& bytes) {
    CHECK(::send(number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  }
  // Returns what the server sends until it ends the connection; "late" if it does not.
  std::string Rest() {
    std::string text;
    std::array<char, 1000> piece{};
    while (true) {
      const ssize_t count = ::recv(number(), piece.data(), piece.size(), 0);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) return text;
      if (count < 0) return "late";
      text.append(piece.data(), static_cast<size_t>(count));
    }
  }
  std::string RestOfTls() {
    std::string text;
    std::array<char, 1000> piece{};
    while (true) {
      size_t count = 0;
      const int result = SSL_read_ex(ssl_.get(), piece.data(), piece.size(), &count);
      if (result != 1) {
        return SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN ? text : "late";
      }
      text.append(piece.data(), count);
    }
  }

 private:
  Descriptor socket_;
  std::unique_ptr<SSL_CTX, tls::OpensslDeleter<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, tls::OpensslDeleter<SSL_free>> ssl_;
};

// A running thread, which asks clients for no certificate.
class Fixture {
 public:
  // `memory`: the limit in bytes; 0: none.
  explicit Fixture(Config c = ConfigOf(), uint64_t memory = 0) : config_(std::move(c)) {
    service_.memory().SetLimit(memory);
    std::signal(SIGPIPE, SIG_IGN);  // as the server
    frontend_.SetRequestAudit(audit_.requests());
    const tls::TestIdentity server = tls::MakeIdentity({.common_name = "server"});
    tls::Options options;
    options.key_store.location = tls::WriteTestFile(
        "server.pem", tls::ToPem(server.key.get()) + tls::ToPem(server.certificate.get()));
    options.client_auth = tls::ClientAuth::kNone;
    auto context = tls::CurrentContext::Create(options, /*reloads=*/false);
    REQUIRE(context.ok());
    tls_ = *std::move(context);
    thread_.Start(tls_.get());
  }
  ~Fixture() { thread_.Stop(); }

  // Connects a client. The buffers of the connection's two ends have `buffer_bytes` or the system's
  // choice (0).
  Client Connect(IoThread::Encryption encryption, int buffer_bytes = 0) {
    const Descriptor listens(::socket(AF_INET, SOCK_STREAM, 0));
    Descriptor client(::socket(AF_INET, SOCK_STREAM, 0));
    for (const int number : {listens.number(), client.number()}) {
      if (buffer_bytes == 0) break;
      ::setsockopt(number, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(number, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listens.number(), generic, size) == 0);
    REQUIRE(::listen(listens.number(), 1) == 0);
    REQUIRE(::getsockname(listens.number(), generic, &size) == 0);
    REQUIRE(::connect(client.number(), generic, size) == 0);
    Descriptor accepted(::accept4(listens.number(), nullptr, nullptr, SOCK_NONBLOCK));
    REQUIRE(accepted.is_open());
    thread_.Adopt(std::move(accepted), {boost::asio::ip::address_v4::loopback(), 1}, encryption);
    return Client(std::move(client));
  }
  // Does something while the thread does nothing, so that it finds everything at once afterwards.
  template <typename Function>
  void WhileThreadWaits(const Function& function) {
    const auto waits = std::make_shared<std::promise<void>>();
    std::promise<void> done;
    const std::shared_future<void> may_go_on = done.get_future().share();
    thread_.poller().Post([waits, may_go_on] {
      waits->set_value();
      may_go_on.wait();
    });
    waits->get_future().wait();
    function();
    done.set_value();
  }
  void PostToThread(std::function<void()> task) { thread_.poller().Post(std::move(task)); }
  Statistics& statistics() { return frontend_.statistics(); }
  RecordedAudit& audit() { return audit_; }

 private:
  const Config config_;
  RecordedAudit audit_;
  FakeService service_;
  ManualClock clock_{kStartMs};
  CountingBytes random_;
  ZkFrontend frontend_{config_, &service_, &clock_, &random_};
  std::unique_ptr<tls::CurrentContext> tls_;
  IoThread thread_{&frontend_};
};

std::chrono::nanoseconds ProcessorTime() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST_CASE(
    "a packet is received whole although the buffer is full in the middle of its last record") {
  Fixture fixture;
  Client client = fixture.Connect(IoThread::Encryption::kTls, 2 << 20);
  REQUIRE(client.StartTls());
  // The last record does not fit by 50 bytes, and nothing comes after it.
  constexpr size_t kFirstRecord = 100;
  std::string packet(kReceiveBytes + 50, '\x7f');
  const auto length = static_cast<uint32_t>(packet.size() - 4);
  for (size_t i = 0; i < 4; ++i) packet[i] = static_cast<char>(length >> (24 - 8 * i));
  fixture.WhileThreadWaits([&] {
    for (size_t at = 0; at < packet.size();) {
      const size_t size = std::min(at == 0 ? kFirstRecord : kRecordBytesMax, packet.size() - at);
      REQUIRE(SSL_write(client.ssl(), packet.data() + at, static_cast<int>(size)) ==
              static_cast<int>(size));
      at += size;
    }
  });
  // It is no connect request, and so the server ends the connection once it has all of it.
  CHECK(client.RestOfTls().empty());
}

TEST_CASE("what comes together with the end of TLS is answered") {
  Fixture fixture;
  Client client = fixture.Connect(IoThread::Encryption::kTls);
  REQUIRE(client.StartTls());
  fixture.WhileThreadWaits([&] {
    REQUIRE(SSL_write(client.ssl(), "ruok", 4) == 4);
    CHECK(SSL_shutdown(client.ssl()) == 0);
  });
  CHECK(client.RestOfTls() == "imok");
}

TEST_CASE("a client that requests new keys and reads nothing does not keep the thread busy") {
  Fixture fixture;
  Client client = fixture.Connect(IoThread::Encryption::kTls, 4096);
  REQUIRE(client.StartTls());
  const timeval short_time = {.tv_sec = 0, .tv_usec = 300'000};
  ::setsockopt(client.number(), SOL_SOCKET, SO_SNDTIMEO, &short_time, sizeof short_time);
  // The server answers until its answers are in the way, and then the client's requests are.
  while (SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
         SSL_do_handshake(client.ssl()) == 1) {
  }
  // Once the server has done what it can, the process rests.
  constexpr auto kWindow = milliseconds(100);
  constexpr int kWindowsMax = 300;
  int windows = 0;
  for (bool is_busy = true; is_busy && windows < kWindowsMax; ++windows) {
    const auto before = ProcessorTime();
    std::this_thread::sleep_for(kWindow);
    is_busy = ProcessorTime() - before > kWindow / 4;
  }
  CHECK(windows < kWindowsMax);
}

TEST_CASE("a client that leaves before its first byte is no failed handshake") {
  Config config = ConfigOf();
  config.max_client_connections = 1;
  Fixture fixture(config);
  for (int i = 0; i < 3; ++i) {
    Client client = fixture.Connect(IoThread::Encryption::kEither);
    ::shutdown(client.number(), SHUT_WR);
    CHECK(client.Rest().empty());
  }
  Client client = fixture.Connect(IoThread::Encryption::kEither);
  client.Send("ruok");
  CHECK(client.Rest() == "imok");
  CHECK(fixture.statistics().tls_handshakes == 0);
  CHECK(fixture.statistics().tls_handshakes_failed == 0);
  CHECK(fixture.statistics().connections_refused == 0);
}

TEST_CASE("a failed handshake counts as a failed authentication, and leaves no connection") {
  Config config = ConfigOf();
  config.max_client_connections = 1;
  Fixture fixture(config);
  for (int i = 0; i < 3; ++i) {
    Client client = fixture.Connect(IoThread::Encryption::kTls);
    client.Send("ruok, without TLS");
    CHECK(client.Rest().find("imok") == std::string::npos);
  }
  CHECK(fixture.statistics().tls_handshakes == 0);
  CHECK(fixture.statistics().tls_handshakes_failed == 3);
  CHECK(fixture.statistics().Sum().auth_failures == 3);
  CHECK(fixture.statistics().connections_refused == 0);
}

TEST_CASE("a handshake that takes too long counts as expired, and not as failed authentication") {
  Config config = ConfigOf();
  config.first_request_timeout_ms = 50;
  Fixture fixture(config);
  Client client = fixture.Connect(IoThread::Encryption::kTls);
  client.Send("\x16\x03");
  CHECK(client.Rest().empty());
  while (fixture.statistics().Sum().handshakes_timed_out < 1) std::this_thread::yield();
  CHECK(fixture.statistics().Sum().auth_failures == 0);
  CHECK(fixture.audit().Lines().empty());
}

TEST_CASE("a client that sends nothing does not keep a failed handshake out of the audit log") {
  Config config = ConfigOf();
  config.ssl_handshake_detection_timeout_ms = 50;
  Fixture fixture(config);
  Client silent = fixture.Connect(IoThread::Encryption::kEither);
  CHECK(silent.Rest().empty());
  Client client = fixture.Connect(IoThread::Encryption::kTls);
  client.Send("ruok, without TLS");
  client.Rest();
  while (fixture.statistics().Sum().auth_failures < 1) std::this_thread::yield();
  fixture.WhileThreadWaits([] {});  // the line is recorded after it is counted
  CHECK(fixture.audit().Lines().size() == 1);
}

TEST_CASE("a limit of 0 handshakes is none, as in ZooKeeper") {
  Fixture fixture(ConfigOf(/*handshakes_max=*/0));
  Client client = fixture.Connect(IoThread::Encryption::kTls);
  CHECK(client.StartTls());
}

TEST_CASE("clients that ask for nothing take half of the descriptors, and the oldest are closed") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  // 128 descriptors are reserved, so that 43 clients may ask for nothing.
  const rlimit low = {.rlim_cur = 214, .rlim_max = before.rlim_max};
  Config config = ConfigOf();
  config.max_client_connections = 0;
  Fixture fixture(config);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  constexpr size_t kClosed = 12;
  std::vector<Client> clients;
  for (size_t i = 0; i < 43 + kClosed; ++i) {
    clients.push_back(
        fixture.Connect(i % 2 == 0 ? IoThread::Encryption::kNone : IoThread::Encryption::kTls));
  }
  clients.back().Send("ruok");
  CHECK(clients.back().Rest() == "imok");
  for (size_t i = 0; i < clients.size() - 1; ++i) {
    char byte = 0;
    const bool is_closed = ::recv(clients[i].number(), &byte, 1, MSG_DONTWAIT) >= 0;
    CHECK(is_closed == (i < kClosed));
  }
  CHECK(fixture.statistics().connections_refused == 0);
  CHECK(fixture.statistics().Sum().auth_failures == 0);
  CHECK(fixture.audit().Lines().empty());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

// Returns whether the server has closed the connection by now, and has sent nothing.
bool HasEnded(const Client& client) {
  char byte = 0;
  return ::recv(client.number(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

Config ConfigForMany() {
  Config config = ConfigOf();
  config.max_client_connections = 0;
  config.io_threads = 1;
  return config;
}

TEST_CASE("clients that come at the same time do not close one another's handshakes") {
  Fixture fixture(ConfigForMany(), /*memory=*/1);  // 64 handshakes
  std::vector<Client> clients;
  fixture.WhileThreadWaits([&] {
    for (int i = 0; i < 200; ++i) {
      clients.push_back(fixture.Connect(IoThread::Encryption::kEither));
      clients.back().Send("ruok");
    }
  });
  for (Client& client : clients) CHECK(client.Rest() == "imok");
}

TEST_CASE("the memory of handshakes is no limit for clients without TLS") {
  Fixture fixture(ConfigForMany(), /*memory=*/1);
  std::vector<Client> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(fixture.Connect(IoThread::Encryption::kNone));
  clients.back().Send("ruok");
  CHECK(clients.back().Rest() == "imok");
  CHECK_FALSE(HasEnded(clients.front()));
}

TEST_CASE("a handshake that has had its time is ended for one that waits, the oldest first") {
  Fixture fixture(ConfigForMany(), /*memory=*/1);
  std::vector<Client> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(fixture.Connect(IoThread::Encryption::kTls));
  Client client = fixture.Connect(IoThread::Encryption::kTls);
  CHECK(client.StartTls());
  CHECK(HasEnded(silent.front()));
  CHECK_FALSE(HasEnded(silent[1]));
  CHECK(fixture.statistics().Sum().auth_failures == 0);
}

TEST_CASE("a client whose handshake waits counts for the limit of its address") {
  Config config = ConfigForMany();
  config.max_client_connections = 70;
  Fixture fixture(config, /*memory=*/1);
  std::vector<Client> clients;
  fixture.WhileThreadWaits([&] {
    for (int i = 0; i < 80; ++i) clients.push_back(fixture.Connect(IoThread::Encryption::kTls));
  });
  for (size_t i = 70; i < clients.size(); ++i) CHECK(clients[i].Rest().empty());
  CHECK(fixture.statistics().connections_refused == 10);
  // Those that have waited still count, and no longer when they are gone.
  clients.erase(clients.begin() + 10, clients.end());
  while (fixture.statistics().tls_handshakes + fixture.statistics().tls_handshakes_waiting > 10) {
    std::this_thread::yield();
  }
  CHECK(fixture.Connect(IoThread::Encryption::kTls).StartTls());
}

TEST_CASE("clients whose handshakes wait are among those that take half of the descriptors") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  // 128 descriptors are reserved, so that 100 clients may ask for nothing.
  const rlimit low = {.rlim_cur = 328, .rlim_max = before.rlim_max};
  Fixture fixture(ConfigForMany(), /*memory=*/1);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  constexpr size_t kClosed = 12;
  std::vector<Client> clients;
  Statistics& statistics = fixture.statistics();
  std::promise<int64_t> open;
  fixture.WhileThreadWaits([&] {
    for (size_t i = 0; i < 100 + kClosed; ++i) {
      clients.push_back(fixture.Connect(IoThread::Encryption::kTls));
    }
    // Before any handshake has had its time.
    fixture.PostToThread(
        [&] { open.set_value(statistics.tls_handshakes + statistics.tls_handshakes_waiting); });
  });
  CHECK(open.get_future().get() == 100);
  for (size_t i = 0; i < kClosed; ++i) CHECK(clients[i].Rest().empty());
  CHECK(statistics.connections_refused == 0);
  CHECK_FALSE(HasEnded(clients.back()));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("a handshake that begins after others ended has no more than its time") {
  Fixture fixture(ConfigForMany(), /*memory=*/1);
  std::vector<Client> first;
  std::vector<Client> second;
  // One of the second clients waits for the others.
  fixture.WhileThreadWaits([&] {
    for (int i = 0; i < 64; ++i) first.push_back(fixture.Connect(IoThread::Encryption::kTls));
    for (int i = 0; i < 65; ++i) second.push_back(fixture.Connect(IoThread::Encryption::kTls));
  });
  std::promise<int64_t> waiting;
  fixture.WhileThreadWaits([&] {
    first.clear();
    // The poller runs each of these in a wait of its own. The second clients' handshakes begin
    // after the first one.
    fixture.PostToThread([&] {
      fixture.PostToThread([&] {
        const auto over = std::chrono::steady_clock::now() + milliseconds(300);
        std::this_thread::sleep_until(over);
        fixture.PostToThread(
            [&] { waiting.set_value(fixture.statistics().tls_handshakes_waiting); });
      });
    });
  });
  CHECK(waiting.get_future().get() == 0);
}

TEST_CASE("a thread that stops closes clients in their handshakes") {
  auto fixture = std::make_unique<Fixture>();
  Client tls = fixture->Connect(IoThread::Encryption::kTls);
  Client either = fixture->Connect(IoThread::Encryption::kEither);
  tls.Send("\x16\x03");
  while (fixture->statistics().tls_handshakes < 2) std::this_thread::yield();
  fixture.reset();
  CHECK(tls.Rest().empty());
  CHECK(either.Rest().empty());
}

}  // namespace
}  // namespace quorate::rpc::zk
