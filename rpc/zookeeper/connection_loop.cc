// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/connection_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/seeded_bug.h"

namespace quorate::rpc::zk {
namespace {

// The most capacity that a connection's out() keeps after all of it was sent.
constexpr size_t kOutKeptBytesMax = 256u << 10;
// The spare buffers that a loop keeps for large answers: their size and number.
constexpr size_t kSpareBufferBytesMax = 4u << 20;
constexpr size_t kSpareBuffersMax = 4;
// When this many bytes of events are unsent, a stalled connection is closed. Events are not held
// back when much is unsent, whereas at most one reply is added after kUnsentBytesPause.
constexpr size_t kUnsentEventBytesMax = 16u << 20;
// When this many bytes are unsent, a connection is closed even if its client keeps taking bytes.
constexpr size_t kUnsentBytesMax = 256u << 20;
// When this many bytes are unsent, a stalled connection may be closed if the replies of all
// connections together take too much memory.
constexpr size_t kUnsentBytesOfMany = 4u << 20;
// A client counts as stalled if it has taken no bytes for this time although some are unsent.
constexpr auto kStalledAfter = std::chrono::seconds(1);
constexpr auto kRefusalLogPeriod = std::chrono::seconds(5);
// The most watches that are removed in one hold of the tree's lock.
constexpr size_t kWatchesPerHold = kNodesPerHold / 4;
// How long a client may take to receive the last bytes of a connection that is to be closed.
constexpr auto kTimeToSendTheRest = std::chrono::seconds(2);
// OnTimer serves the waiting connections in turn, and begins this many connections further on each
// time. It is a prime number, so that every connection comes first at some time, unless the number of
// connections is a multiple of it.
constexpr size_t kAttendedStep = 61;
// The time between corrections of the counts of watches and ephemerals.
constexpr auto kCorrectPeriod = std::chrono::seconds(2);
// The time between calls of OnTimer when no connection waits for one. It is longer, so that an idle
// server sleeps.
constexpr auto kIdleTimerPeriod = std::chrono::milliseconds(250);
static_assert(2 * kIdleTimerPeriod < ConnectionLoop::kHeldUpAfter);

// Returns the index of the connection, of `count` in the order of the last OnTimer, with which OnTimer
// begins. The order stays while none comes or goes, so that each connection is the first one once in
// `count` calls.
size_t FirstAttended(size_t count) {
  const size_t step = kAttendedStep % std::max<size_t>(count, 1);
  return step != 0 || count < 2 ? step : 1;
}

// Returns the id of the session as `cons` shows it, without a sign.
uint64_t ShownId(const Connection& connection) {
  return static_cast<uint64_t>(connection.session().value());
}

}  // namespace

struct LoopConnection : LoopClient<LoopConnection> {
  LoopConnection(ConnectionLoop* loop, uint32_t tag, std::string address,
                 std::shared_ptr<ConnectionStatistics> statistics)
      : LoopClient(&loop->frontend().service().memory()),
        connection(loop, tag, std::move(address), std::move(statistics)) {}

  uint32_t tag() const { return connection.tag(); }
  const std::string& address() const { return connection.address(); }
  tree::SessionId session() const { return connection.session(); }
  bool finished() const { return connection.finished(); }
  bool CanContinue() const { return connection.CanContinue(); }
  bool TakeTouched() {
    if (!connection.TakeTouched()) return false;
    if (connection.is_local()) connection.TouchLocalSession();
    return connection.keeps_session_alive() && !connection.read_only() && !connection.is_local();
  }

