// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/engine.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/assert.h"

namespace quorate::tools::bench {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
constexpr size_t kEventsEach = 256;
// The most connections that connect at a time. More would not fit into the queue of a listening
// socket.
constexpr size_t kConnectingMax = 64;
constexpr int64_t kConnectTimeoutNs = kNsInSecond;
constexpr int64_t kReconnectDelayNs = 10 * kNsInMs;
constexpr int64_t kSweepNs = 100 * kNsInMs;
constexpr int64_t kSweepWhileDownNs = 2 * kNsInMs;
constexpr int64_t kProgressNs = 200 * kNsInMs;
constexpr int64_t kCloseTimeoutNs = 3 * kNsInSecond;
// The timer slack of the thread, small so that operations at a fixed rate begin on time.
constexpr unsigned long kTimerSlackNs = 1000;

// Raises the limit of open files to the maximum that the system allows.
void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsInSecond + now.tv_nsec;
}

absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& servers,
                                              std::shared_ptr<const wire::TlsClient> tls) {
  std::vector<Endpoint> endpoints;
  const std::vector<std::string> items = absl::StrSplit(servers, ',', absl::SkipEmpty());
  for (const std::string& item : items) {
    const size_t colon = item.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == item.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", item, "\" is not a server: it must be host:port"));
    }
    Endpoint endpoint;
    endpoint.text = item;
    std::string host = item.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    const std::string port = item.substr(colon + 1);
    endpoint.host = host;
    endpoint.tls = tls;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (error != 0) {
      return absl::UnavailableError(absl::StrCat(item, ": ", gai_strerror(error)));
    }
    std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
    endpoint.address_size = found->ai_addrlen;
    freeaddrinfo(found);
    endpoints.push_back(std::move(endpoint));
  }
  if (endpoints.empty()) return absl::InvalidArgumentError("there is no server: name host:port");
  return endpoints;
}

Engine::Engine(int session_timeout_ms)
    : session_timeout_ms_(session_timeout_ms),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      buffer_(kBufferBytes, '\0') {
  ASSERT(epoll_ >= 0);
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  RaiseFileLimit();
}

Engine::~Engine() {
  for (const auto& group : groups_) {
    for (const auto& connection : *group) Drop(*connection);
  }
  close(epoll_);
}

Connections* Engine::Add(size_t count, const std::vector<Endpoint>& servers,
                         ConnectionHandler* handler, bool parked) {
  ASSERT(!servers.empty());
  auto group = std::make_unique<Connections>();
  for (size_t i = 0; i < count; ++i) {
    auto connection = std::make_unique<Connection>();
    connection->number_ = i;
    connection->handler_ = handler;
    connection->servers_ = &servers;
    connection->server_ = i % servers.size();
    connection->password_.assign(tree::kPasswordBytes, '\0');
    connection->state_ = parked ? Connection::State::kParked : Connection::State::kDown;
    group->push_back(std::move(connection));
  }
  groups_.push_back(std::move(group));
  next_sweep_ns_ = 0;
  return groups_.back().get();
}

void Engine::Remove(Connections* connections) {
  // Replaces the handlers, which must not be called from now on.
  class Silence : public ConnectionHandler {
   public:
    void OnReply(Connection&, const Request&, tree::ErrorCode, std::string_view, int64_t) override {
    }
  } silence;
  for (const auto& connection : *connections) {
    connection->handler_ = &silence;
    if (connection->is_up()) {
      if (connection->close_xid_ == 0) Close(*connection);
    } else {
      if (connection->state_ == Connection::State::kConnecting ||
          connection->state_ == Connection::State::kHandshake) {
        --connecting_;
      }
      Drop(*connection);
      connection->state_ = Connection::State::kParked;
    }
  }
  RunUntil(NowNs() + kCloseTimeoutNs, [connections] {
    return std::none_of(connections->begin(), connections->end(),
                        [](const auto& connection) { return connection->is_up(); });
  });
  for (const auto& connection : *connections) {
    Drop(*connection);
    std::erase(dirty_, connection.get());
  }
  std::erase_if(groups_, [connections](const auto& group) { return group.get() == connections; });
}

int32_t Engine::TakeXid(Connection& connection) {
  const int32_t xid = connection.next_xid_;
  connection.next_xid_ = xid == INT32_MAX ? 1 : xid + 1;
  return xid;
}

wire::RequestWriter Engine::Send(Connection& connection, wire::OpCode op, int32_t kind,
                                 uint32_t key, int64_t start_ns) {
  ASSERT(connection.is_up());
  const int32_t xid = TakeXid(connection);
  connection.pending_.push_back({xid, kind, key, start_ns});
  MarkDirty(connection);
  return wire::RequestWriter(&connection.to_send_, xid, op);
}

