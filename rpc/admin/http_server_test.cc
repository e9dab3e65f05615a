// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/manual_clock.h"

namespace quorate::rpc::admin {
namespace {

using boost::asio::ip::tcp;

// Far more than the buffers of two sockets hold.
constexpr size_t kLargeBytes = 32u << 20;
constexpr size_t kUnsentBytesMax = kLargeBytes + kLargeBytes / 2;

// A stream of `size` bytes, in pieces of 100,000. Counts the streams that exist, the pieces, and the
// streams that are freed on another thread than that which made them.
class Numbers : public HttpStream {
 public:
  Numbers(uint64_t size, bool fails, std::atomic<int>* streams, std::atomic<int>* pieces,
          std::atomic<int>* strays, std::atomic<int>* sent)
      : size_(size),
        fails_(fails),
        streams_(*streams),
        pieces_(*pieces),
        strays_(*strays),
        sent_(*sent) {
    ++streams_;
  }
  ~Numbers() override {
    if (std::this_thread::get_id() != made_on_) ++strays_;
    --streams_;
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  static std::string Bytes(uint64_t from, uint64_t to) {
    std::string bytes;
    for (; from < to; ++from) bytes += static_cast<char>('a' + from % 23);
    return bytes;
  }
  uint64_t size() const override { return size_; }
  absl::Status Next(std::string* piece) override {
    ++pieces_;
    if (fails_ && at_ > 0)
      return absl::DataLossError("the stream of the test fails after its first piece");
    const uint64_t end = std::min(size_, at_ + 100'000);
    *piece = Bytes(at_, end);
    at_ = end;
    return absl::OkStatus();
  }
  void OnSent() override { ++sent_; }

 private:
  const uint64_t size_;
  const bool fails_;
  std::atomic<int>& streams_;
  std::atomic<int>& pieces_;
  std::atomic<int>& strays_;
  std::atomic<int>& sent_;
  const std::thread::id made_on_ = std::this_thread::get_id();
  uint64_t at_ = 0;
};

// Answers with what it was asked. A request for /slow or /console/slow waits until Release.
class Echo : public HttpHandler {
 public:
  std::optional<HttpResponse> Refuse(const HttpRequest& request) const override {
    {
      const std::lock_guard lock(mutex_);
      ++received_;
      changed_.notify_all();
    }
    if (request.target != "/console/foreign") return std::nullopt;
    return TextResponse(403, "foreign");
  }
  HttpThread ThreadOf(const HttpRequest& request) const override {
    if (request.target == "/quick") return HttpThread::kConnections;
    if (request.target.starts_with("/stream")) return HttpThread::kStreams;
    if (!request.target.starts_with("/console")) return HttpThread::kCommands;
    return request.method == "POST" ? HttpThread::kChanges : HttpThread::kConsole;
  }
  bool TakesLargeBody(const HttpRequest& request) const override {
    return request.target == "/large-body";
  }
  HttpResponse Handle(const HttpRequest& request) override {
    if (request.target == "/later") {
      HttpResponse later;
      later.make_on_streams = [thread = std::this_thread::get_id()] {
        return TextResponse(std::this_thread::get_id() == thread ? 500 : 202, "made later");
      };
      return later;
    }
    if (request.target.ends_with("/slow")) {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_released_; });
    }
    HttpResponse response;
    if (request.target.starts_with("/stream")) {
      const uint64_t size = request.target == "/stream/endless" ? uint64_t{1} << 40 : 350'000;
      response.stream = std::make_shared<Numbers>(size, request.target == "/stream/broken",
                                                  &streams, &pieces, &strays, &sent);
      return response;
    }
    if (request.has_large_body) return TextResponse(501, "large");
    if (request.target == "/large") {
      response.body = std::string(kLargeBytes, 'x');
      return response;
    }
    response.body = request.method + " " + request.target + " " + request.host + " " +
                    request.authorization + " " + request.caller.address;
    if (!request.body.empty()) {
      response.body +=
          " [" + request.content_type + "] [" + request.page_token + "] [" + request.body + "]";
    }
    if (request.is_passed_on) response.headers.emplace_back("X-Passed-On", "1");
    response.headers.emplace_back("X-Test", "1");
    return response;
  }
  // Waits until so many requests have been received.
  void AwaitReceived(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, number] { return received_ >= number; });
  }
  // The streams that exist, and the pieces that were made of them all.
  std::atomic<int> streams = 0;
  std::atomic<int> pieces = 0;
  std::atomic<int> sent = 0;    // streams whose last byte was taken
  std::atomic<int> strays = 0;  // streams that were freed on a thread of other work