  Connection connection;
  bool is_newcomer = true;  // counts in newcomers_
  bool throttled = false;   // is not received from because of congestion
  bool attended = false;    // in attended_
  bool broken = false;      // the client takes no more bytes
  size_t waiting = 0;       // its WaitingBytes, while it is not received from
  size_t sent = 0;          // bytes of connection.out() that were sent
  // When the client last took bytes, or had taken everything.
  std::chrono::steady_clock::time_point took_at;
  std::chrono::steady_clock::time_point finished_at;  // when CheckTime first saw it finished
  // The part of the connection's counts that is in the loop's statistics already.
  int64_t received_counted = 0;
  int64_t sent_counted = 0;
  int64_t queued_counted = 0;
};

ConnectionLoop::ConnectionLoop(ZkFrontend* frontend, Sockets* sockets)
    : ClientLoop(frontend, sockets),
      statistics_(frontend->statistics().AddLoop()),
      requests_(frontend->service().requests().AddLoop()),
      stage_finder_(&frontend->service().marks()) {}

ConnectionLoop::~ConnectionLoop() = default;

void ConnectionLoop::Stop() {
  dirty_.clear();
  in_order_.clear();
  clients_.clear();  // their destructors release their share of the memory budget
}

void ConnectionLoop::OnWake() {
  inbox_.OnWake();
  BeginIteration();
  DrainInbox();
}

// --- From the sockets ----------------------------------------------------------------------------

std::optional<uint32_t> ConnectionLoop::Open(std::string address, uint16_t port) {
  BeginIteration();
  if (!frontend_->AdmitOrRefuse(address)) return std::nullopt;
  return OpenAdmitted(std::move(address), port, /*subject=*/"");
}

uint32_t ConnectionLoop::OpenAdmitted(std::string address, uint16_t port,
                                      const std::string& subject, bool is_secure) {
  BeginIteration();
  const uint32_t tag = NewTag();
  const std::string host = absl::StrContains(address, ':') ? "[" + address + "]" : address;
  auto statistics =
      frontend_->statistics().AddConnection(tag, absl::StrCat(host, ":", port), is_secure);
  Client& client =
      Add(std::make_shared<Client>(this, tag, std::move(address), std::move(statistics)));
  ++newcomers_;
  if (!subject.empty()) FinishIfBad(client, client.connection.AddCertificate(subject));
  Attend(client);
  return tag;
}

void ConnectionLoop::OnBytes(uint32_t tag, std::string_view bytes) {
  BeginIteration();
  Client& client = Get(tag);
  client.receiving = false;
  statistics_->bytes_received.Add(static_cast<int64_t>(bytes.size()));
  LendBuffer(client);
  const absl::Status status = client.connection.OnBytes(bytes);
  CountNewcomer(client);
  UnlockTree();
  MarkDirty(client);
  FinishIfBad(client, status);
}

void ConnectionLoop::OnWritable(uint32_t tag) {
  BeginIteration();
  Client& client = Get(tag);
  client.blocked = false;
  // More bytes can be sent because the client reads, so it is alive. A successful Send would not
  // show that, because the bytes may be in a buffer of the system.
  client.connection.SetTouched();
  // The sent bytes are not removed in each iteration, because moving the rest costs as much as
  // sending it.
  std::string& out = client.connection.out();
  if (client.sent > out.size() / 2) {
    out.erase(0, client.sent);
    client.sent = 0;
  }
  MarkDirty(client);
}

void ConnectionLoop::OnClosed(uint32_t tag) {
  BeginIteration();
  Close(Get(tag));
}

// --- Connections ---------------------------------------------------------------------------------

void ConnectionLoop::MaybeReceive(Client& client) {
  if (!client.open || client.receiving) return;
  client.connection.CountHeldBack();
  if (client.connection.IsFull()) return;
  // Congestion comes from writes, so clients that wait for no replies are still received from.
  if (client.connection.queued() > 0 && IsCongested()) {
    if (!std::exchange(client.throttled, true)) statistics_->throttle_waits.Add(1);
    return;
  }
  client.throttled = false;
  client.waiting = 0;
  client.receiving = true;
  transport_->Receive(client.connection.tag());
}

bool ConnectionLoop::IsCongested() const {
  const int limit = frontend_->config().global_outstanding_limit;
  return frontend_->service().congested() ||
         (limit > 0 && frontend_->statistics().outstanding() > limit);
}

void ConnectionLoop::Flush(Client& client) {
  std::string& out = client.connection.out();
  if (!client.blocked && client.sent < out.size()) {
    const std::optional<size_t> sent =
        transport_->Send(client.connection.tag(), std::string_view(out).substr(client.sent));
    if (!sent.has_value()) {
      client.broken = true;
      client.connection.StopAnswering();
    }
    client.sent += sent.value_or(0);
    if (sent.value_or(0) > 0) client.took_at = now_;
    statistics_->bytes_sent.Add(static_cast<int64_t>(sent.value_or(0)));
    client.blocked = client.sent < out.size();
  }
  if (client.broken) {  // bytes that the client sent still come, and then OnClosed
    client.blocked = true;
    client.sent = out.size();
  }
  if (client.sent == out.size()) {
    client.took_at = now_;
    out.clear();
    if (out.capacity() > kOutKeptBytesMax) TakeBufferBack(out);
    client.sent = 0;
    if (client.connection.finished()) Close(client);
  } else if (out.capacity() > kOutKeptBytesMax && out.size() - client.sent < out.capacity() / 4) {
    // A slow client must not keep a large buffer that holds few bytes.
    std::string rest = out.substr(client.sent);
    out.clear();
    TakeBufferBack(out);
    out = std::move(rest);
    client.sent = 0;
  }
  if (!client.open) return;
  const size_t unsent = out.size() - client.sent;
  client.unsent.Set(unsent);
  client.connection.SetUnsent(unsent);
  if (unsent > kUnsentBytesMax) CloseForMemory(client, unsent);
}

void ConnectionLoop::CloseForMemory(Client& client, size_t unsent) {
  frontend_->service().memory().CountClosed();
  Finish(client, absl::ResourceExhaustedError(
                     absl::StrCat("the client does not read what it is sent: ", unsent, " bytes")));
  Close(client);
}

// Closes only connections whose clients have taken nothing for kStalledAfter, not those that have
// just begun to receive a large reply.
void ConnectionLoop::CloseStalled() {
  const MemoryBudget& memory = frontend_->service().memory();
  const bool exceeds = memory.replies_exceed();
  std::vector<std::pair<size_t, std::shared_ptr<Client>>> stalled;
  for (const std::shared_ptr<Client>& client : in_order_) {
    const size_t unsent = client->connection.out().size() - client->sent;
    if (!client->blocked || now_ - client->took_at < kStalledAfter) continue;
    if (client->connection.unsent_event_bytes() > kUnsentEventBytesMax ||
        (exceeds && unsent > kUnsentBytesOfMany)) {
      stalled.emplace_back(unsent, client);
    }
  }
  std::sort(stalled.begin(), stalled.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [unsent, client] : stalled) {
    const bool is_of_events = client->connection.unsent_event_bytes() > kUnsentEventBytesMax;
    if (client->open && (is_of_events || memory.replies_exceed())) CloseForMemory(*client, unsent);
  }
}

void ConnectionLoop::LendBuffer(Client& client) {
  std::string& out = client.connection.out();
  if (spare_buffers_.empty() || !out.empty()) return;
  out = std::move(spare_buffers_.back());
  spare_buffers_.pop_back();
}

void ConnectionLoop::TakeBufferBack(std::string& out) {
  if (out.capacity() <= kSpareBufferBytesMax && spare_buffers_.size() < kSpareBuffersMax) {
    spare_buffers_.push_back(std::move(out));
  }
  std::string().swap(out);  // frees the memory, which an assignment would keep
}

void ConnectionLoop::Finish(Client& client, const absl::Status& why) {
  if (!client.open) return;
  LogClosing(client.connection, why);
  KeepTouch(client);
  client.connection.SetFinished();
  MarkDirty(client);  // out() is sent first, then the connection is closed
}

void ConnectionLoop::LogClosing(const Connection& connection, const absl::Status& why) {
  const std::string reason(why.message());
  if (connection.has_session()) {
    spdlog::info("closing the connection of {}, session 0x{:x}: {}", connection.address(),
                 ShownId(connection), reason);
    return;
  }
  // The rate is limited, because rejected clients reconnect at once, many times a second.
  if (now_ - refusal_logged_ < kRefusalLogPeriod) {
    ++refusals_not_logged_;
    return;
  }
  refusal_logged_ = now_;
  spdlog::info(
      "turning away {}{}: {}", connection.address(),
      refusals_not_logged_ > 0 ? fmt::format(" (and {} before)", refusals_not_logged_) : "",
      reason);
  refusals_not_logged_ = 0;
}

void ConnectionLoop::LogRefusedMulti(const Connection& connection, int32_t length,
                                     int32_t bytes_max) {
  // The rate is limited, because a client may send such a request again and again.
  if (now_ - multi_refusal_logged_ < kRefusalLogPeriod) return;
  multi_refusal_logged_ = now_;
  spdlog::warn("refusing a multi of {} bytes from {}, session 0x{:x}: {}", length,
               connection.address(), ShownId(connection),
               length > bytes_max
                   ? fmt::format("at most {} are allowed (maxMultiBytes)", bytes_max)
                   : "requests take an eighth of the server's memory already (memoryLimitMb)");
}

void ConnectionLoop::LogFailedSasl(const Connection& connection, const std::string& reason) {
  // The rate is limited, because clients with a wrong password connect again at once.
  if (now_ - failed_sasl_logged_ < kRefusalLogPeriod) return;
  failed_sasl_logged_ = now_;
  spdlog::warn("SASL authentication failed address={} session=0x{:x}: {}", connection.address(),
               ShownId(connection), reason);
}

void ConnectionLoop::CountLostEvents(const Connection& connection, tree::Zxid since,
                                     tree::Zxid oldest) {
  statistics_->missed_events_lost.Add(1);
  // The rate is limited, because very many clients may connect again at once.
  if (now_ - lost_events_logged_ < kRefusalLogPeriod) return;
  lost_events_logged_ = now_;
  spdlog::info(
      "session 0x{:x} connects again after zxid {}, and the history of events begins after zxid "
      "{} (eventHistoryBytes): its persistent watches may have missed events",
      ShownId(connection), since.value(), oldest.value());
}

void ConnectionLoop::Close(Client& client) {
  if (!client.open) return;
  client.open = false;
  const uint32_t tag = client.connection.tag();
  KeepTouch(client);
  client.connection.SetFinished();
  CountNewcomer(client);
  client.connection.SubmitRest();
  UpdateStatistics(client);
  for (bool all = false; !all;) {
    LockTree();  // watches may be changed only while nothing is applied
    if (frontend_->IsServedBy(client.session(), tag)) client.connection.KeepEphemerals();
    {
      MutexLock lock(&frontend_->watches().mutex);
      all = frontend_->watches().table.RemoveWatcher(tag, kWatchesPerHold);
    }
    UnlockTree();
  }
  frontend_->statistics().RemoveConnection(tag);
  statistics_->outstanding.Add(-client.queued_counted);
  transport_->Close(tag);
  // After the last LockTree, which may deliver results of the client's writes.
  client.connection.DetachLocalSession();
  Remove(client);
}

// --- Iterations ----------------------------------------------------------------------------------

void ConnectionLoop::BeginIteration() {
  ClientLoop::BeginIteration();
  has_begun_ = true;
  stage_finder_.Forget();
  const int64_t resets = frontend_->statistics().server_resets();
  if (statistics_->resets_seen.value() == resets) return;
  statistics_->Clear();
  statistics_->resets_seen.Set(resets);
}

void ConnectionLoop::EndIteration() {
  // Without an input, as between the pieces of a long read, time has passed all the same.
  if (!has_begun_) BeginIteration();
  has_begun_ = false;
  iteration_end_scheduled_ = false;
  AdmitWaiting();
  ContinueClients(/*has_items=*/false);
  for (const std::shared_ptr<Client>& client : dirty_) client->connection.SubmitRest();
  SubmitBatch();
  TakeDirty([this](Client& client) {
    UpdateStatistics(client);  // before Flush, which may close the client
    Flush(client);
    if (!client.open) return;
    if (client.CanContinue()) MarkDirty(client);
    MaybeReceive(client);
    if (NeedsAttention(client)) Attend(client);
  });
}

void ConnectionLoop::AdmitWaiting() {
  while (const std::optional<uint32_t> tag = handshakes_.TakeNext()) {
    LockTree();  // may deliver that the client is to be closed
    Client* const client = Find(*tag);
    if (client == nullptr || !client->open || !client->connection.is_queued()) {
      handshakes_.End(*tag);
      continue;
    }
    MarkDirty(*client);
    FinishIfBad(*client, client->connection.Admit());
    Spend(1);
  }
  UnlockTree();
}

void ConnectionLoop::UpdateStatistics(Client& client) {
  client.connection.CountMemory();
  const Connection& connection = client.connection;
  ConnectionStatistics& shown = client.connection.statistics();
  const int64_t received = connection.packets_received() -
                           std::exchange(client.received_counted, connection.packets_received());
  const int64_t sent =
      connection.packets_sent() - std::exchange(client.sent_counted, connection.packets_sent());
  const auto queued = static_cast<int64_t>(connection.queued());
  statistics_->packets_received.Add(received);
  statistics_->packets_sent.Add(sent);
  statistics_->outstanding.Add(queued - std::exchange(client.queued_counted, queued));
  shown.received.Add(received);
  shown.sent.Add(sent);
  shown.queued.Set(queued);
}

void ConnectionLoop::Continue(Client& client) {
  LendBuffer(client);
  FinishIfBad(client, client.connection.Continue());
}

// --- Inbox ---------------------------------------------------------------------------------------

void ConnectionLoop::DeliverApplied() {
  if (!SeededBug("data before its event")) DrainInbox();
}

void ConnectionLoop::HandleItem(Item& item) {
  if (std::holds_alternative<TreeReplaced>(item)) {
    handshakes_.EndAll();
    for (const std::shared_ptr<Client>& client : in_order_) {
      client->connection.OnTreeReplaced();
      Finish(*client,
             absl::AbortedError(
                 "this server was far behind and has skipped events that its clients wait for"));
    }
  } else if (auto* result = std::get_if<tree::ApplyResult>(&item)) {
    seen_zxid_ = std::max(seen_zxid_, result->zxid);
    const tree::CommandKind kind = result->header.kind;
    if (kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) {
      EndHandshake(result->header.proposer_tag);
    }
    if (frontend_->config().local_sessions) {
      CountLocalResult(*result);
      // Also if the connection whose session was to become global is closed.
      const bool failed = result->error != tree::ErrorCode::kOk;
      if (kind == tree::CommandKind::kCreateSession && failed) {
        frontend_->local_sessions().EndUpgrade(result->header.session);
      }
    }
    DeliverTo(result->header.proposer_tag,
              [result](Client& client) { return client.connection.OnResult(std::move(*result)); });
  } else if (auto* event = std::get_if<WatchEventItem>(&item)) {
    DeliverTo(event->tag, [event](Client& client) {
      client.connection.OnWatchEvent(event->type, event->path, event->zxid, event->readers);
      return absl::OkStatus();
    });
  } else if (auto* setting = std::get_if<LinearizableItem>(&item)) {
    DeliverTo(setting->tag, [setting](Client& client) {
      client.connection.SetLinearizable(setting->is_linearizable);
      return absl::OkStatus();
    });
  } else if (auto* reconfigured = std::get_if<ReconfiguredItem>(&item)) {
    DeliverTo(reconfigured->tag, [reconfigured](Client& client) {
      client.connection.OnReconfigured(reconfigured->outcome);
      return absl::OkStatus();
    });
  } else if (auto* due = std::get_if<LocalSessionDueItem>(&item)) {
    if (Client* const client = Find(due->tag)) EndSilentLocalSession(*client);
  } else if (auto* barrier = std::get_if<BarrierDone>(&item)) {
    DeliverBarrier(*barrier);
  } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
    DeliverTo(attached->tag, [attached](Client& client) {
      return client.connection.IsOvertaken(attached->attach_zxid)
                 ? absl::AbortedError("the session has moved to another connection")
                 : absl::OkStatus();
    });
  } else {
    DeliverTo(std::get<SessionClosed>(item).tag, [](Client& client) {
      return client.connection.OnSessionClosed()
                 ? absl::AbortedError("the session has expired or was closed elsewhere")
                 : absl::OkStatus();
    });
  }
}