void Engine::Connect(Connection& connection) {
  ASSERT(connection.state_ == Connection::State::kParked);
  connection.state_ = Connection::State::kDown;
  connection.retry_ns_ = 0;
  next_sweep_ns_ = 0;
}

void Engine::Close(Connection& connection) {
  ASSERT(connection.is_up());
  ASSERT(connection.close_xid_ == 0);
  connection.close_xid_ = TakeXid(connection);
  wire::RequestWriter(&connection.to_send_, connection.close_xid_, wire::kCloseSession).body();
  MarkDirty(connection);
}

bool Engine::RunUntil(int64_t deadline_ns, absl::FunctionRef<bool()> done) {
  for (;;) {
    const int64_t now_ns = NowNs();
    int64_t wake_ns = deadline_ns;
    // All connections of a group have the same handler. NextTurnNs of the handler says when it
    // needs its next OnTurn.
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i]->empty()) continue;
      ConnectionHandler* handler = groups_[i]->front()->handler_;
      handler->OnTurn(now_ns);
      wake_ns = std::min(wake_ns, handler->NextTurnNs(now_ns));
    }
    if (now_ns >= next_sweep_ns_) Sweep(now_ns);
    FlushDirty();
    if (progress_ && now_ns >= next_progress_ns_) {
      progress_();
      next_progress_ns_ = now_ns + kProgressNs;
    }
    if (done()) return true;
    if (now_ns >= deadline_ns) return false;
    Wait(std::min(wake_ns, next_sweep_ns_) - now_ns);
  }
}

void Engine::Wait(int64_t timeout_ns) {
  std::array<epoll_event, kEventsEach> events;
  timeout_ns = std::max<int64_t>(timeout_ns, 0);
  const timespec timeout{timeout_ns / kNsInSecond, timeout_ns % kNsInSecond};
  int count = epoll_pwait2(epoll_, events.data(), kEventsEach, &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {
    const auto timeout_ms = static_cast<int>((timeout_ns + kNsInMs - 1) / kNsInMs);
    count = epoll_wait(epoll_, events.data(), kEventsEach, timeout_ms);
  }
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    Connection& connection = *static_cast<Connection*>(event.data.ptr);
    if (connection.socket_ < 0) continue;
    if (connection.state_ == Connection::State::kConnecting) {
      FinishConnect(connection);
      continue;
    }
    if ((event.events & EPOLLOUT) != 0) Flush(connection, NowNs());
    if (connection.socket_ >= 0 && (event.events & ~EPOLLOUT) != 0) Receive(connection);
    while (connection.tls_ != nullptr && connection.tls_->may_have_more()) Receive(connection);
  }
}

void Engine::Sweep(int64_t now_ns) {
  next_sweep_ns_ = now_ns + kSweepNs;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const auto& connection : *groups_[i]) SweepOne(*connection, now_ns);
  }
}

void Engine::SweepOne(Connection& connection, int64_t now_ns) {
  switch (connection.state_) {
    case Connection::State::kParked:
      return;
    case Connection::State::kDown:
      next_sweep_ns_ = std::min(next_sweep_ns_, now_ns + kSweepWhileDownNs);
      if (now_ns >= connection.retry_ns_ && connecting_ < kConnectingMax) {
        StartConnect(connection, now_ns);
      }
      return;
    case Connection::State::kConnecting:
    case Connection::State::kHandshake:
      next_sweep_ns_ = std::min(next_sweep_ns_, now_ns + kSweepWhileDownNs);
      if (now_ns - connection.last_sent_ns_ > kConnectTimeoutNs) {
        Disconnect(connection, "the server does not answer", now_ns);
      }
      return;
    case Connection::State::kUp:
      break;
  }
  const int64_t timeout_ns = connection.timeout_ms_ * kNsInMs;
  const bool waits = !connection.pending_.empty() || connection.ping_pending_;
  if (waits && now_ns - connection.last_received_ns_ > timeout_ns * 2 / 3) {
    Disconnect(connection, "the server has stopped answering", now_ns);
  } else if (!connection.ping_pending_ && now_ns - connection.last_sent_ns_ > timeout_ns / 3) {
    wire::RequestWriter(&connection.to_send_, wire::kPingXid, wire::kPing).body();
    connection.ping_pending_ = true;
    // The time without an answer begins here.
    if (connection.pending_.empty()) connection.last_received_ns_ = now_ns;
    MarkDirty(connection);
  }
}

void Engine::Watch(Connection& connection, int operation, bool for_room) {
  epoll_event event{};
  event.events = EPOLLIN | (for_room ? static_cast<uint32_t>(EPOLLOUT) : 0);
  event.data.ptr = &connection;
  epoll_ctl(epoll_, operation, connection.socket_, &event);
  connection.waits_for_room_ = for_room;
}

