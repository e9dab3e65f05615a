// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "tests/simulation/checkers/replay_checker.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;
using tree::EventType;

constexpr int64_t kMsToUs = 1000;
// The longest pause between two attempts to connect; libraries wait up to a second.
constexpr int64_t kRetryUsMax = 300 * kMsToUs;
constexpr int32_t kXidMax = 1'000'000;

}  // namespace

Client::Client(SimEnvironment* environment, Endpoint* endpoint, History* history,
               const ClientSettings& settings)
    : environment_(environment),
      endpoint_(endpoint),
      history_(history),
      settings_(settings),
      random_(environment->random("clients")) {}

void Client::Start() {
  member_ = random_.Below(environment_->member_count());
  ConnectLater(random_.Between(0, kRetryUsMax));
}

// --- Connecting ----------------------------------------------------------------------------------

void Client::ConnectLater(int64_t delay_us) {
  state_ = State::kWaiting;
  const uint64_t epoch = ++epoch_;
  environment_->After(delay_us, [this, epoch] {
    if (epoch == epoch_) Connect();
  });
}

void Client::Connect() {
  state_ = State::kConnecting;
  const uint64_t epoch = ++epoch_;
  reader_ = PacketReader();
  heard_us_ = sent_us_ = environment_->now_us();
  connection_ = endpoint_->Connect(member_, this);
  // A session has to reach another server while it lives: each server gets its share of the time.
  const int64_t patience_us =
      settings_.timeout_ms * kMsToUs /
      static_cast<int64_t>(std::min<size_t>(environment_->member_count(), 3));
  environment_->After(patience_us, [this, epoch] {
    if (epoch == epoch_) Reconnect();
  });
}

void Client::Disconnect() {
  if (connection_ != 0) endpoint_->Close(connection_);
  connection_ = 0;
  if (state_ == State::kUp || state_ == State::kClosing || state_ == State::kSilent) {
    history_->CloseLink(link_);
  }
  // The callbacks may submit requests again once there is a connection.
  std::deque<Outstanding> lost;
  lost.swap(outstanding_);
  state_ = State::kWaiting;
  ++epoch_;
  for (const Outstanding& each : lost) {
    if (each.done) each.done(history_->operation(each.operation));
  }
}

void Client::Reconnect() {
  const bool closing = state_ == State::kClosing;
  const bool silent = state_ == State::kSilent;
  Disconnect();
  if (closing) history_->AbandonSession(settings_.number, session_);
  if (closing || silent) EndSession();
  member_ = random_.Below(environment_->member_count());
  ConnectLater(random_.Between(0, kRetryUsMax));
}

void Client::EndSession() {
  session_ = 0;
  password_.clear();
  data_watches_.clear();
  exist_watches_.clear();
  child_watches_.clear();
  if (!settings_.remembers_zxid) last_zxid_ = 0;
}

void Client::OnOpen(ConnectionId connection) {
  if (connection != connection_) return;
  Handshake handshake;
  handshake.last_zxid_seen = last_zxid_sent_ = last_zxid_;
  handshake.timeout_ms = settings_.timeout_ms;
  handshake.session = session_;
  if (session_ != 0) handshake.password = password_;
  handshake.with_read_only = settings_.sends_read_only_flag;
  Send(EncodeHandshake(handshake));
}

void Client::OnClosed(ConnectionId connection) {
  if (connection != connection_) return;
  connection_ = 0;
  Reconnect();
}

void Client::OnHandshakeReply(std::string_view packet) {
  HandshakeReply reply;
  if (!DecodeHandshakeReply(packet, settings_.sends_read_only_flag, &reply)) {
    FailProtocol("the answer to the handshake does not decode");
  }
  if (reply.session == 0 || reply.timeout_ms <= 0) {
    if (session_ == 0) FailProtocol("a new session was refused");
    environment_->Count("client: session expired");
    history_->RefuseSession(settings_.number, session_);
    EndSession();
    Reconnect();
    return;
  }
  if (session_ != 0 && reply.session != session_) FailProtocol("another session was given");
  Link link;
  link.client = settings_.number;
  link.member = member_;
  link.new_session = session_ == 0;
  link.session = session_ = reply.session;
  link.password = password_ = reply.password;
  link.timeout_ms = timeout_ms_ = reply.timeout_ms;
  link.last_zxid_sent = last_zxid_sent_;
  environment_->Count(link.new_session ? "client: session created" : "client: session resumed");
  link_ = history_->OpenLink(std::move(link));
  state_ = State::kUp;
  ++epoch_;
  Send(EncodeAuth("digest", LinkCredentials(link_)));
  SendSetWatches();
  KeepAlive();
}