void ConnectionLoop::EndHandshake(uint32_t tag) {
  handshakes_.End(tag);
  if (handshakes_.has_waiting()) ScheduleIterationEnd();
}

void ConnectionLoop::OnBarrierDone(Client& client, uint64_t barrier) {
  client.connection.OnBarrierDone(barrier);
}

// --- Periodic work -------------------------------------------------------------------------------

std::chrono::milliseconds ConnectionLoop::OnTimer() {
  BeginIteration();
  statistics_->stages.Tick(now_);
  const int64_t leader_contact_age_ms = frontend_->service().status().leader_contact_age_ms;
  if (leader_contact_age_ms > Connection::LeaderContactAgeMinMs(frontend_->config())) {
    for (const std::shared_ptr<Client>& client : in_order_) Attend(*client);
  }
  bool somebody_waits = false;
  // Begins with another one each time, so that clients that wait for the same tokens take turns.
  const std::vector<uint32_t> attended = std::exchange(attended_, {});
  const size_t first = FirstAttended(attended.size());
  for (size_t i = 0; i < attended.size(); ++i) {
    const auto found = clients_.find(attended[(first + i) % attended.size()]);
    if (found == clients_.end()) continue;
    const std::shared_ptr<Client> client = found->second;
    client->attended = false;
    CheckTime(*client, leader_contact_age_ms);
    if (!client->open) continue;
    somebody_waits |= client->connection.waits_for_retry() || !client->receiving;
    if (NeedsAttention(*client)) Attend(*client);
  }
  CloseStalled();
  CloseHeaviest();
  CorrectCounts();
  UnlockTree();
  SendTouches();
  frontend_->EndSilentLocalSessions();
  if (somebody_waits) return kTimerPeriod;
  // Sessions with short timeouts have to be touched in time; kTimerPeriod bounds the rate for the
  // shortest ones.
  return std::clamp(std::chrono::milliseconds(frontend_->config().touch_period_ms()), kTimerPeriod,
                    kIdleTimerPeriod);
}