void Engine::StartConnect(Connection& connection, int64_t now_ns) {
  const Endpoint& server = (*connection.servers_)[connection.server_];
  const int family = server.address.ss_family;
  ++connecting_;
  connection.state_ = Connection::State::kConnecting;
  connection.connect_start_ns_ = connection.last_sent_ns_ = connection.last_received_ns_ = now_ns;
  connection.socket_ = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection.socket_ < 0) return Disconnect(connection, std::strerror(errno), now_ns);
  const int on = 1;
  setsockopt(connection.socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto* address = reinterpret_cast<const sockaddr*>(&server.address);
  if (connect(connection.socket_, address, server.address_size) < 0 && errno != EINPROGRESS) {
    return Disconnect(connection, std::strerror(errno), now_ns);
  }
  Watch(connection, EPOLL_CTL_ADD, true);
}

void Engine::FinishConnect(Connection& connection) {
  const int64_t now_ns = NowNs();
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connection.socket_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Disconnect(connection, std::strerror(error), now_ns);
  const Endpoint& server = (*connection.servers_)[connection.server_];
  if (server.tls != nullptr) {
    connection.tls_ = server.tls->Connect(connection.socket_, server.host);
    if (connection.tls_ == nullptr) return Disconnect(connection, "memory is short", now_ns);
  }
  connection.state_ = Connection::State::kHandshake;
  connection.to_send_ = wire::EncodeHandshake({.last_zxid_seen = connection.last_zxid_,
                                               .timeout_ms = session_timeout_ms_,
                                               .session = connection.session_,
                                               .password = connection.password_});
  Watch(connection, EPOLL_CTL_MOD, false);
  Flush(connection, now_ns);
}

void Engine::Drop(Connection& connection) {
  connection.tls_.reset();
  if (connection.socket_ >= 0) close(connection.socket_);
  connection.socket_ = -1;
  connection.received_.clear();
  connection.to_send_.clear();
  connection.sent_ = 0;
  connection.ping_pending_ = false;
  connection.waits_for_room_ = false;
}

void Engine::Disconnect(Connection& connection, const std::string& why, int64_t now_ns) {
  const bool was_up = connection.is_up();
  last_failure_ = absl::StrCat((*connection.servers_)[connection.server_].text, ": ", why);
  Drop(connection);
  // The session is over, whether the close was answered or not.
  if (connection.close_xid_ != 0) return Parked(connection, now_ns);
  if (was_up) {
    ++dropped_;
  } else {
    --connecting_;
  }
  connection.state_ = Connection::State::kDown;
  connection.server_ = (connection.server_ + 1) % connection.servers_->size();
  connection.retry_ns_ = now_ns + kReconnectDelayNs;
  next_sweep_ns_ = std::min(next_sweep_ns_, connection.retry_ns_);
  std::deque<Request> lost;
  lost.swap(connection.pending_);
  for (const Request& request : lost) connection.handler_->OnLost(connection, request, now_ns);
}

void Engine::Parked(Connection& connection, int64_t now_ns) {
  Drop(connection);
  connection.state_ = Connection::State::kParked;
  connection.close_xid_ = 0;
  connection.session_ = 0;
  connection.password_.assign(tree::kPasswordBytes, '\0');
  std::deque<Request> lost;
  lost.swap(connection.pending_);
  for (const Request& request : lost) connection.handler_->OnLost(connection, request, now_ns);
  connection.handler_->OnClosed(connection, now_ns);
}

ssize_t Engine::Read(Connection& connection) {
  if (connection.tls_ != nullptr) {
    return connection.tls_->Receive(buffer_.data(), buffer_.size());
  }
  return recv(connection.socket_, buffer_.data(), buffer_.size(), 0);
}

ssize_t Engine::Write(Connection& connection) {
  const char* from = connection.to_send_.data() + connection.sent_;
  const size_t size = connection.to_send_.size() - connection.sent_;
  if (connection.tls_ != nullptr) return connection.tls_->Send(from, size);
  return send(connection.socket_, from, size, MSG_NOSIGNAL);
}

std::string Engine::FailureOf(const Connection& connection) {
  const bool is_of_tls = connection.tls_ != nullptr && !connection.tls_->failure().empty();
  return is_of_tls ? connection.tls_->failure() : std::strerror(errno);
}

