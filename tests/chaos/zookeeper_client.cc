// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/zookeeper_client.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "tests/chaos/zookeeper_translation.h"
#include "tests/simulation/clients/wire.h"

namespace quorate::chaos {
namespace {

// How long operations wait for a server that serves the session.
constexpr int64_t kConnectPatienceNs = 10'000 * kNsInMs;
// How long one request may take, even if the server answers pings.
constexpr int64_t kRequestPatienceNs = 10'000 * kNsInMs;
constexpr int kSendPatienceMs = 1000;
// How long an attempt to connect to one server may take, at least.
constexpr int kAttemptMsMin = 250;
constexpr int64_t kRetryMsMax = 50;
constexpr int kWaitMsMax = 1000;
constexpr int32_t kXidMax = 1'000'000'000;
// The probability that a client disconnects without waiting for its answers.
constexpr double kLeaves = 0.01;
// The chroot of clients whose reads are linearizable.
constexpr std::string_view kLinearizableChroot = "/@linearizable";

// Returns whether an operation is a read that waits for a barrier, on a connection with the chroot.
bool IsLinearizableWithChroot(const std::string& function) {
  return function == "get" || function == "exists" || function == "list" || function == "multi-get";
}

// Returns `request` with the chroot before each of its paths.
simulation::Request WithChroot(simulation::Request request) {
  const auto add = [](std::string& path) {
    if (path == "/") path.clear();
    path.insert(0, kLinearizableChroot);
  };
  if (!request.path.empty()) add(request.path);
  for (simulation::Step& step : request.steps) add(step.path);
  for (std::vector<std::string>* paths :
       {&request.paths, &request.data_watches, &request.exist_watches, &request.child_watches,
        &request.persistent_watches, &request.recursive_watches}) {
    for (std::string& path : *paths) add(path);
  }
  return request;
}

std::shared_ptr<const wire::TlsClient> MakeTls(const std::string& directory) {
  if (directory.empty()) return nullptr;
  auto made = wire::TlsClient::Create(
      {.authorities = directory + "/ca.pem", .certificate = directory + "/client.pem", .key = ""});
  ASSERT(made.ok(), "the run has made the files");
  return *std::move(made);
}

void SleepUntil(int64_t until_ns) {
  const int64_t left_ns = until_ns - NowNs();
  if (left_ns > 0) poll(nullptr, 0, static_cast<int>(left_ns / kNsInMs) + 1);
}

}  // namespace

ZookeeperClient::ZookeeperClient(ClientSettings settings, Recorder* recorder)
    : settings_(std::move(settings)),
      recorder_(recorder),
      random_(settings_.seed, "servers"),
      tls_(MakeTls(settings_.tls_directory)),
      password_(tree::kPasswordBytes, '\0'),
      timeout_ms_(settings_.session_timeout_ms) {
  ASSERT(!settings_.servers.empty());
}

// --- Sessions ------------------------------------------------------------------------------------

bool ZookeeperClient::Connect(int64_t until_ns) {
  if (is_up_ && !connection_.open()) Disconnect("it does not accept data");
  while (!connection_.open()) {
    if (NowNs() >= until_ns) return false;
    SleepUntil(std::min(not_before_ns_, until_ns));
    if (NowNs() >= not_before_ns_) ConnectOnce();
  }
  return true;
}

void ZookeeperClient::ConnectOnce() {
  std::vector<std::string> others;
  for (const std::string& server : settings_.servers) {
    if (server != server_ || settings_.servers.size() == 1) others.push_back(server);
  }
  server_ = others[random_.Below(others.size())];
  not_before_ns_ = NowNs() + random_.Between(1, kRetryMsMax) * kNsInMs;
  const int patience_ms = std::max(timeout_ms_ / 3, kAttemptMsMin);
  connection_ = wire::Connection::To(server_, patience_ms, tls_.get());
  if (!connection_.open()) return;
  const int64_t sent_ns = NowNs();
  connection_.Send(wire::EncodeHandshake({.last_zxid_seen = last_zxid_,
                                          .timeout_ms = settings_.session_timeout_ms,
                                          .session = session_,
                                          .password = password_}),
                   kSendPatienceMs);
  std::string packet;
  const bool came =
      connection_.Receive(&packet, patience_ms) == wire::Connection::Received::kPacket;
  if (!came || !TakeHandshake(packet, sent_ns)) connection_.Close();
}

bool ZookeeperClient::TakeHandshake(std::string_view packet, int64_t sent_ns) {
  wire::HandshakeReply reply;
  if (!wire::DecodeHandshakeReply(packet, true, &reply)) {
    recorder_->ReportProtocolError("the answer to a handshake does not decode");
    return false;
  }
  if (reply.session == 0 || reply.timeout_ms <= 0) {
    if (session_ != 0) EndSession(What::kExpired);
    return false;
  }
  Line connected;
  connected.what = What::kConnected;
  connected.new_session = session_ == 0;
  if (connected.new_session) ++sessions_;
  session_ = reply.session;
  password_ = reply.password;
  timeout_ms_ = reply.timeout_ms;
  is_up_ = true;
  last_sent_ns_ = answered_ns_ = sent_ns;
  ping_sent_ns_ = 0;
  connected.server = server_;
  connected.frontend = "zookeeper";
  connected.timeout_ms = timeout_ms_;
  WriteSession(std::move(connected));
  SendSetWatches();
  return true;
}

void ZookeeperClient::WriteSession(Line line) {
  line.client = settings_.number;
  line.session = session_;
  recorder_->Write(std::move(line));
}

void ZookeeperClient::Disconnect(const std::string& reason) {
  connection_.Close();
  is_up_ = false;
  to_send_.clear();
  ping_sent_ns_ = 0;
  std::deque<Pending> lost;
  lost.swap(pending_);
  for (const Pending& pending : lost) {
    if (pending.part != Part::kOperation && pending.part != Part::kClose) continue;
    Line outcome;
    outcome.what = What::kUnknown;
    outcome.error = "ConnectionLoss";
    Finish(pending.place, std::move(outcome));
  }
  Line line;
  line.what = What::kDisconnected;
  line.server = server_;
  line.answered_ns = answered_ns_;
  line.reason = reason;
  WriteSession(std::move(line));
  not_before_ns_ = NowNs() + random_.Between(1, kRetryMsMax) * kNsInMs;
}

void ZookeeperClient::EndSession(What what) {
  Line line;
  line.what = what;
  line.answered_ns = answered_ns_;
  WriteSession(std::move(line));
  session_ = 0;
  is_up_ = false;
  password_.assign(tree::kPasswordBytes, '\0');
  last_zxid_ = 0;
  watches_.clear();
}

void ZookeeperClient::Move(int64_t away_ms) {
  // progress.py parses the length of the absence from this text.
  if (connection_.open()) Disconnect(absl::StrCat("the client is away for ", away_ms, " ms"));
  not_before_ns_ = NowNs() + away_ms * kNsInMs;
}

void ZookeeperClient::CloseSession() {
  if (session_ == 0) return;
  // The session can expire meanwhile.
  const bool is_connected = Connect(NowNs() + timeout_ms_ * kNsInMs);
  if (session_ == 0) return;
  What end = What::kAbandoned;
  if (is_connected) {
    Line close;
    close.client = settings_.number;
    close.workload = "session";
    close.function = "close";
    recorder_->WriteInvoke(&close);
    operations_ = {close};
    outcomes_.assign(1, {});
    Queue(Part::kClose, ToRequest(close), 0);
    Flush();
    while (!pending_.empty()) Turn(INT64_MAX);
    if (outcomes_[0].what == What::kOk) end = What::kClosed;
    if (session_ == 0) return;
  }
  connection_.Close();
  EndSession(end);
}

bool ZookeeperClient::AbandonSession(bool silently) {
  if (session_ == 0) return false;
  if (silently) {
    silent_ = std::move(connection_);
  } else {
    connection_.Close();
  }
  EndSession(What::kAbandoned);
  return true;
}

// --- Operations ----------------------------------------------------------------------------------

std::vector<Line> ZookeeperClient::Perform(std::vector<Line> operations) {
  outcomes_.assign(operations.size(), NotSent());
  operations_ = std::move(operations);
  if (!Connect(NowNs() + kConnectPatienceNs)) return std::move(outcomes_);
  for (size_t i = 0; i < operations_.size(); ++i) {
    Line& operation = operations_[i];
    operation.client = settings_.number;
    if (operation.function == "watch") operation.watch = ++last_watch_;
    const bool syncs = operation.linearizable && !settings_.has_linearizable_chroot;
    operation.linearizable = settings_.has_linearizable_chroot
                                 ? IsLinearizableWithChroot(operation.function)
                                 : syncs && settings_.is_sync_linearizable;
    recorder_->WriteInvoke(&operation);
    if (syncs) {
      const std::string& path = operation.paths.empty() ? operation.path : operation.paths.front();
      Queue(Part::kSyncBefore, simulation::MakeSync(path), i);
    }
    Queue(Part::kOperation, ToRequest(operation), i);
  }
  Flush();
  if (connection_.open() && random_.Chance(kLeaves)) {
    Disconnect("the client moves with operations under way");
  }
  while (!pending_.empty()) Turn(INT64_MAX);
  return std::move(outcomes_);
}

void ZookeeperClient::Queue(Part part, simulation::Request request, size_t place) {
  if (last_xid_ == kXidMax) last_xid_ = 0;
  const int32_t xid = part == Part::kSetWatches ? wire::kSetWatchesXid : ++last_xid_;
  to_send_ += simulation::EncodeRequest(
      xid, settings_.has_linearizable_chroot ? WithChroot(request) : request);
  const int64_t now_ns = NowNs();
  if (pending_.empty() && ping_sent_ns_ == 0) silent_since_ns_ = now_ns;
  pending_.push_back({part, xid, std::move(request), now_ns, place});
}

bool ZookeeperClient::RemoveChroot(std::string* path) const {
  if (!settings_.has_linearizable_chroot) return true;
  if (!path->starts_with(kLinearizableChroot)) return false;
  path->erase(0, kLinearizableChroot.size());
  if (path->empty()) *path = "/";
  return true;
}

void ZookeeperClient::Flush() {
  last_sent_ns_ = NowNs();
  connection_.Send(to_send_, kSendPatienceMs);
  to_send_.clear();
}

void ZookeeperClient::Finish(size_t place, Line outcome) {
  const Line& operation = operations_[place];
  if (outcome.what == What::kOk) {
    outcome.server = server_;
    outcome.watch = operation.watch;
    if (operation.function == "watch") RecordWatch(operation, outcome);
  }
  outcomes_[place] = outcome;
  recorder_->WriteOutcome(operation, std::move(outcome));
}

void ZookeeperClient::Idle(int64_t until_ns) {
  while (NowNs() < until_ns) {
    if (Connect(until_ns)) Turn(until_ns);
  }
}

// --- The connection ------------------------------------------------------------------------------

void ZookeeperClient::Turn(int64_t until_ns) {
  // Taken before the received packets are handled: packets that came while this process was paused
  // are not counted as the server's silence.
  const int64_t now_ns = NowNs();
  const int64_t next_ping_ns = last_sent_ns_ + timeout_ms_ * kNsInMs / 3;
  const int64_t wait_ns = std::min(until_ns, next_ping_ns) - now_ns;
  const int64_t wait_ms = std::clamp<int64_t>(wait_ns / kNsInMs + 1, 0, kWaitMsMax);
  std::string packet;
  switch (connection_.Receive(&packet, static_cast<int>(wait_ms))) {
    case wire::Connection::Received::kPacket:
      silent_since_ns_ = now_ns;
      OnPacket(packet);
      break;
    case wire::Connection::Received::kClosed:
      Disconnect("the server closed the connection");
      break;
    case wire::Connection::Received::kNothing:
      KeepAlive(now_ns);
  }
}

void ZookeeperClient::KeepAlive(int64_t now_ns) {
  const int64_t timeout_ns = timeout_ms_ * kNsInMs;
  const bool waits = !pending_.empty() || ping_sent_ns_ != 0;
  if (waits && now_ns - silent_since_ns_ > timeout_ns * 2 / 3) {
    return Disconnect("the server is silent");
  }
  if (!pending_.empty() && now_ns - pending_.front().sent_ns > kRequestPatienceNs) {
    return Disconnect("a request is not answered");
  }
  if (ping_sent_ns_ != 0 || now_ns - last_sent_ns_ < timeout_ns / 3) return;
  if (!waits) silent_since_ns_ = now_ns;
  ping_sent_ns_ = NowNs();
  to_send_ += wire::EncodePing();
  Flush();
}

void ZookeeperClient::OnPacket(std::string_view packet) {
  wire::ReplyHeader header;
  std::string_view body;
  if (!wire::DecodeReplyHeader(packet, &header, &body)) {
    recorder_->ReportProtocolError("a reply has an incomplete header");
    return Disconnect("what it sent does not decode");
  }
  if (header.xid == wire::kNotificationXid) return OnEvent(header, body);
  if (header.xid == wire::kPingXid) {
    answered_ns_ = std::max(answered_ns_, ping_sent_ns_);
    ping_sent_ns_ = 0;
    return;
  }
  if (pending_.empty() || pending_.front().xid != header.xid) {
    recorder_->ReportProtocolError(absl::StrCat(server_, " answers xid ", header.xid, ", and ",
                                                pending_.empty() ? 0 : pending_.front().xid,
                                                " is the oldest that waits"));
    return Disconnect("it answered out of order");
  }
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  OnReply(pending, header, body);
}

void ZookeeperClient::OnReply(const Pending& pending, const wire::ReplyHeader& header,
                              std::string_view body) {
  answered_ns_ = std::max(answered_ns_, pending.sent_ns);
  last_zxid_ = std::max(last_zxid_, header.zxid);
  simulation::Reply reply;
  Line outcome;
  bool decodes = simulation::DecodeReply(header, body, pending.request, &reply);
  for (simulation::StepResult& step : reply.steps) {
    if (!step.path.empty()) decodes &= RemoveChroot(&step.path);
  }
  if (!reply.path.empty()) decodes &= RemoveChroot(&reply.path);
  if (!decodes) {
    recorder_->ReportProtocolError(absl::StrCat(server_, ": the reply does not decode to ",
                                                simulation::ToString(pending.request)));
    outcome.what = What::kUnknown;
    outcome.error = "BadReply";
  } else if (pending.part == Part::kOperation || pending.part == Part::kClose) {
    outcome = ToOutcome(operations_[pending.place], reply);
  }
  if (pending.part == Part::kSyncBefore && header.error != tree::ErrorCode::kOk) {
    // The sync failed, so what is read now may be old.
    ASSERT(!pending_.empty());
    pending_.front().part = Part::kIgnored;
    outcome.what = What::kRefused;
    outcome.error = RefusalOf(header.error).name;
    Finish(pending.place, std::move(outcome));
  } else if (pending.part == Part::kOperation || pending.part == Part::kClose) {
    Finish(pending.place, std::move(outcome));
  } else if (pending.part == Part::kSetWatches) {
    for (const auto* paths :
         {&pending.request.persistent_watches, &pending.request.recursive_watches}) {
      for (const std::string& path : *paths) {
        Line reset;
        reset.what = What::kWatchReset;
        reset.client = settings_.number;
        reset.path = path;
        reset.watch = watches_[path].number;
        reset.zxid = header.zxid;
        events_.push_back(reset);
        recorder_->Write(std::move(reset));
      }
    }
  }
  const bool is_expired = header.error == tree::ErrorCode::kSessionExpired;
  if (!decodes || is_expired) Disconnect(is_expired ? "the session has expired" : "a bad reply");
  if (is_expired) EndSession(What::kExpired);
}

// --- Watches -------------------------------------------------------------------------------------

void ZookeeperClient::RecordWatch(const Line& operation, const Line& outcome) {
  // An "exist" watch on a node that exists is a data watch.
  const bool is_data = operation.kind == "exist" && outcome.stat.has_value();
  watches_[operation.path] = {is_data ? "data" : operation.kind, operation.watch};
}

void ZookeeperClient::SendSetWatches() {
  if (watches_.empty()) return;
  simulation::Request request;
  request.kind = simulation::OperationKind::kSetWatches;
  request.relative_zxid = last_zxid_;
  for (const auto& [path, watch] : watches_) {
    if (watch.kind == "data") request.data_watches.push_back(path);
    if (watch.kind == "exist") request.exist_watches.push_back(path);
    if (watch.kind == "children") request.child_watches.push_back(path);
    if (watch.kind == "persistent") request.persistent_watches.push_back(path);
    if (watch.kind == "recursive") request.recursive_watches.push_back(path);
  }
  Queue(Part::kSetWatches, std::move(request), 0);
  Flush();
}

int64_t ZookeeperClient::WatchOf(const std::string& path, tree::EventType type) {
  const bool is_children = type == tree::EventType::kNodeChildrenChanged;
  if (const auto found = watches_.find(path); found != watches_.end()) {
    const auto [kind, number] = found->second;
    if (kind == "persistent") return number;
    const bool fires = kind == "children" ? is_children || type == tree::EventType::kNodeDeleted
                       : kind == "exist"  ? type == tree::EventType::kNodeCreated
                                          : !is_children && type != tree::EventType::kNodeCreated;
    if (fires && kind != "recursive") watches_.erase(found);
    if (fires) return number;
  }
  for (const auto& [watched, watch] : watches_) {
    const bool is_above =
        path.size() > watched.size() && path.starts_with(watched) && path[watched.size()] == '/';
    if (watch.kind == "recursive" && !is_children && (path == watched || is_above)) {
      return watch.number;
    }
  }
  return 0;
}

void ZookeeperClient::OnEvent(const wire::ReplyHeader& header, std::string_view body) {
  simulation::WatchEvent event;
  if (!simulation::DecodeWatchEvent(header, body, &event)) {
    recorder_->ReportProtocolError("a notification does not decode");
    return Disconnect("what it sent does not decode");
  }
  if (!RemoveChroot(&event.path)) {
    recorder_->ReportProtocolError("an event has a path outside the chroot");
    return Disconnect("what it sent has the wrong path");
  }
  Line line;
  line.what = What::kEvent;
  line.client = settings_.number;
  line.path = event.path;
  line.type = NameOf(event.type);
  line.zxid = std::max<int64_t>(event.zxid, 0);  // -1: found by setWatches
  line.watch = WatchOf(event.path, event.type);
  events_.push_back(line);
  recorder_->Write(std::move(line));
}

std::vector<Line> ZookeeperClient::TakeEvents() { return std::exchange(events_, {}); }

}  // namespace quorate::chaos