void Client::SendSetWatches() {
  if (data_watches_.empty() && exist_watches_.empty() && child_watches_.empty()) return;
  environment_->Count("client: watches renewed");
  Request request;
  request.kind = OperationKind::kSetWatches;
  request.relative_zxid = last_zxid_;
  request.data_watches.assign(data_watches_.begin(), data_watches_.end());
  request.exist_watches.assign(exist_watches_.begin(), exist_watches_.end());
  request.child_watches.assign(child_watches_.begin(), child_watches_.end());
  const int32_t xid = settings_.set_watches_has_own_xid ? kSetWatchesXid : ++last_xid_;
  SendRequest(xid, std::move(request), nullptr);
}

void Client::KeepAlive() {
  const int64_t timeout_us = timeout_ms_ * kMsToUs;
  const int64_t now_us = environment_->now_us();
  const uint64_t epoch = epoch_;
  if (state_ == State::kSilent) {
    // Servers close the connection when the session has ended; after this time the client gives up
    // on it.
    environment_->After(4 * timeout_us, [this, epoch] {
      if (epoch == epoch_) Reconnect();
    });
    return;
  }
  if (now_us - heard_us_ > timeout_us * 2 / 3) {
    environment_->Count("client: server is silent");
    Reconnect();
    return;
  }
  if (now_us - sent_us_ >= timeout_us / 3) Send(EncodePing());
  environment_->After(timeout_us / 9, [this, epoch] {
    if (epoch == epoch_) KeepAlive();
  });
}

// --- Requests ------------------------------------------------------------------------------------

void Client::Send(std::string bytes) {
  sent_us_ = environment_->now_us();
  endpoint_->Send(connection_, std::move(bytes));
}

void Client::SendRequest(int32_t xid, Request request, Done done) {
  std::string bytes = EncodeRequest(xid, request);
  const OperationId operation = history_->Invoke(link_, xid, std::move(request));
  outstanding_.push_back({operation, xid, std::move(done)});
  Send(std::move(bytes));
}

void Client::Submit(Request request, Done done) {
  ASSERT(connected());
  ASSERT(request.kind != OperationKind::kCloseSession, "CloseSession does more");
  if (last_xid_ == kXidMax) last_xid_ = 0;
  SendRequest(++last_xid_, std::move(request), std::move(done));
}

void Client::Move() {
  ASSERT(connected());
  environment_->Count("client: moves");
  Reconnect();
}

void Client::MoveTo(size_t member) {
  ASSERT(connected());
  if (member == member_) return;
  environment_->Count("client: moves to the leader");
  Disconnect();
  member_ = member;
  ConnectLater(random_.Between(0, kRetryUsMax));
}

void Client::Sleep(int64_t away_us) {
  ASSERT(connected());
  environment_->Count("client: sleeps");
  Disconnect();
  ConnectLater(away_us);
}

void Client::CloseSession() {
  ASSERT(connected());
  environment_->Count("client: closes its session");
  state_ = State::kClosing;
  SendRequest(++last_xid_, MakeCloseSession(), nullptr);
}

void Client::Abandon(bool silently) {
  ASSERT(connected());
  environment_->Count(silently ? "client: falls silent" : "client: abandons its session");
  history_->AbandonSession(settings_.number, session_);
  if (silently) {
    state_ = State::kSilent;
    ++epoch_;
    KeepAlive();
    return;
  }
  Disconnect();
  EndSession();
  ConnectLater(random_.Between(0, kRetryUsMax));
}

// --- Replies and events --------------------------------------------------------------------------