  // Waits until all streams are freed.
  void AwaitFreed() const {
    while (streams > 0) std::this_thread::yield();
    CHECK(strays == 0);
  }
  void AwaitSlow() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int received_ = 0;
  int waiting_ = 0;
  bool is_released_ = false;
};

struct Running {
  explicit Running(size_t connections_max = 256, int idle_timeout_ms = 30'000,
                   size_t connections_per_address_max = 64, const char* address = "127.0.0.1")
      : server({.address_key = "k.address",
                .port_key = "k.port",
                .address = address,
                .port = 0,
                .idle_timeout_ms = idle_timeout_ms,
                .connections_max = connections_max,
                .connections_per_address_max = connections_per_address_max,
                .unsent_bytes_max = kUnsentBytesMax,
                .clock = &clock},
               &echo) {
    REQUIRE(server.Start().ok());
  }
  ~Running() { echo.Release(); }

  ManualClock clock;
  Echo echo;
  HttpServer server;
};

class Client {
 public:
  explicit Client(const Running& running, const char* from = "127.0.0.1")
      : Client(running.server.port(), from) {}
  explicit Client(uint16_t port, const char* from = "127.0.0.1") : socket_(io_) {
    const auto address = boost::asio::ip::make_address(from);
    socket_.open(address.is_v6() ? tcp::v6() : tcp::v4());
    socket_.bind({address, 0});
    socket_.set_option(boost::asio::socket_base::receive_buffer_size(1 << 16));
    const char* to = address.is_v6() ? "::1" : "127.0.0.1";
    socket_.connect({boost::asio::ip::make_address(to), port});
  }
  void Send(const std::string& bytes) {
    // The server may have closed the connection before it got everything.
    boost::system::error_code ignored;
    boost::asio::write(socket_, boost::asio::buffer(bytes), ignored);
  }
  // Returns everything up to the end of the connection.
  std::string ReadAll() {
    std::string text = std::move(received_);
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(text), error);
    return text;
  }
  // Returns everything up to and with `end`.
  std::string ReadUntil(const std::string& end) {
    const size_t size =
        boost::asio::read_until(socket_, boost::asio::dynamic_buffer(received_), end);
    std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
  std::string received_;
};

std::string Get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
}

