#include "tests/differential/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/assert.h"

namespace quorate::differential {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int32_t kBarrierXid = 0x7fff0001;
// Nobody has seen this zxid, nor has this session.
constexpr int64_t kFutureZxid = int64_t{1} << 60;
constexpr int64_t kUnknownSession = 0x0123456789abcdef;

bool EndsSession(const Operation& operation) {
  return std::any_of(operation.requests.begin(), operation.requests.end(),
                     [](const Request& r) { return r.op == wire::kCloseSession && !r.raw; });
}

bool EndsConnection(const Operation& operation) {
  return EndsSession(operation) ||
         std::any_of(operation.requests.begin(), operation.requests.end(),
                     [](const Request& r) { return r.raw || !IsServed(r.op); });
}

}  // namespace

Connection::~Connection() { Close(); }

Connection& Connection::operator=(Connection&& other) noexcept {
  Close();
  socket_ = std::exchange(other.socket_, -1);
  reader_ = std::exchange(other.reader_, {});
  return *this;
}

Connection Connection::To(const std::string& address) {
  const size_t colon = address.rfind(':');
  ASSERT(colon != std::string::npos, "an address is host:port");
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int parsed = inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  ASSERT(parsed == 1, "the host of an address is numeric");
  Connection connection;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT(fd >= 0, "there are descriptors left");
  connection.socket_ = fd;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) connection.Close();
  return connection;
}

void Connection::Send(std::string_view bytes) {
  while (!bytes.empty() && socket_ >= 0) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return;  // Receive tells
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

Connection::Received Connection::Receive(std::string* packet) {
  while (!reader_.Next(packet)) {
    if (socket_ < 0) return Received::kClosed;
    pollfd readable{socket_, POLLIN, 0};
    if (poll(&readable, 1, kPatienceMs) == 0) return Received::kNothing;
    char bytes[64 << 10];
    const ssize_t size = recv(socket_, bytes, sizeof(bytes), 0);
    if (size <= 0) {
      Close();
      return Received::kClosed;
    }
    reader_.Add({bytes, static_cast<size_t>(size)});
  }
  return Received::kPacket;
}

void Connection::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

void Client::Begin(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kConnect:
      return BeginConnect(operation);
    case OperationKind::kDrop:
      return Drop();
    case OperationKind::kRequests:
      break;
  }
  std::string bytes;
  for (const Request& request : operation.requests) {
    bytes += Encode(request);
    if (!request.raw) expected_.push_back({request.xid, request.op, false});
  }
  // ZooKeeper may forget to close a connection on which something more comes.
  if (!EndsConnection(operation)) bytes += EncodeBarrier();
  connection_.Send(bytes);
}

std::vector<Answer> Client::End(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kConnect:
      return EndConnect(operation);
    case OperationKind::kDrop:
      return {};
    case OperationKind::kRequests:
      break;
  }
  std::vector<Answer> answers = Collect(&connection_);
  if (EndsSession(operation) && !connected()) session_ = 0;
  return answers;
}

void Client::BeginConnect(const Operation& operation) {
  old_ = std::move(connection_);
  connection_ = Connection::To(address_);
  wire::Handshake handshake;
  handshake.timeout_ms = operation.timeout_ms;
  handshake.with_read_only = operation.with_read_only;
  if (operation.connect != ConnectKind::kNewSession) {
    handshake.session = session_;
    handshake.last_zxid_seen = last_zxid_;
    if (!password_.empty()) handshake.password = password_;
  }
  if (operation.connect == ConnectKind::kWrongPassword) handshake.password[0] ^= 1;
  if (operation.connect == ConnectKind::kUnknownSession) handshake.session = kUnknownSession;
  if (operation.connect == ConnectKind::kZxidOfTheFuture) handshake.last_zxid_seen = kFutureZxid;
  connection_.Send(wire::EncodeHandshake(handshake));
}

std::vector<Answer> Client::EndConnect(const Operation& operation) {
  std::vector<Answer> answers;
  std::string packet;
  if (connection_.Receive(&packet) == Connection::Received::kPacket) {
    answers.push_back(DecodeHandshake(packet));
    wire::HandshakeReply reply;
    wire::DecodeHandshakeReply(packet, operation.with_read_only, &reply);
    if (reply.session != 0) {
      session_ = reply.session;
      password_ = reply.password;
    } else if (operation.connect == ConnectKind::kOwnSession) {
      session_ = 0;
    }
  }
  expected_.clear();
  connection_.Send(EncodeBarrier());
  std::vector<Answer> rest = Collect(&connection_);
  answers.insert(answers.end(), rest.begin(), rest.end());
  return answers;
}

void Client::BeginBarrier() { connection_.Send(EncodeBarrier()); }
std::vector<Answer> Client::EndBarrier() { return Collect(&connection_); }

void Client::BeginOldBarrier() { old_.Send(EncodeBarrier()); }

std::vector<Answer> Client::EndOldBarrier() {
  std::vector<Answer> answers = Collect(&old_);
  old_.Close();
  return answers;
}

void Client::Forget() {
  Drop();
  old_.Close();
  session_ = 0;
  password_.clear();
}

std::string Client::Encode(const Request& request) const {
  if (request.raw) return request.body;
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(request.xid);
  writer.Int(request.op);
  if (request.has_relative_zxid) {
    writer.Int(last_zxid_);
    writer.Raw(std::string_view(request.body).substr(sizeof(int64_t)));
  } else {
    writer.Raw(request.body);
  }
  return wire::Framed(packet);
}

std::string Client::EncodeBarrier() const {
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(kBarrierXid);
  writer.Int(alone_ ? wire::kExists : wire::kSync);
  writer.String("/zookeeper");
  if (alone_) writer.Int<uint8_t>(0);
  return wire::Framed(packet);
}

std::vector<Answer> Client::Collect(Connection* connection) {
  std::vector<Answer> answers, overtaking;
  std::string packet;
  for (bool done = false; !done;) {
    switch (connection->Receive(&packet)) {
      case Connection::Received::kPacket:
        done = Take(packet, &answers, &overtaking);
        break;
      case Connection::Received::kClosed:
        overtaking.emplace_back().kind = AnswerKind::kClosed;
        done = true;
        break;
      case Connection::Received::kNothing:
        overtaking.emplace_back().kind = AnswerKind::kNothing;
        connection->Close();
        done = true;
    }
  }
  expected_.clear();
  answers.insert(answers.end(), overtaking.begin(), overtaking.end());
  return answers;
}

bool Client::Take(const std::string& packet, std::vector<Answer>* answers,
                  std::vector<Answer>* overtaking) {
  wire::ReplyHeader header;
  std::string_view body;
  wire::DecodeReplyHeader(packet, &header, &body);
  if (header.zxid > last_zxid_) last_zxid_ = header.zxid;
  if (header.xid == kBarrierXid) return true;
  auto expected = std::find_if(expected_.begin(), expected_.end(), [&](const Expected& e) {
    return !e.answered && (e.op == wire::kPing ? wire::kPingXid : e.xid) == header.xid;
  });
  if (expected == expected_.end()) {
    answers->push_back(header.xid == wire::kNotificationXid ? DecodeEvent(packet)
                                                            : DecodeReplyTo(0, packet));
    return false;
  }
  expected->answered = true;
  const bool overtakes = expected->op == wire::kPing || expected->op == wire::kAuth;
  (overtakes ? overtaking : answers)->push_back(DecodeReplyTo(expected->op, packet));
  return false;
}

}  // namespace quorate::differential