void Client::OnBytes(ConnectionId connection, std::string_view bytes) {
  if (connection != connection_) return;
  heard_us_ = environment_->now_us();
  reader_.Add(bytes);
  std::string packet;
  while (connection == connection_ && reader_.Next(&packet)) {
    if (state_ == State::kConnecting) {
      OnHandshakeReply(packet);
    } else {
      OnPacket(packet);
    }
  }
  if (reader_.bad()) FailProtocol("a packet has an invalid length");
}

void Client::OnPacket(std::string_view packet) {
  ReplyHeader header;
  std::string_view body;
  if (!DecodeReplyHeader(packet, &header, &body)) FailProtocol("a packet has an incomplete header");
  switch (header.xid) {
    case kNotificationXid:
      OnEvent(header, body);
      return;
    case kPingXid:
      last_zxid_ = std::max(last_zxid_, header.zxid);
      history_->Pong(link_, header.zxid);
      return;
    case kAuthXid:
      if (header.error != ErrorCode::kOk) FailProtocol("the authentication was refused");
      return;
    default:
      OnReply(header, body);
  }
}

void Client::OnReply(const ReplyHeader& header, std::string_view body) {
  if (outstanding_.empty() || outstanding_.front().xid != header.xid) {
    FailProtocol(
        absl::StrCat("xid ", header.xid, " is answered, the oldest that waits is ",
                     outstanding_.empty() ? "none" : absl::StrCat(outstanding_.front().xid)));
  }
  const Outstanding answered = std::move(outstanding_.front());
  outstanding_.pop_front();
  const Operation& operation = history_->operation(answered.operation);
  Reply reply;
  if (!DecodeReply(header, body, operation.request, &reply)) {
    FailProtocol(absl::StrCat("the reply does not decode: ", history_->Describe(operation)));
  }
  last_zxid_ = std::max(last_zxid_, header.zxid);
  const bool ended = reply.error == ErrorCode::kSessionExpired;
  RecordWatch(operation.request, reply);
  history_->Answer(answered.operation, std::move(reply));
  if (operation.request.kind == OperationKind::kCloseSession || ended) {
    if (ended) history_->RefuseSession(settings_.number, session_);
    Disconnect();
    EndSession();
    ConnectLater(random_.Between(0, kRetryUsMax));
  }
  if (answered.done) answered.done(operation);
}

void Client::RecordWatch(const Request& request, const Reply& reply) {
  if (!request.watch) return;
  if (reply.error == ErrorCode::kOk) {
    (IsList(request.kind) ? child_watches_ : data_watches_).insert(request.path);
  } else if (request.kind == OperationKind::kExists && reply.error == ErrorCode::kNoNode) {
    exist_watches_.insert(request.path);
  }
}

void Client::OnEvent(const ReplyHeader& header, std::string_view body) {
  WatchEvent event;
  if (!DecodeWatchEvent(header, body, &event)) FailProtocol("a notification does not decode");
  environment_->Count(header.zxid < 0 ? "client: missed event" : "client: event");
  if (event.type != EventType::kNodeChildrenChanged) {
    data_watches_.erase(event.path);
    exist_watches_.erase(event.path);
  }
  if (event.type == EventType::kNodeChildrenChanged || event.type == EventType::kNodeDeleted) {
    child_watches_.erase(event.path);
  }
  history_->Event(link_, std::move(event));
}

std::string Client::Describe() const {
  static constexpr const char* kNames[] = {"waiting", "connecting", "up", "closing", "silent"};
  return absl::StrCat("client ", settings_.number, " ", kNames[static_cast<size_t>(state_)],
                      " at member ", member_, ", session ", session_, ", ", outstanding_.size(),
                      " outstanding");
}

void Client::FailProtocol(std::string_view details) const {
  const std::string invariant = "servers speak the protocol";
  if (state_ != State::kConnecting && state_ != State::kWaiting) {
    history_->Fail(invariant, history_->link(link_), details);
  }
  history_->Fail(invariant, absl::StrCat("client ", settings_.number, ", member ", member_, ": ",
                                         std::string(details)));
}

}  // namespace quorate::simulation