std::string Post(const std::string& target, const std::string& body = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nX-Quorate-Page: 1.2\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("requests of one connection are answered in their order") {
  const Running running;
  Client client(running);
  client.Send(Get("/a?b=c", "Authorization: Bearer x\r\n") + Get("/quick") +
              "GET /last HTTP/1.0\r\n\r\n");
  const std::string text = client.ReadAll();
  INFO(text);
  const size_t first = text.find("GET /a?b=c h Bearer x 127.0.0.1");
  const size_t second = text.find("GET /quick h  127.0.0.1");
  const size_t third = text.find("GET /last   127.0.0.1");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK(text.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(Has(text, "X-Test: 1\r\n"));
  CHECK(Has(text, "Cache-Control: no-store\r\n"));
}

TEST_CASE("a request that a proxy has passed on is known by its headers") {
  const Running running;
  const auto is_passed_on = [&running](const std::string& headers) {
    Client client(running);
    client.Send(Get("/x", headers + "Connection: close\r\n"));
    return Has(client.ReadAll(), "X-Passed-On: 1\r\n");
  };
  CHECK_FALSE(is_passed_on(""));
  for (const char* name : {"Forwarded", "x-forwarded-for", "VIA"}) {
    INFO(name);
    CHECK(is_passed_on(std::string(name) + ": a\r\n"));
    CHECK(is_passed_on(std::string(name) + ":\r\n"));
  }
}

TEST_CASE("the body of a request, its type and the token of a page are passed to the handler") {
  const Running running;
  Client client(running);
  // The second request of the connection must not get the body, the type or the token of the first one.
  client.Send(Post("/console/x", "{\"a\": 1}") + "GET /last HTTP/1.0\r\n\r\n");
  const std::string text = client.ReadAll();
  INFO(text);
  CHECK(Has(text, "POST /console/x h  127.0.0.1 [a/b] [1.2] [{\"a\": 1}]"));
  CHECK(text.ends_with("GET /last   127.0.0.1"));
}

TEST_CASE("HEAD has the headers of GET, and no body") {
  const Running running;
  Client client(running);
  client.Send("HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string text = client.ReadAll();
  INFO(text);
  CHECK(text.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(Has(text, "Content-Length: 19\r\n"));  // GET /x h  127.0.0.1
  CHECK(text.ends_with("\r\n\r\n"));
}

TEST_CASE("what is not valid HTTP, or too long, is refused and the connection closed") {
  const Running running;
  const auto answer = [&](const std::string& bytes) {
    Client client(running);
    client.Send(bytes);
    return client.ReadAll();
  };
  CHECK(answer("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(answer("GET / HTTP/9.9\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(answer("G\x01T / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(answer("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(answer("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
            .starts_with("HTTP/1.1 400 "));
  const std::string large(kHeaderBytesMax, 'a');
  CHECK(answer(Get("/", "X: " + large + "\r\n")).starts_with("HTTP/1.1 431 "));
  CHECK(answer(Get("/" + large)).starts_with("HTTP/1.1 431 "));
  const std::string body(kBodyBytesMax + 1, 'b');
  CHECK(answer("POST / HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
               body)
            .starts_with("HTTP/1.1 413 "));
  CHECK(answer("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" +
               std::string(0x20000, 'c'))
            .starts_with("HTTP/1.1 413 "));
  // The end of the connection within a request is no request.
  Client client(running);
  client.Send(Get("/after", "Connection: close\r\n"));
  CHECK(Has(client.ReadAll(), "GET /after"));
}

TEST_CASE("a connection that sends its request too slowly is closed") {
  const Running running(/*connections_max=*/256, /*idle_timeout_ms=*/50);
  Client silent(running);
  Client slow(running);
  slow.Send("GET / HTTP/1.1\r\nX: a");
  CHECK(silent.ReadAll().empty());
  CHECK(slow.ReadAll().empty());
}

TEST_CASE("with too many connections, a new one replaces the one that waits longest") {
  const Running running(/*connections_max=*/2);
  Client first(running);
  Client second(running);
  // Each has had a response, so both are known to the server, and wait in this order.
  first.Send(Get("/1"));
  first.ReadUntil("127.0.0.1");
  second.Send(Get("/2"));
  second.ReadUntil("127.0.0.1");
  Client third(running);
  third.Send(Get("/3"));
  CHECK(Has(third.ReadUntil("127.0.0.1"), "GET /3"));
  CHECK(first.ReadAll().empty());
  second.Send(Get("/still", "Connection: close\r\n"));
  CHECK(Has(second.ReadAll(), "GET /still"));
}

TEST_CASE("a connection that has had its last response makes room for a new one") {
  const Running running(/*connections_max=*/1);
  Client first(running);
  first.Send(Get("/1", "Connection: close\r\n"));
  CHECK(Has(first.ReadAll(), "GET /1"));  // the server closes; the client does not
  Client second(running);
  second.Send(Get("/2"));
  CHECK(Has(second.ReadUntil("127.0.0.1"), "GET /2"));
}

TEST_CASE("one address cannot have all connections") {
  const Running running(/*connections_max=*/4, /*idle_timeout_ms=*/30'000,
                        /*connections_per_address_max=*/2);
  Client other(running, "127.0.0.2");
  other.Send(Get("/other"));
  other.ReadUntil("127.0.0.2");
  Client first(running);
  first.Send(Get("/1"));
  first.ReadUntil("127.0.0.1");
  Client second(running);
  second.Send(Get("/2"));
  second.ReadUntil("127.0.0.1");
  Client third(running);
  third.Send(Get("/3"));
  CHECK(Has(third.ReadUntil("127.0.0.1"), "GET /3"));
  CHECK(first.ReadAll().empty());
  other.Send(Get("/still", "Connection: close\r\n"));
  CHECK(Has(other.ReadAll(), "GET /still"));
}

TEST_CASE("if no connection waits, the one that has taken longest to fetch is replaced") {
  Running running(/*connections_max=*/2);
  Client greedy(running);
  greedy.Send(Get("/large"));
  greedy.ReadUntil("\r\n\r\n");  // the write has begun
  Client slow(running);
  slow.Send(Get("/slow"));
  running.echo.AwaitSlow();
  Client third(running);
  third.Send(Get("/quick"));
  CHECK(Has(third.ReadUntil("127.0.0.1"), "GET /quick"));
  CHECK(greedy.ReadAll().size() < kLargeBytes);
  running.echo.Release();
  CHECK(Has(slow.ReadUntil("127.0.0.1"), "GET /slow"));
}

bool HasIpv6() {
  boost::asio::io_context io;
  tcp::socket socket(io);
  boost::system::error_code error;
  socket.open(tcp::v6(), error);
  if (!error) socket.bind({boost::asio::ip::make_address("::1"), 0}, error);
  return !error;
}

TEST_CASE("the address 0.0.0.0 is that of IPv6 too") {
  const Running running(/*connections_max=*/256, /*idle_timeout_ms=*/30'000,
                        /*connections_per_address_max=*/64, "0.0.0.0");
  Client over_ipv4(running);
  over_ipv4.Send(Get("/4"));
  CHECK(Has(over_ipv4.ReadUntil("127.0.0.1"), "GET /4"));
  if (!HasIpv6()) return;  // a machine without it
  Client over_ipv6(running, "::1");
  over_ipv6.Send(Get("/6"));
  CHECK(Has(over_ipv6.ReadUntil("::1"), "GET /6"));
}

TEST_CASE("quick requests are answered while another request is being handled") {
  Running running;
  Client slow(running);
  slow.Send(Get("/slow"));
  running.echo.AwaitSlow();
  Client quick(running);
  quick.Send(Get("/quick"));
  CHECK(Has(quick.ReadUntil("127.0.0.1"), "GET /quick"));
  running.echo.Release();
  CHECK(Has(slow.ReadUntil("127.0.0.1"), "GET /slow"));
}

TEST_CASE("commands and the console do not wait for one another") {
  Running running;
  Client slow(running);
  slow.Send(Get("/slow"));
  running.echo.AwaitSlow();
  Client console(running);
  console.Send(Get("/console"));
  CHECK(Has(console.ReadUntil("127.0.0.1"), "GET /console"));
  running.echo.Release();
  CHECK(Has(slow.ReadUntil("127.0.0.1"), "GET /slow"));
}

TEST_CASE("the console does not wait for changes") {
  Running running;
  Client slow(running);
  slow.Send(Post("/console/slow"));
  running.echo.AwaitSlow();
  Client console(running);
  console.Send(Get("/console"));
  CHECK(Has(console.ReadUntil("127.0.0.1"), "GET /console"));
  running.echo.Release();
  CHECK(Has(slow.ReadUntil("127.0.0.1"), "POST /console/slow"));
}

TEST_CASE("requests of the console that wait for its thread are limited, and so are changes") {
  const bool is_change = GENERATE(false, true);
  const auto request = [is_change](const std::string& target) {
    return is_change ? Post(target) : Get(target);
  };
  constexpr int kMore = 20;    // requests beside the one that runs
  constexpr int kRefused = 5;  // of 21, 16 run or wait
  Running running;
  Client slow(running);
  slow.Send(request("/console/slow"));
  running.echo.AwaitSlow();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> answers;
  std::vector<std::thread> clients;
  for (int i = 0; i < kMore; ++i) {
    clients.emplace_back([&] {
      Client client(running);
      client.Send(request("/console"));
      std::string answer = client.ReadUntil("\r\n");
      const std::lock_guard lock(mutex);
      answers.push_back(std::move(answer));
      changed.notify_all();
    });
  }
  const auto count = [&answers](const char* status) {
    return std::count_if(answers.begin(), answers.end(),
                         [status](const std::string& answer) { return Has(answer, status); });
  };
  {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return answers.size() == kRefused; });
    CHECK(count("503") == kRefused);
  }
  running.echo.Release();
  for (std::thread& client : clients) client.join();
  CHECK(count("503") == kRefused);
  CHECK(count("200") == kMore - kRefused);
  CHECK(Has(slow.ReadUntil("127.0.0.1"), is_change ? "POST /console/slow" : "GET /console/slow"));
}

TEST_CASE(
    "a change that has waited too long is not made, and others wait as long as they have to") {
  const bool is_change = GENERATE(false, true);
  const auto request = [is_change](const std::string& target) {
    return is_change ? Post(target) : Get(target);
  };
  Running running;
  Client slow(running);
  slow.Send(request("/console/slow"));
  running.echo.AwaitSlow();
  Client late(running);
  late.Send(request("/console/late"));
  // The server has taken the time of a request before it asks for the thread of the next.
  running.echo.AwaitReceived(2);
  Client next(running);
  next.Send(Get("/quick"));
  CHECK(Has(next.ReadUntil("127.0.0.1"), "GET /quick"));
  running.clock.Advance(std::chrono::milliseconds(kChangeWaitMax).count() + 1);
  running.echo.Release();
  // It was begun in time, and its end does not matter.
  CHECK(Has(slow.ReadUntil("127.0.0.1"), "/console/slow"));
  const std::string answer = late.ReadUntil("\r\n");
  CHECK(Has(answer, is_change ? " 503 " : " 200 "));
  // The next ones do not suffer from it.
  next.Send(request("/console/next"));
  CHECK(Has(next.ReadUntil("127.0.0.1"), "/console/next"));
}

TEST_CASE("a request that is refused at once takes no place from those that wait") {
  Running running;
  Client slow(running);
  slow.Send(Post("/console/slow"));
  running.echo.AwaitSlow();
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_unique<Client>(running));
    others.back()->Send(Post("/console/foreign"));
    // It does not wait for the thread either, which is busy.
    CHECK(Has(others.back()->ReadUntil("\r\n"), " 403 "));
  }
  Client client(running);
  client.Send(Post("/console"));
  running.echo.Release();
  CHECK(Has(client.ReadUntil("\r\n"), " 200 "));
}

TEST_CASE("responses that are not taken are limited together") {
  const Running running;
  const std::string request = Get("/large", "Connection: close\r\n");
  Client first(running);
  first.Send(request);
  CHECK(Has(first.ReadUntil("\r\n\r\n"), "200 OK"));
  Client second(running);
  second.Send(request);
  CHECK(second.ReadAll().starts_with("HTTP/1.1 503 "));
  Client small(running);
  small.Send(Get("/small", "Connection: close\r\n"));
  CHECK(Has(small.ReadAll(), "GET /small"));
  CHECK(first.ReadAll().size() == kLargeBytes);
  Client third(running);
  third.Send(request);
  CHECK(third.ReadAll().starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a stream is sent whole, and the connection lives on") {
  Running running;
  Client client(running);
  client.Send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string head = client.ReadUntil("\r\n\r\n");
  CHECK(head.find("Content-Length: 350000\r\n") != std::string::npos);
  // The server does not get the next request before the client has the whole stream.
  client.Send("GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string rest = client.ReadAll();
  const std::string wanted = Numbers::Bytes(0, 350'000);
  REQUIRE(rest.size() > wanted.size());
  CHECK(rest.substr(0, wanted.size()) == wanted);
  CHECK(rest.substr(wanted.size()).starts_with("HTTP/1.1 200 OK"));
  running.echo.AwaitFreed();
  CHECK(running.echo.pieces == 4);
  CHECK(running.echo.sent == 1);
}

TEST_CASE("a request that was checked is handed to the thread of streams") {
  Running running;
  Client client(running);
  client.Send("GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.ReadAll();
  CHECK(all.starts_with("HTTP/1.1 202"));
  CHECK(all.ends_with("made later\n"));
}

TEST_CASE("HEAD has the size of a stream, and makes no piece of it") {
  Running running;
  Client client(running);
  client.Send("HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.ReadAll();
  CHECK(all.find("Content-Length: 350000\r\n") != std::string::npos);
  CHECK(all.ends_with("\r\n\r\n"));
  running.echo.AwaitFreed();
  CHECK(running.echo.pieces == 0);
  CHECK(running.echo.sent == 0);
}

TEST_CASE("a stream that fails ends the connection before its last byte") {
  Running running;
  Client client(running);
  client.Send("GET /stream/broken HTTP/1.1\r\nHost: a\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  CHECK(client.ReadAll() == Numbers::Bytes(0, 100'000));
  running.echo.AwaitFreed();
  CHECK(running.echo.pieces == 2);
  CHECK(running.echo.sent == 0);
}

TEST_CASE("a client that does not read a stream is closed, and the stream freed") {
  Running running(/*connections_max=*/256, /*idle_timeout_ms=*/300);
  Client client(running);
  client.Send("GET /stream/endless HTTP/1.1\r\nHost: a\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  // It takes only what the buffers of the two sockets hold.
  running.echo.AwaitFreed();
  CHECK(running.echo.pieces < 200);
}

TEST_CASE("a client that takes a stream too slowly on average is closed") {
  Echo echo;
  // No client is as fast.
  HttpServer server({.address_key = "k.address",
                     .port_key = "k.port",
                     .address = "127.0.0.1",
                     .stream_rate_min = uint64_t{1} << 60,
                     .stream_grace = std::chrono::milliseconds(0)},
                    &echo);
  REQUIRE(server.Start().ok());
  Client client(server.port());
  client.Send("GET /stream/endless HTTP/1.1\r\nHost: a\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  CHECK(client.ReadAll() == Numbers::Bytes(0, kStreamBytesPerTimeout));
  echo.AwaitFreed();
}

TEST_CASE("a stream is freed when its client is gone") {
  Running running;
  {
    Client client(running);
    client.Send("GET /stream/endless HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ReadUntil("\r\n\r\n");
  }
  running.echo.AwaitFreed();
}

TEST_CASE("a server can stop while a stream is sent") {
  auto running = std::make_unique<Running>();
  Client client(*running);
  client.Send("GET /stream/endless HTTP/1.1\r\nHost: a\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  running->server.Stop();
  running.reset();
  client.ReadAll();
}

TEST_CASE(
    "a request with a large body is answered if the handler wants it, and its body not read") {
  Running running;
  for (const std::string path : {"/large-body", "/other"}) {
    Client client(running);
    client.Send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    const std::string all = client.ReadAll();
    INFO(all);
    CHECK(all.starts_with(path == "/other" ? "HTTP/1.1 413" : "HTTP/1.1 501"));
    CHECK(all.find("Connection: close\r\n") != std::string::npos);
  }
}

TEST_CASE("a server can stop while requests are under way") {
  Running running;
  Client idle(running);
  Client slow(running);
  slow.Send(Get("/slow"));
  running.echo.AwaitSlow();
  running.echo.Release();
  running.server.Stop();
  SUCCEED();
}

TEST_CASE("a port that is taken is an error with the key and the way out") {
  Running running;
  HttpServer other({.address_key = "k.address",
                    .port_key = "k.port",
                    .address = "127.0.0.1",
                    .port = running.server.port()},
                   &running.echo);
  const absl::Status status = other.Start();
  CHECK(absl::IsUnavailable(status));
  CHECK(Has(std::string(status.message()), "set k.port to a free port"));
}

}  // namespace
}  // namespace quorate::rpc::admin
