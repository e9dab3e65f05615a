// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/http_server.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/http/message_generator.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "base/thread.h"
#include "rpc/listen/listen.h"
#include "rpc/listen/lookup.h"
#include "rpc/tls/context.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/subject.h"

namespace quorate::rpc::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAcceptPause = std::chrono::seconds(1);
// How long, and for how many bytes, a connection that is closed with an error reads on, so that the
// client gets the response before it learns that its other bytes were not taken.
constexpr auto kDrainTime = std::chrono::seconds(1);
constexpr size_t kDrainBytesMax = 256u << 10;
// Responses of fewer bytes are sent however many others are unsent.
constexpr size_t kSmallBytes = 64u << 10;
// The most requests that wait for the thread of the console, of changes or of streams, or run there:
// each keeps a connection, of which others need some, such as probes of the server's health.
constexpr size_t kWaitingRequestsMax = 16;
constexpr int kStreamNice = 10;
constexpr char kWaitedTooLong[] =
    "the change has waited too long for others, and was not made; try again";
// The first byte of a TLS connection.
constexpr unsigned char kTlsHandshake = 0x16;

std::string AddressText(const tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  // An IPv4 client has the same address through an IPv6 socket.
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address.to_string();
}

// Returns the response to a request that could not be read; nullopt if the connection is just closed.
std::optional<HttpResponse> ResponseToError(const error_code& error) {
  if (error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  if (error == http::error::header_limit) {
    return TextResponse(431, absl::StrCat("the request line and the headers have more than ",
                                          kHeaderBytesMax, " bytes"));
  }
  if (error == http::error::body_limit) {
    return TextResponse(413, absl::StrCat("the body has more than ", kBodyBytesMax, " bytes"));
  }
  // Errors of the socket, of TLS, and of time have other categories.
  if (error.category() != make_error_code(http::error::bad_method).category()) return std::nullopt;
  return TextResponse(400, absl::StrCat("the request is not valid HTTP: ", error.message()));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler* handler)
      : options_(std::move(options)), handler_(*handler) {}

  absl::Status Start();
  void Stop();
  uint16_t port() const { return port_; }

 private:
  class Connection;
  using Connections = std::list<std::shared_ptr<Connection>>;

  absl::Status Listen();
  void Accept();
  void Admit(tcp::socket socket);
  // Returns the connection that makes room for a new one, only one of `address` unless that is empty;
  // null if there is none.
  std::shared_ptr<Connection> FindToReplace(const std::string& address) const;

  // Frees a stream on the thread of streams, as that may take long. REQUIRES: no other thread of the
  // server gets it later.
  void Free(std::shared_ptr<HttpStream> stream);

  const HttpServerOptions options_;
  HttpHandler& handler_;
  uint16_t port_ = 0;
  std::thread thread_;
  bool is_stopped_ = false;  // all threads have ended
  // These are used on that thread alone.
  size_t connections_ = 0;
  size_t unsent_bytes_ = 0;  // of the bodies of responses that are being written
  std::map<std::string, size_t> connections_of_address_;
  Connections waiting_;   // for a request; the one that waits longest first
  Connections writing_;   // a response; the one that began first comes first
  Connections draining_;  // after their last response; the one that began first comes first
  // The pending work of both owns connections, so it is destroyed before the above.
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer accept_pause_{io_};
  asio::thread_pool workers_{1};
  asio::thread_pool console_workers_{1};
  asio::thread_pool change_workers_{1};
  asio::thread_pool stream_workers_{1};
  // The requests that wait for these three threads, or run there.
  size_t console_requests_ = 0;
  size_t change_requests_ = 0;
  size_t stream_requests_ = 0;
};

