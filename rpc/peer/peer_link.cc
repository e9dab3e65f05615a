// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_link.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/thread.h"
#include "rpc/peer/peer_socket.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr auto kReconnectAfter = std::chrono::milliseconds(60);
constexpr auto kAttemptTimeout = std::chrono::seconds(2);

constexpr Poller::Readiness kReadable = {.readable = true, .writable = false};
constexpr Poller::Readiness kWritable = {.readable = false, .writable = true};

// Returns the error with which a connection attempt has ended; none if it is connected.
error_code ConnectError(int descriptor) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return LastError();
  return {error, boost::system::system_category()};
}

}  // namespace

PeerLink::PeerLink(Poller* poller, consensus::MemberId self, uint64_t process,
                   consensus::MemberId peer, PeerAddress address, PeerHandler* handler)
    : poller_(*poller),
      self_(self),
      process_(process),
      peer_(peer),
      address_(std::move(address)),
      handler_(handler) {
  error_code is_name;
  const auto numeric = boost::asio::ip::make_address(address_.host, is_name);
  if (!is_name) endpoints_.emplace_back(numeric, address_.port);
}

void PeerLink::SetClusterId(const std::string& cluster_id) {
  MutexLock lock(&mutex_);
  cluster_id_ = cluster_id;
}

bool PeerLink::IsSending() const {
  MutexLock lock(&mutex_);
  return connection_ != nullptr && connection_->is_sending;
}

std::optional<PeerLink::End> PeerLink::ConnectedTo() const {
  MutexLock lock(&mutex_);
  return connection_ == nullptr ? std::nullopt : std::optional(connected_to_);
}

std::string PeerLink::Problem() const {
  MutexLock lock(&mutex_);
  if (connection_ != nullptr || problem_.empty()) return "";
  return absl::StrCat(address_.ToString(), ": ", problem_);
}

int64_t PeerLink::DownForMs(Clock::time_point now) const {
  MutexLock lock(&mutex_);
  if (connection_ != nullptr) return 0;
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - down_since_).count();
}

void PeerLink::Tick(Clock::time_point now) {
  if (is_stopped_) return;
  if (lookup_ != nullptr && lookup_->is_done) TakeFound();
  if (!is_busy_ && now >= next_attempt_) {
    LookUp();
    if (!endpoints_.empty()) ConnectTo(endpoints_[next_endpoint_++ % endpoints_.size()]);
  }
  if (attempt_ != nullptr && now >= attempt_ends_) Close(attempt_, "no answer");
}

void PeerLink::Stop() {
  is_stopped_ = true;
  std::shared_ptr<Connection> connection = attempt_;
  if (connection == nullptr) {
    MutexLock lock(&mutex_);
    connection = connection_;
  }
  if (connection != nullptr) Close(connection, "we stop");
}

// --- Connecting ----------------------------------------------------------------------------------

void PeerLink::LookUp() {
  error_code is_name;
  boost::asio::ip::make_address(address_.host, is_name);
  if (!is_name || lookup_ != nullptr) return;
  lookup_ = std::make_shared<Lookup>();
  StartThread("peer-lookup", [lookup = lookup_, address = address_] {
    error_code error;
    boost::asio::io_context own;
    tcp::resolver resolver(own);
    const auto found = resolver.resolve(address.host, std::to_string(address.port), error);
    lookup->found.assign(found.begin(), found.end());
    if (error) lookup->problem = error.message();
    lookup->is_done = true;
  }).detach();
}

void PeerLink::TakeFound() {
  const std::shared_ptr<Lookup> lookup = std::exchange(lookup_, nullptr);
  if (!lookup->found.empty()) {
    endpoints_ = lookup->found;
    return;
  }
  {
    MutexLock lock(&mutex_);
    problem_ = absl::StrCat("the host is not found: ", lookup->problem);
  }
  if (std::exchange(logged_problem_, lookup->problem) != lookup->problem) {
    spdlog::error("the host {} of server {} is not found: {}", address_.host, peer_.value(),
                  lookup->problem);
  }
}