void ConnectionLoop::CloseHeaviest() {
  const auto bytes_of = [](Client& client) {
    return client.connection.out().capacity() + client.connection.kept_bytes();
  };
  size_t bytes = 0;
  const std::shared_ptr<Client> heaviest = TakeHeaviest(bytes_of, &bytes);
  if (heaviest == nullptr) return;
  Finish(*heaviest,
         absl::ResourceExhaustedError(absl::StrCat(
             "the server's memory is almost used up (memoryLimitMb), and this connection "
             "takes the most on its thread: ",
             bytes, " bytes")));
  Close(*heaviest);
}

void ConnectionLoop::Attend(Client& client) {
  if (!std::exchange(client.attended, true)) attended_.push_back(client.connection.tag());
}

bool ConnectionLoop::NeedsAttention(const Client& client) {
  return !client.receiving || client.connection.NeedsTime();
}

void ConnectionLoop::HearWaiting(Client& client) {
  if (!client.open || client.receiving) return;
  const size_t waiting = transport_->WaitingBytes(client.connection.tag());
  const bool has_grown = waiting > std::exchange(client.waiting, waiting);
  // While `blocked`, the client itself delays its bytes, because it does not read. It then counts
  // as alive only if more bytes come.
  if (has_grown || (waiting > 0 && !client.blocked)) client.connection.OnHeard();
  if (client.connection.is_slowed() && transport_->HasHungUp(client.connection.tag())) {
    client.connection.SetHungUp();
  }
}

