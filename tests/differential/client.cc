// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/client.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace quorate::differential {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int32_t kBarrierXid = 0x7fff0001;
// A zxid that no server has reached, and a session that does not exist.
constexpr int64_t kFutureZxid = int64_t{1} << 60;
constexpr int64_t kUnknownSession = 0x0123456789abcdef;

bool EndsSession(const Operation& operation) {
  return std::any_of(operation.requests.begin(), operation.requests.end(),
                     [](const Request& r) { return r.op == wire::kCloseSession && !r.raw; });
}

bool EndsConnection(const Operation& operation) {
  return EndsSession(operation) ||
         std::any_of(operation.requests.begin(), operation.requests.end(),
                     [](const Request& r) { return r.raw || !KeepsConnection(r.op); });
}

}  // namespace

void Client::Drop() { connection_.CloseAndWait(kPatienceMs); }

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
  // ZooKeeper may fail to close a connection on which more bytes arrive.
  if (!EndsConnection(operation)) bytes += EncodeBarrier();
  connection_.Send(bytes, kPatienceMs);
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
  connection_ = wire::Connection::To(address_, kPatienceMs);
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
  connection_.Send(wire::EncodeHandshake(handshake), kPatienceMs);
}

std::vector<Answer> Client::EndConnect(const Operation& operation) {
  std::vector<Answer> answers;
  std::string packet;
  if (connection_.Receive(&packet, kPatienceMs) == wire::Connection::Received::kPacket) {
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
  connection_.Send(EncodeBarrier(), kPatienceMs);
  std::vector<Answer> rest = Collect(&connection_);
  answers.insert(answers.end(), rest.begin(), rest.end());
  return answers;
}

void Client::BeginBarrier() { connection_.Send(EncodeBarrier(), kPatienceMs); }
std::vector<Answer> Client::EndBarrier() { return Collect(&connection_); }

void Client::BeginOldBarrier() { old_.Send(EncodeBarrier(), kPatienceMs); }

std::vector<Answer> Client::EndOldBarrier() {
  std::vector<Answer> answers = Collect(&old_);
  old_.CloseAndWait(kPatienceMs);
  return answers;
}

void Client::Forget() {
  Drop();
  old_.CloseAndWait(kPatienceMs);
  session_ = 0;
  password_.clear();
}

std::string Client::Encode(const Request& request) const {
  if (request.raw) return request.body;
  std::string packet;
  BigEndianWriter writer(&packet);
  writer.Int(request.xid);
  writer.Int(static_cast<int32_t>(request.op));
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
  writer.Int(static_cast<int32_t>(alone_ ? wire::kExists : wire::kSync));
  writer.String("/zookeeper");
  if (alone_) writer.Int<uint8_t>(0);
  return wire::Framed(packet);
}

std::vector<Answer> Client::Collect(wire::Connection* connection) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  std::vector<Answer> answers, overtaking;
  std::string packet;
  for (bool done = false; !done;) {
    switch (connection->Receive(&packet, kPatienceMs)) {
      case wire::Connection::Received::kPacket: {
        const Taken taken = Take(packet, &answers, &overtaking);
        done = taken == Taken::kBarrier;
        if (taken == Taken::kBarrierTooEarly) {
          if (steady_clock::now() > deadline) {
            overtaking.emplace_back().kind = AnswerKind::kNothing;
            connection->Close();
            done = true;
          } else {
            connection->Send(EncodeBarrier(), kPatienceMs);
          }
        }
        break;
      }
      case wire::Connection::Received::kClosed:
        overtaking.emplace_back().kind = AnswerKind::kClosed;
        done = true;
        break;
      case wire::Connection::Received::kNothing:
        overtaking.emplace_back().kind = AnswerKind::kNothing;
        connection->Close();
        done = true;
    }
  }
  expected_.clear();
  answers.insert(answers.end(), overtaking.begin(), overtaking.end());
  return answers;
}

Client::Taken Client::Take(const std::string& packet, std::vector<Answer>* answers,
                           std::vector<Answer>* overtaking) {
  wire::ReplyHeader header;
  std::string_view body;
  wire::DecodeReplyHeader(packet, &header, &body);
  if (header.zxid > last_zxid_) last_zxid_ = header.zxid;
  // ZooKeeper's leader may answer a sync before it has applied changes that followers have already
  // shown.
  if (header.xid == kBarrierXid) {
    return header.zxid < *newest_zxid_ ? Taken::kBarrierTooEarly : Taken::kBarrier;
  }
  *newest_zxid_ = std::max(*newest_zxid_, header.zxid);
  auto expected = std::find_if(expected_.begin(), expected_.end(), [&](const Expected& e) {
    return !e.answered && (e.op == wire::kPing ? wire::kPingXid : e.xid) == header.xid;
  });
  if (expected == expected_.end()) {
    answers->push_back(header.xid == wire::kNotificationXid
                           ? DecodeEvent(packet)
                           : DecodeReplyTo(wire::kNotification, packet));
    return Taken::kAnswer;
  }
  expected->answered = true;
  const bool overtakes = expected->op == wire::kPing || expected->op == wire::kAuth;
  (overtakes ? overtaking : answers)->push_back(DecodeReplyTo(expected->op, packet));
  return Taken::kAnswer;
}

}  // namespace quorate::differential