void PeerLink::ConnectTo(const tcp::endpoint& endpoint) {
  is_busy_ = true;
  attempt_ends_ = Clock::now() + kAttemptTimeout;
  const int family = endpoint.protocol().family();
  attempt_ = std::make_shared<Connection>(
      this, Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  const int descriptor = attempt_->socket.number();
  const auto bytes = static_cast<socklen_t>(endpoint.size());
  if (descriptor < 0 ||
      (::connect(descriptor, endpoint.data(), bytes) != 0 && errno != EINPROGRESS)) {
    return Close(attempt_, LastError().message());
  }
  const auto registration = poller_.Add(descriptor, kWritable, attempt_.get());
  if (!registration.has_value()) return Close(attempt_, LastError().message());
  attempt_->registration = *registration;
  attempt_->is_registered = true;
}

void PeerLink::OnReady(const std::shared_ptr<Connection>& connection, Poller::Readiness ready) {
  if (!connection->is_connected) return OnConnected(connection);
  if (ready.writable) {
    poller_.SetInterest(connection->registration, kReadable);
    SendPending(connection);
  }
  if (ready.readable && !connection->is_closed) ReadAnswer(connection);
}

void PeerLink::OnConnected(const std::shared_ptr<Connection>& connection) {
  const int descriptor = connection->socket.number();
  error_code error = ConnectError(descriptor);
  if (!error) error = ConfigurePeerSocket(descriptor);
  if (error) return Close(connection, error.message());
  const tcp::endpoint local = OwnEnd(descriptor, &error);
  if (error || local == OtherEnd(descriptor, &error)) {
    // TCP can connect a socket to itself if no process listens on the port (simultaneous open).
    return Close(connection, "it is ourselves");
  }
  connection->is_connected = true;
  poller_.SetInterest(connection->registration, kReadable);
  {
    MutexLock lock(&mutex_);
    connection->queue.AddHello(
        {kPeerProtocolVersion, self_, peer_, cluster_id_, kPeerProtocolNewest, process_});
  }
  connection->is_sending = true;
  SendPending(connection);
}

void PeerLink::BeginAgainLater() {
  is_busy_ = false;
  next_attempt_ = Clock::now() + kReconnectAfter;
}

void PeerLink::Close(std::shared_ptr<Connection> connection, const std::string& why) {
  if (std::exchange(connection->is_closed, true)) return;
  if (attempt_ == connection) attempt_ = nullptr;
  bool was_up;
  {
    MutexLock lock(&mutex_);
    problem_ = why;
    was_up = connection_ == connection;
    if (was_up) {
      connection_ = nullptr;
      down_since_ = Clock::now();
    }
  }
  if (std::exchange(connection->is_registered, false)) poller_.Remove(connection->registration);
  // The descriptor is closed when the last reference to the connection is dropped.
  if (connection->socket.is_open()) ::shutdown(connection->socket.number(), SHUT_RDWR);
  if (was_up) {
    spdlog::info("connection to server {} at {} lost: {}", peer_.value(), address_.ToString(), why);
    handler_->OnPeerDown(peer_);
  }
  BeginAgainLater();
}

void PeerLink::CloseLater(std::shared_ptr<Connection> connection, const std::string& why) {
  poller_.Post([self = shared_from_this(), connection = std::move(connection), why] {
    self->Close(connection, why);
  });
}

// --- What the peer answers -----------------------------------------------------------------------

void PeerLink::ReadAnswer(const std::shared_ptr<Connection>& connection) {
  const std::span<char> space = connection->answers.Space();
  const ssize_t received =
      ::recv(connection->socket.number(), space.data(), space.size(), MSG_DONTWAIT);
  if (received > 0) {
    connection->answers.Added(static_cast<size_t>(received));
    OnAnswers(connection);
  } else if (received == 0) {
    Close(connection, "closed by it");
  } else if (errno != EAGAIN && errno != EINTR) {
    Close(connection, LastError().message());
  }
}

void PeerLink::OnAnswers(const std::shared_ptr<Connection>& connection) {
  while (!connection->is_closed) {
    absl::StatusOr<std::shared_ptr<std::string>> bytes = connection->answers.Next();
    if (bytes.ok() && *bytes == nullptr) return;
    absl::StatusOr<PeerBatch> batch =
        bytes.ok() ? FrameDecoder().Decode(*std::move(bytes)) : bytes.status();
    if (batch.ok() && batch->answer.has_value()) {
      OnAnswer(connection, *batch->answer);
    } else {
      Close(connection, batch.ok() ? "it answers out of turn" : batch.status().ToString());
    }
  }
}

void PeerLink::OnAnswer(const std::shared_ptr<Connection>& connection, const HelloAnswer& answer) {
  if (answer.accepted) {
    if (attempt_ != connection) return;  // it was accepted before
    logged_problem_.clear();
    attempt_ = nullptr;
    // No other thread can reach the connection yet, so this needs no lock.
    connection->writer.SetReceiverVersion(answer.newest_version);
    error_code error;
    const tcp::endpoint remote = OtherEnd(connection->socket.number(), &error);
    {
      MutexLock lock(&mutex_);
      connected_to_ = {error ? "" : HostText(remote.address()), answer.process};
      connection_ = connection;
    }
    spdlog::info("connected to server {} at {}", peer_.value(), address_.ToString());
    return handler_->OnPeerUp(peer_);
  }
  if (attempt_ == connection && std::exchange(logged_problem_, answer.reason) != answer.reason) {
    spdlog::error("server {} at {} rejected the connection: {}", peer_.value(), address_.ToString(),
                  answer.reason);
  }
  if (!answer.cluster_id.empty()) handler_->OnOtherCluster(peer_, answer.cluster_id);
  Close(connection, answer.reason);
}

// --- Sending -------------------------------------------------------------------------------------

void PeerLink::SendPending(const std::shared_ptr<Connection>& connection) {
  while (!connection->writer.done() || MakeBatch(connection.get())) {
    switch (SendBatch(connection.get())) {
      case Progress::kDone:
        break;
      case Progress::kBlocked:
        return poller_.Post(
            [self = shared_from_this(), connection] { self->AwaitWritable(connection); });
      case Progress::kFailed:
        return CloseLater(connection, LastError().message());
    }
  }
}

bool PeerLink::MakeBatch(Connection* connection) {
  {
    MutexLock lock(&mutex_);
    if (!connection->writer.Refill(&connection->queue)) {
      connection->is_sending = false;
      return false;
    }
  }
  connection->writer.MakeBatch();
  return true;
}

PeerLink::Progress PeerLink::SendBatch(Connection* connection) {
  BatchWriter& writer = connection->writer;
  while (!writer.done()) {
    iovec parts[BatchWriter::kPartsMax];
    size_t count = 0;
    for (std::string_view part : writer.Rest()) {
      parts[count++] = {const_cast<char*>(part.data()), part.size()};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t sent =
        ::sendmsg(connection->socket.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      writer.Sent(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      return Progress::kBlocked;
    } else if (errno != EINTR) {
      return Progress::kFailed;
    }
  }
  return Progress::kDone;
}

void PeerLink::AwaitWritable(const std::shared_ptr<Connection>& connection) {
  if (connection->is_closed) return;
  poller_.SetInterest(connection->registration, {.readable = true, .writable = true});
}

}  // namespace quorate::rpc