void ConnectionLoop::CountLocalResult(const tree::ApplyResult& result) {
  if (result.header.kind != tree::CommandKind::kRequest) return;
  if (Client* const client = Find(result.header.proposer_tag)) {
    client->connection.CountLocalResult();
  } else {
    frontend_->local_sessions().OnLateResult(result.header.proposer_tag);
  }
}

void ConnectionLoop::EndSilentLocalSession(Client& client) {
  Connection& connection = client.connection;
  if (!client.open || connection.finished()) return;
  // While `blocked`, the client itself delays its bytes.
  if (!client.blocked && transport_->WaitingBytes(connection.tag()) > 0) return;
  if (!connection.ExpireLocalSession()) return;
  Finish(client,
         absl::DeadlineExceededError(
             "nothing was received from the client of the local session within its timeout"));
}

void ConnectionLoop::CheckTime(Client& client, int64_t leader_contact_age_ms) {
  Connection& connection = client.connection;
  HearWaiting(client);
  absl::Status problem = connection.CheckTime(now_, leader_contact_age_ms);
  if (problem.ok() && connection.waits_for_retry()) {
    problem = connection.RetryHandshake();
    MarkDirty(client);
  }
  FinishIfBad(client, problem);
  if (connection.finished()) {
    if (client.finished_at == std::chrono::steady_clock::time_point()) client.finished_at = now_;
    if (now_ - client.finished_at >= kTimeToSendTheRest) Close(client);
  }
  if (connection.EndSlowing()) {
    MarkDirty(client);  // it is received from when it has done what it has received
  } else {
    MaybeReceive(client);  // the connection may have been throttled
  }
}