// A connection lives as long as an operation of it is under way.
class HttpServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl* server, tcp::socket socket, const std::string& address)
      : server_(*server), tcp_(std::move(socket)) {
    ++server_.connections_;
    ++server_.connections_of_address_[address];
    caller_.address = address;
    caller_.origin = OriginOfAddress(caller_.address);
  }
  ~Connection() {
    --server_.connections_;
    const auto of_address = server_.connections_of_address_.find(caller_.address);
    if (--of_address->second == 0) server_.connections_of_address_.erase(of_address);
    server_.unsent_bytes_ -= unsent_bytes_;
    server_.Free(std::move(stream_));
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Begin() {
    BeginToWait();
    using Encryption = HttpServerOptions::Encryption;
    if (server_.options_.encryption == Encryption::kNone) return Read();
    if (server_.options_.encryption == Encryption::kTls) return BeginTls();
    tcp_.async_read_some(
        buffer_.prepare(1), [self = shared_from_this()](const error_code& error, size_t bytes) {
          if (error) return self->Close();
          self->buffer_.commit(bytes);
          const auto* first = static_cast<const unsigned char*>(self->buffer_.data().data());
          return *first == kTlsHandshake ? self->BeginTls() : self->Read();
        });
  }
  const std::string& address() const { return caller_.address; }
  // Ends a connection whose request is not being handled.
  void Close() {
    LeaveList();
    error_code ignored;
    tcp_.socket().close(ignored);
  }

 private:
  void BeginToWait() {
    tcp_.expires_after(std::chrono::milliseconds(server_.options_.idle_timeout_ms));
    EnterList(&server_.waiting_);
  }
  // REQUIRES: it is in no list.
  void EnterList(Connections* list) {
    list_ = list;
    place_ = list->insert(list->end(), shared_from_this());
  }
  void LeaveList() {
    if (list_ != nullptr) std::exchange(list_, nullptr)->erase(place_);
  }

  void BeginTls() {
    tls::Context::SslPtr ssl = server_.options_.tls->Get()->NewServer();
    if (ssl == nullptr) return Close();
    tls_.emplace(tcp_, ssl.release());
    tls_->async_handshake(asio::ssl::stream_base::server, buffer_.data(),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            if (error) return self->OnFailedHandshake(error);
                            self->buffer_.consume(bytes);
                            self->TakeSubject();
                            self->Read();
                          });
  }
  void OnFailedHandshake(const error_code& error) {
    const auto& report = server_.options_.on_failed_handshake;
    if (report) {
      // Asio has taken the error from OpenSSL's queue, so that FailureOf knows only of certificates.
      const bool is_certificate = SSL_get_verify_result(tls_->native_handle()) != X509_V_OK;
      const std::string why = is_certificate ? tls::FailureOf(tls_->native_handle())
                              : error == asio::error::operation_aborted
                                  ? "newer connections need its place"
                                  : error.message();
      report(address(), why, error.category() == asio::error::get_ssl_category());
    }
    Close();
  }
  void TakeSubject() {
    const X509* certificate = SSL_get0_peer_certificate(tls_->native_handle());
    if (certificate != nullptr) caller_.subject = tls::SubjectOf(certificate);
  }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    parser_->body_limit(kBodyBytesMax);
    auto done = [self = shared_from_this()](const error_code& error, size_t) {
      self->OnRead(error);
    };
    if (tls_.has_value()) {
      http::async_read(*tls_, buffer_, *parser_, std::move(done));
    } else {
      http::async_read(tcp_, buffer_, *parser_, std::move(done));
    }
  }

  void OnRead(const error_code& error) {
    LeaveList();
    if (error == http::error::body_limit) {
      auto request = std::make_shared<HttpRequest>(TakeRequest());
      request->has_large_body = true;
      request->body.clear();
      ends_ = true;
      if (server_.handler_.TakesLargeBody(*request)) return Dispatch(std::move(request));
    }
    if (error) {
      const std::optional<HttpResponse> response = ResponseToError(error);
      if (!response.has_value()) return Close();
      return Write(*response, 11, /*keep_alive=*/false, /*has_body=*/true);
    }
    auto request = std::make_shared<HttpRequest>(TakeRequest());
    if (const auto refusal = server_.handler_.Refuse(*request)) return Respond(*refusal);
    Dispatch(std::move(request));
  }

  // Lets the thread that the handler names handle a request.
  void Dispatch(std::shared_ptr<HttpRequest> request) {
    const HttpThread thread = server_.handler_.ThreadOf(*request);
    if (thread == HttpThread::kConnections) return Respond(server_.handler_.Handle(*request));
    Run(thread, [&handler = server_.handler_, request = std::move(request)] {
      return handler.Handle(*request);
    });
  }
  // Lets a thread make the response.
  void Run(HttpThread thread, std::function<HttpResponse()> make) {
    const auto last_start = thread == HttpThread::kChanges
                                ? server_.options_.clock->Now() + kChangeWaitMax
                                : std::chrono::steady_clock::time_point::max();
    size_t* waiting = thread == HttpThread::kConsole   ? &server_.console_requests_
                      : thread == HttpThread::kChanges ? &server_.change_requests_
                      : thread == HttpThread::kStreams ? &server_.stream_requests_
                                                       : nullptr;
    if (waiting != nullptr) {
      if (*waiting >= kWaitingRequestsMax) {
        return Respond(TextResponse(503, "too many requests of this kind wait; try again"));
      }
      ++*waiting;
    }
    asio::thread_pool& workers = thread == HttpThread::kConsole   ? server_.console_workers_
                                 : thread == HttpThread::kChanges ? server_.change_workers_
                                 : thread == HttpThread::kStreams ? server_.stream_workers_
                                                                  : server_.workers_;
    asio::post(workers, [self = shared_from_this(), make = std::move(make), waiting,
                         last_start]() mutable {
      Impl& server = self->server_;
      HttpResponse response =
          server.options_.clock->Now() <= last_start ? make() : TextResponse(503, kWaitedTooLong);
      // The connection is given back, so that it ends on the thread that serves all connections.
      asio::post(server.io_,
                 [self = std::move(self), response = std::move(response), waiting]() mutable {
                   if (waiting != nullptr) --*waiting;
                   if (response.make_on_streams) {
                     return self->Run(HttpThread::kStreams, std::move(response.make_on_streams));
                   }
                   self->Respond(response);
                   self->server_.Free(std::move(response.stream));
                 });
    });
  }

  HttpRequest TakeRequest() {
    auto& message = parser_->get();
    const auto text = [](beast::string_view view) { return std::string(view.data(), view.size()); };
    HttpRequest request;
    is_head_ = message.method() == http::verb::head;
    request.method = is_head_ ? "GET" : text(message.method_string());
    request.target = text(message.target());
    request.caller = caller_;
    request.is_encrypted = tls_.has_value();
    request.host = text(message[http::field::host]);
    request.authorization = text(message[http::field::authorization]);
    request.accept = text(message[http::field::accept]);
    request.origin = text(message[http::field::origin]);
    request.has_several_authorizations = message.count(http::field::authorization) > 1;
    request.fetch_site = text(message["Sec-Fetch-Site"]);
    request.is_passed_on = message.count(http::field::forwarded) > 0 ||
                           message.count("X-Forwarded-For") > 0 ||
                           message.count(http::field::via) > 0;
    request.content_type = text(message[http::field::content_type]);
    request.page_token = text(message["X-Quorate-Page"]);
    request.body = std::move(message.body());
    return request;
  }

  void Respond(const HttpResponse& response) {
    const unsigned version = parser_->get().version();
    const bool keep_alive = parser_->get().keep_alive() && !ends_;
    const size_t bytes = response.body.size();
    if (bytes >= kSmallBytes && !is_head_ &&
        server_.unsent_bytes_ + bytes > server_.options_.unsent_bytes_max) {
      return Write(TextResponse(503, "too many bytes of responses are not taken yet; try again"),
                   version, keep_alive, /*has_body=*/true);
    }
    Write(response, version, keep_alive, !is_head_);
  }

  // `version` is 10 or 11. Without `has_body`, the headers are those of a response with a body.
  void Write(const HttpResponse& response, unsigned version, bool keep_alive, bool has_body) {
    stream_ = has_body ? response.stream : nullptr;
    http::response<http::string_body> message{static_cast<http::status>(response.status), version};
    message.set(http::field::content_type, response.content_type);
    // Values change from one moment to the next, and a page of an attacker must not guess types.
    message.set(http::field::cache_control, "no-store");
    message.set("X-Content-Type-Options", "nosniff");
    if (tls_.has_value()) {
      message.set(http::field::strict_transport_security, "max-age=86400; includeSubDomains");
    }
    for (const auto& [name, value] : response.headers) message.set(name, value);
    message.keep_alive(keep_alive);
    message.content_length(response.stream != nullptr ? response.stream->size()
                                                      : response.body.size());
    if (has_body) {
      message.body() = response.body;
      unsent_bytes_ = response.body.size();
      server_.unsent_bytes_ += unsent_bytes_;
    }
    tcp_.expires_after(std::chrono::milliseconds(server_.options_.idle_timeout_ms));
    EnterList(&server_.writing_);
    http::message_generator generator(std::move(message));
    auto done = [self = shared_from_this(), keep_alive](const error_code& error, size_t) {
      self->LeaveList();
      self->server_.unsent_bytes_ -= std::exchange(self->unsent_bytes_, 0);
      if (error) return self->Close();
      self->stream_keeps_alive_ = keep_alive;
      self->stream_left_ = self->stream_ != nullptr ? self->stream_->size() : 0;
      self->stream_taken_ = 0;
      self->stream_began_ = std::chrono::steady_clock::now();
      if (self->stream_left_ > 0) return self->MakePiece();
      self->EndResponse(keep_alive);
    };
    if (tls_.has_value()) {
      beast::async_write(*tls_, std::move(generator), std::move(done));
    } else {
      beast::async_write(tcp_, std::move(generator), std::move(done));
    }
  }

  void EndResponse(bool keep_alive) {
    server_.Free(std::move(stream_));
    if (!keep_alive) return BeginDrain();
    BeginToWait();
    Read();
  }

  // Lets the thread of streams make the next piece, and sends it.
  void MakePiece() {
    asio::post(server_.stream_workers_, [self = shared_from_this(), stream = stream_]() mutable {
      auto piece = std::make_shared<std::string>();
      const absl::Status status = stream->Next(piece.get());
      stream.reset();
      asio::io_context& io = self->server_.io_;
      asio::post(io, [self = std::move(self), piece, status] { self->OnPiece(piece, status); });
    });
  }
  void OnPiece(const std::shared_ptr<std::string>& piece, const absl::Status& status) {
    if (!status.ok() || piece->empty() || piece->size() > stream_left_) {
      server_.Free(std::move(stream_));
      return Close();
    }
    WritePiece(piece, 0);
  }
  // Returns whether the client takes the stream so slowly that it would hold what it needs for days.
  bool IsTooSlow() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - stream_began_;
    const HttpServerOptions& options = server_.options_;
    return passed > options.stream_grace &&
           static_cast<double>(stream_taken_) <
               passed.count() * static_cast<double>(options.stream_rate_min);
  }
  // Sends the rest of a piece from byte `at` on.
  void WritePiece(std::shared_ptr<std::string> piece, size_t at) {
    const size_t bytes = std::min(kStreamBytesPerTimeout, piece->size() - at);
    tcp_.expires_after(std::chrono::milliseconds(server_.options_.idle_timeout_ms));
    EnterList(&server_.writing_);
    const asio::const_buffer buffer(piece->data() + at, bytes);
    auto done = [self = shared_from_this(), piece = std::move(piece), at, bytes](
                    const error_code& error, size_t) {
      self->LeaveList();
      self->stream_taken_ += bytes;
      if (!error) self->stream_left_ -= bytes;
      if (error || (self->stream_left_ > 0 && self->IsTooSlow())) {
        self->server_.Free(std::move(self->stream_));
        return self->Close();
      }
      if (at + bytes < piece->size()) return self->WritePiece(piece, at + bytes);
      if (self->stream_left_ > 0) return self->MakePiece();
      asio::post(self->server_.stream_workers_, [stream = self->stream_] { stream->OnSent(); });
      self->EndResponse(self->stream_keeps_alive_);
    };
    if (tls_.has_value()) {
      asio::async_write(*tls_, buffer, std::move(done));
    } else {
      asio::async_write(tcp_, buffer, std::move(done));
    }
  }

  void BeginDrain() {
    LeaveList();
    EnterList(&server_.draining_);
    tcp_.expires_after(kDrainTime);
    if (tls_.has_value()) {
      tls_->async_shutdown([self = shared_from_this()](const error_code&) { self->Close(); });
      return;
    }
    error_code ignored;
    tcp_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    Drain();
  }
  void Drain() {
    buffer_.clear();
    tcp_.async_read_some(buffer_.prepare(kHeaderBytesMax),
                         [self = shared_from_this()](const error_code& error, size_t bytes) {
                           self->drained_bytes_ += bytes;
                           if (error || self->drained_bytes_ > kDrainBytesMax) return self->Close();
                           self->Drain();
                         });
  }

  Impl& server_;
  beast::tcp_stream tcp_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  beast::flat_buffer buffer_{kHeaderBytesMax + kBodyBytesMax};
  std::optional<http::request_parser<http::string_body>> parser_;
  Principal caller_;
  bool is_head_ = false;
  size_t unsent_bytes_ = 0;  // this connection's part of that of the server
  size_t drained_bytes_ = 0;
  bool ends_ = false;  // after the response, because the body of the request was not read
  std::shared_ptr<HttpStream> stream_;  // that is being sent; null: none
  bool stream_keeps_alive_ = false;
  uint64_t stream_left_ = 0;   // bytes that are to be sent
  uint64_t stream_taken_ = 0;  // bytes that were sent
  std::chrono::steady_clock::time_point stream_began_;
  Connections* list_ = nullptr;  // the list of the server that it is in, at place_
  Connections::iterator place_;
};