void Engine::Receive(Connection& connection) {
  const ssize_t received = Read(connection);
  const int64_t now_ns = NowNs();
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
    // The end of a handshake makes room for what waits to be sent.
    if (connection.tls_ != nullptr) Flush(connection, now_ns);
    return;
  }
  if (received <= 0) {
    return Disconnect(connection,
                      received == 0 ? "the server closed the connection" : FailureOf(connection),
                      now_ns);
  }
  connection.last_received_ns_ = now_ns;
  std::string_view bytes(buffer_.data(), static_cast<size_t>(received));
  if (!connection.received_.empty()) {
    joined_.swap(connection.received_);
    connection.received_.clear();
    joined_.append(bytes);
    bytes = joined_;
  }
  std::string_view packet;
  wire::Cut cut;
  while ((cut = wire::CutPacket(&bytes, &packet)) == wire::Cut::kPacket) {
    if (!HandlePacket(connection, packet, now_ns)) return;
  }
  if (cut == wire::Cut::kBad) return Disconnect(connection, "a packet is malformed", now_ns);
  connection.received_.assign(bytes);
  Flush(connection, now_ns);
}

bool Engine::HandlePacket(Connection& connection, std::string_view packet, int64_t now_ns) {
  if (connection.state_ == Connection::State::kHandshake) {
    return HandleHandshake(connection, packet, now_ns);
  }
  wire::ReplyHeader header;
  std::string_view body;
  if (!wire::DecodeReplyHeader(packet, &header, &body)) {
    Disconnect(connection, "the server sent a reply that cannot be decoded", now_ns);
    return false;
  }
  if (header.xid == wire::kPingXid) {
    connection.ping_pending_ = false;
    return true;
  }
  if (header.xid == wire::kNotificationXid) {
    BigEndianReader reader(body);
    reader.Int<int32_t>();  // the type
    reader.Int<int32_t>();  // the state of the session
    connection.handler_->OnEvent(connection, wire::ReadBuffer(reader), now_ns);
    return true;
  }
  if (connection.pending_.empty() && header.xid == connection.close_xid_) {
    Parked(connection, now_ns);
    return false;
  }
  if (connection.pending_.empty() || connection.pending_.front().xid != header.xid) {
    Disconnect(connection, "the server sent a reply out of order", now_ns);
    return false;
  }
  const Request request = connection.pending_.front();
  connection.pending_.pop_front();
  connection.last_zxid_ = std::max(connection.last_zxid_, header.zxid);
  connection.handler_->OnReply(connection, request, header.error, body, now_ns);
  return true;
}

bool Engine::HandleHandshake(Connection& connection, std::string_view packet, int64_t now_ns) {
  wire::HandshakeReply reply;
  if (!wire::DecodeHandshakeReply(packet, true, &reply)) {
    Disconnect(connection, "the server does not speak the ZooKeeper protocol", now_ns);
    return false;
  }
  if (reply.session == 0 || reply.timeout_ms <= 0) {
    ++expired_;
    connection.session_ = 0;
    connection.password_.assign(tree::kPasswordBytes, '\0');
    Disconnect(connection, "the session has expired", now_ns);
    return false;
  }
  connection.session_ = reply.session;
  connection.password_ = reply.password;
  connection.timeout_ms_ = reply.timeout_ms;
  connection.state_ = Connection::State::kUp;
  --connecting_;
  // Another connection may begin to connect.
  next_sweep_ns_ = std::min(next_sweep_ns_, now_ns);
  connection.handler_->OnUp(connection, now_ns);
  return true;
}

void Engine::MarkDirty(Connection& connection) {
  if (connection.is_dirty_) return;
  connection.is_dirty_ = true;
  dirty_.push_back(&connection);
}

void Engine::FlushDirty() {
  if (dirty_.empty()) return;
  const int64_t now_ns = NowNs();
  // Also sends requests that a handler issues elsewhere when a connection is lost.
  for (size_t i = 0; i < dirty_.size(); ++i) {
    dirty_[i]->is_dirty_ = false;
    Flush(*dirty_[i], now_ns);
  }
  dirty_.clear();
}

void Engine::Flush(Connection& connection, int64_t now_ns) {
  if (connection.socket_ < 0 || connection.to_send_.empty()) return;
  const ssize_t sent = Write(connection);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    return Disconnect(connection, FailureOf(connection), now_ns);
  }
  if (sent > 0) {
    connection.sent_ += static_cast<size_t>(sent);
    connection.last_sent_ns_ = now_ns;
  }
  if (connection.sent_ == connection.to_send_.size()) {
    connection.to_send_.clear();
    connection.sent_ = 0;
  }
  // During a handshake, what waits to be sent waits for the server, not for the socket.
  const bool is_full = !connection.to_send_.empty() &&
                       (connection.tls_ == nullptr || connection.tls_->waits_for_room());
  if (is_full != connection.waits_for_room_) Watch(connection, EPOLL_CTL_MOD, is_full);
}

}  // namespace quorate::tools::bench