void ConnectionLoop::CountNewcomer(Client& client) {
  if (client.is_newcomer && !client.connection.is_newcomer()) {
    client.is_newcomer = false;
    --newcomers_;
  }
}

bool ConnectionLoop::IsNewcomer(uint32_t tag) {
  const Client* const client = Find(tag);
  return client != nullptr && client->is_newcomer;
}

bool ConnectionLoop::CloseNewcomer(uint32_t tag) {
  BeginIteration();
  Client* const client = Find(tag);
  if (client == nullptr || !client->is_newcomer) return false;
  frontend_->service().tenants().OnReached(Limit::kFirstRequest, nullptr, now_);
  Close(*client);
  return true;
}

void ConnectionLoop::CorrectCounts() {
  if (now_ - counts_corrected_ < kCorrectPeriod) return;
  counts_corrected_ = now_;
  for (const std::shared_ptr<Client>& client : in_order_) {
    if (!client->connection.has_correctable_counts()) continue;
    LockTree();
    client->connection.CorrectCounts();
    Spend(1);
  }
  UnlockTree();
}

void ConnectionLoop::AddTouched(std::vector<int64_t>* sessions) {
  for (uint32_t tag : std::exchange(touched_, {})) {
    Client* client = Find(tag);
    if (client != nullptr && client->TakeTouched()) sessions->push_back(client->session().value());
  }
}

}  // namespace quorate::rpc::zk