absl::Status HttpServer::Impl::Listen() {
  error_code error;
  const auto found = LookUpOwnName(options_.address_key, options_.address, options_.port, &error);
  if (error || found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.address_key, ": \"", options_.address,
                     "\" is neither an IP address nor a name that is known: ", error.message()));
  }
  // 0.0.0.0, the default, means all addresses, as for Java's servers: those of IPv6 too.
  const bool on_all = found.front().address() == asio::ip::address_v4::any();
  error = on_all ? ListenOnAll(options_.port, &acceptor_)
                 : ListenOn(found.front(), Families::kBoth, &acceptor_);
  if (!error) port_ = acceptor_.local_endpoint(error).port();
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", options_.address, ":",
                                             options_.port, ": ", error.message(), "; set ",
                                             options_.port_key, " to a free port"));
}

absl::Status HttpServer::Impl::Start() {
  if (absl::Status s = Listen(); !s.ok()) return s;
  Accept();
  // Streams are long work: clients, elections and all other work come first.
  asio::post(stream_workers_,
             [] { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kStreamNice); });
  thread_ = StartThread("http", [this] { io_.run(); });
  return absl::OkStatus();
}

void HttpServer::Impl::Stop() {
  workers_.stop();
  console_workers_.stop();
  change_workers_.stop();
  stream_workers_.stop();
  workers_.join();
  console_workers_.join();
  change_workers_.join();
  stream_workers_.join();
  io_.stop();
  if (thread_.joinable()) thread_.join();
  is_stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  waiting_.clear();
  writing_.clear();
  draining_.clear();
}

void HttpServer::Impl::Free(std::shared_ptr<HttpStream> stream) {
  // Without threads, the caller frees it.
  if (stream == nullptr || is_stopped_) return;
  asio::post(stream_workers_, [stream = std::move(stream)] {});
}

void HttpServer::Impl::Accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      Admit(std::move(socket));
      return Accept();
    }
    // The process has most likely no free descriptors, so an immediate retry would fail too.
    spdlog::warn("a connection to the HTTP port could not be accepted: {}", error.message());
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](const error_code& stopped) {
      if (!stopped) Accept();
    });
  });
}

void HttpServer::Impl::Admit(tcp::socket socket) {
  error_code ignored;
  const std::string address = AddressText(socket.remote_endpoint(ignored));
  const auto others = connections_of_address_.find(address);
  const bool is_greedy = others != connections_of_address_.end() &&
                         others->second >= options_.connections_per_address_max;
  if (is_greedy || connections_ >= options_.connections_max) {
    const std::shared_ptr<Connection> oldest = FindToReplace(is_greedy ? address : "");
    if (oldest == nullptr) return;
    oldest->Close();
  }
  std::make_shared<Connection>(this, std::move(socket), address)->Begin();
}

std::shared_ptr<HttpServer::Impl::Connection> HttpServer::Impl::FindToReplace(
    const std::string& address) const {
  for (const Connections* list : {&draining_, &waiting_, &writing_}) {
    for (const std::shared_ptr<Connection>& connection : *list) {
      if (address.empty() || connection->address() == address) return connection;
    }
  }
  return nullptr;
}

HttpServer::HttpServer(HttpServerOptions options, HttpHandler* handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {}

HttpServer::~HttpServer() { Stop(); }

absl::Status HttpServer::Start() { return impl_->Start(); }

uint16_t HttpServer::port() const { return impl_->port(); }

void HttpServer::Stop() { impl_->Stop(); }

}  // namespace quorate::rpc::admin
