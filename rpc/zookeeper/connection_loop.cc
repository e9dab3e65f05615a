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

// The capacity that a connection's out() keeps when all of it was sent.
constexpr size_t kOutKeptBytesMax = 256u << 10;
// The spare buffers that a loop keeps for large answers: their size and number.
constexpr size_t kSpareBufferBytesMax = 4u << 20;
constexpr size_t kSpareBuffersMax = 4;
// Unsent bytes of events at which a stalled connection is closed. Events are not paused when much
// is unsent, whereas at most one reply is added after kUnsentBytesPause.
constexpr size_t kUnsentEventBytesMax = 16u << 20;
// Unsent bytes at which a connection is closed even if it takes some bytes all the time.
constexpr size_t kUnsentBytesMax = 256u << 20;
// Unsent bytes at which a stalled connection may be closed when the replies of all connections
// together take too much memory.
constexpr size_t kUnsentBytesOfMany = 4u << 20;
// A client that takes no bytes for so long, although some are unsent, counts as stalled.
constexpr auto kStalledAfter = std::chrono::seconds(1);
// Bytes kept for a connection at which it may be closed when memory is low: more than a buffer that
// has grown to the largest request.
constexpr size_t kHeavyBytes = 5u << 19;
constexpr auto kRefusalLogPeriod = std::chrono::seconds(5);
// Watches that are removed in one hold of the tree's lock.
constexpr size_t kWatchesPerHold = kNodesPerHold / 4;
// How long a connection that is to be closed may take to accept the last bytes.
constexpr auto kTimeToSendTheRest = std::chrono::seconds(2);
// The time between calls of OnTimer when no connection waits for one, so that an idle server
// sleeps.
constexpr auto kIdleTimerPeriod = std::chrono::milliseconds(250);
static_assert(2 * kIdleTimerPeriod < ConnectionLoop::kHeldUpAfter);

}  // namespace

struct ConnectionLoop::Client {
  Client(ConnectionLoop* loop, uint32_t tag, std::string address,
         std::shared_ptr<ConnectionStatistics> statistics)
      : connection(loop, tag, std::move(address), std::move(statistics)) {}

  Connection connection;
  std::list<std::shared_ptr<Client>>::iterator in_order;
  bool open = true;
  bool receiving = true;      // Sockets::Receive was called, and no bytes came since
  bool blocked = false;       // waits for OnWritable
  bool dirty = false;         // in dirty_
  bool throttled = false;     // is not read from because of congestion
  bool attended = false;      // in attended_
  bool broken = false;        // takes no more bytes
  size_t waiting = 0;         // WaitingBytes of it, while it is not read from
  size_t sent = 0;            // of connection.out()
  size_t unsent_counted = 0;  // in the memory budget
  // When the client last took bytes, or had taken all.
  std::chrono::steady_clock::time_point took_at;
  std::chrono::steady_clock::time_point finished_at;  // when CheckTime first saw it finished
  // The part of the connection's counts that is in the loop's statistics already.
  int64_t received_counted = 0;
  int64_t sent_counted = 0;
  int64_t queued_counted = 0;
};

ConnectionLoop::ConnectionLoop(ZkFrontend* frontend, Sockets* sockets)
    : frontend_(frontend),
      sockets_(sockets),
      clock_(&frontend->clock()),
      number_(frontend->AddLoop(this)),
      statistics_(frontend->statistics().AddLoop()) {
  BeginIteration();
  touches_sent_ = now_;
}

ConnectionLoop::~ConnectionLoop() = default;

void ConnectionLoop::Stop() {
  dirty_.clear();
  in_order_.clear();
  clients_.clear();  // their destructors release their share of the memory budget
}

// --- From other threads --------------------------------------------------------------------------

void ConnectionLoop::Push(Item item) { inbox_.Push(std::move(item)); }

void ConnectionLoop::Wake() {
  if (inbox_.WantsWake()) sockets_->Wake();
}

void ConnectionLoop::OnWake() {
  inbox_.OnWake();
  BeginIteration();
  DrainInbox();
}

// --- From the sockets ----------------------------------------------------------------------------

std::optional<uint32_t> ConnectionLoop::Open(std::string address, uint16_t port) {
  BeginIteration();
  if (!frontend_->AdmitAddress(address)) return std::nullopt;
  uint32_t tag = frontend_->NewTag(number_);
  while (clients_.contains(tag)) tag = frontend_->NewTag(number_);
  const std::string host = absl::StrContains(address, ':') ? "[" + address + "]" : address;
  auto statistics = frontend_->statistics().AddConnection(tag, absl::StrCat(host, ":", port));
  auto client = std::make_shared<Client>(this, tag, std::move(address), std::move(statistics));
  client->in_order = in_order_.insert(in_order_.end(), client);
  Attend(*client);
  clients_[tag] = std::move(client);
  return tag;
}

void ConnectionLoop::OnBytes(uint32_t tag, std::string_view bytes) {
  BeginIteration();
  Client& client = *clients_.at(tag);
  client.receiving = false;
  statistics_->bytes_received.Add(static_cast<int64_t>(bytes.size()));
  LendBuffer(client);
  const absl::Status status = client.connection.OnBytes(bytes);
  UnlockTree();
  MarkDirty(client);
  if (!status.ok()) Finish(client, status);
}

void ConnectionLoop::OnWritable(uint32_t tag) {
  BeginIteration();
  Client& client = *clients_.at(tag);
  client.blocked = false;
  // There is room because the client reads, so it is alive. A Send that succeeds would not show
  // that, as the bytes may be in a buffer of the system.
  client.connection.SetTouched();
  // Not in each iteration: moving the rest costs as much as sending it.
  std::string& out = client.connection.out();
  if (client.sent > out.size() / 2) {
    out.erase(0, client.sent);
    client.sent = 0;
  }
  MarkDirty(client);
}

void ConnectionLoop::OnClosed(uint32_t tag) {
  BeginIteration();
  Close(*clients_.at(tag));
}

// --- Connections ---------------------------------------------------------------------------------

void ConnectionLoop::MaybeReceive(Client& client) {
  if (!client.open || client.receiving || client.connection.IsFull()) return;
  // Congestion comes from writes: clients that wait for no replies are still read from.
  if (client.connection.queued() > 0 && IsCongested()) {
    if (!std::exchange(client.throttled, true)) statistics_->throttle_waits.Add(1);
    return;
  }
  client.throttled = false;
  client.waiting = 0;
  client.receiving = true;
  sockets_->Receive(client.connection.tag());
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
        sockets_->Send(client.connection.tag(), std::string_view(out).substr(client.sent));
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
    // A slow client must not hold a large buffer with little in it.
    std::string rest = out.substr(client.sent);
    out.clear();
    TakeBufferBack(out);
    out = std::move(rest);
    client.sent = 0;
  }
  if (!client.open) return;
  const size_t unsent = out.size() - client.sent;
  MemoryBudget& memory = frontend_->service().memory();
  if (unsent != client.unsent_counted) {
    memory.Add(MemoryUse::kUnsent,
               static_cast<int64_t>(unsent) - static_cast<int64_t>(client.unsent_counted));
    client.unsent_counted = unsent;
  }
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
  MarkDirty(client);  // out() is sent first, then it is closed
}

void ConnectionLoop::LogClosing(const Connection& connection, const absl::Status& why) {
  const std::string reason(why.message());
  if (connection.has_session()) {
    spdlog::info("closing the connection of {}, session 0x{:x}: {}", connection.address(),
                 connection.session().value(), reason);
    return;
  }
  // Rejected clients reconnect at once, many times a second.
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

void ConnectionLoop::Close(Client& client) {
  if (!client.open) return;
  client.open = false;
  const uint32_t tag = client.connection.tag();
  KeepTouch(client);
  client.connection.SetFinished();
  client.connection.SubmitRest();
  UpdateStatistics(client);
  for (bool all = false; !all;) {
    LockTree();  // watches may be changed only while nothing is applied
    {
      MutexLock lock(&frontend_->watches().mutex);
      all = frontend_->watches().table.RemoveWatcher(tag, kWatchesPerHold);
    }
    UnlockTree();
  }
  frontend_->ForgetSession(client.connection.session(), tag);
  frontend_->statistics().RemoveConnection(tag);
  statistics_->outstanding.Add(-client.queued_counted);
  if (client.unsent_counted > 0) {
    frontend_->service().memory().Add(MemoryUse::kUnsent,
                                      -static_cast<int64_t>(client.unsent_counted));
  }
  frontend_->ReleaseAddress(client.connection.address());
  sockets_->Close(tag);
  in_order_.erase(client.in_order);
  clients_.erase(tag);
}

// --- Iterations ----------------------------------------------------------------------------------

void ConnectionLoop::BeginIteration() {
  now_ = clock_->Now();
  last_iteration_.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
  const int64_t resets = frontend_->statistics().server_resets();
  if (statistics_->resets_seen.value() == resets) return;
  statistics_->Clear();
  statistics_->resets_seen.Set(resets);
}

void ConnectionLoop::MarkDirty(Client& client) {
  if (client.dirty || !client.open) return;
  client.dirty = true;
  dirty_.push_back(*client.in_order);
  ScheduleIterationEnd();
}

// The end of an iteration comes after the handlers of all sockets that were ready together, so that
// their writes go to the log as one batch.
void ConnectionLoop::ScheduleIterationEnd() {
  if (iteration_end_scheduled_) return;
  iteration_end_scheduled_ = true;
  sockets_->EndIterationSoon();
}

void ConnectionLoop::EndIteration() {
  iteration_end_scheduled_ = false;
  ContinueConnections();
  for (const std::shared_ptr<Client>& client : dirty_) client->connection.SubmitRest();
  if (!batch_.empty()) {
    const size_t bytes = batch_.bytes->size();
    frontend_->service().Submit(std::exchange(batch_, CommandBatch{}));
    batch_.bytes->reserve(bytes);
  }
  std::vector<std::shared_ptr<Client>> dirty;
  dirty.swap(dirty_);
  // Reset all of them first: closing one of them drains the inbox, which may mark any other dirty.
  for (const std::shared_ptr<Client>& client : dirty) client->dirty = false;
  for (const std::shared_ptr<Client>& client : dirty) {
    if (!client->open) continue;
    UpdateStatistics(*client);  // before Flush, which may close it
    Flush(*client);
    if (!client->open) continue;
    if (client->connection.CanContinue()) MarkDirty(*client);
    MaybeReceive(*client);
    if (NeedsAttention(*client)) Attend(*client);
  }
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

// Connections continue only here, when the tree is locked and the inbox is empty: a reply made
// while results are being delivered could overtake an event.
void ConnectionLoop::ContinueConnections() {
  const auto can_continue = [](const std::shared_ptr<Client>& client) {
    return client->open && client->connection.CanContinue();
  };
  if (std::none_of(dirty_.begin(), dirty_.end(), can_continue)) return;
  LockTree();  // may add to dirty_
  for (size_t i = 0; i < dirty_.size(); ++i) {
    if (!can_continue(dirty_[i])) continue;
    LockTree();
    LendBuffer(*dirty_[i]);
    if (absl::Status status = dirty_[i]->connection.Continue(); !status.ok()) {
      Finish(*dirty_[i], status);
    }
  }
  UnlockTree();
}

void ConnectionLoop::AddedCommand(size_t offset) {
  ASSERT(offset < batch_.bytes->size());
  batch_.commands.push_back({offset, batch_.bytes->size() - offset});
  ScheduleIterationEnd();
}

const tree::Tree& ConnectionLoop::LockTree() {
  if (spent_ >= kNodesPerHold) UnlockTree();
  if (tree_.has_value()) return **tree_;
  tree_.emplace(frontend_->service().ReadTree());
  if (!SeededBug("data before its event")) DrainInbox();
  seen_zxid_ = (*tree_)->last_zxid();
  return **tree_;
}

void ConnectionLoop::UnlockTree() {
  tree_.reset();
  spent_ = 0;
}

// --- Inbox ---------------------------------------------------------------------------------------

void ConnectionLoop::DrainInbox() {
  ASSERT(draining_.empty());
  if (!inbox_.Take(&draining_)) return;
  for (Item& item : draining_) HandleItem(item);
  draining_.clear();
}

void ConnectionLoop::HandleItem(Item& item) {
  // A connection that is about to be closed gets nothing more: it may have missed earlier items.
  const auto find = [this](uint32_t tag) -> Client* {
    auto it = clients_.find(tag);
    if (it == clients_.end() || it->second->connection.finished()) return nullptr;
    return it->second.get();
  };
  if (std::holds_alternative<TreeReplaced>(item)) {
    FinishAll(absl::AbortedError(
        "this server was far behind and has skipped events that its clients wait for"));
    return;
  }
  absl::Status status;
  Client* client = nullptr;
  if (auto* result = std::get_if<tree::ApplyResult>(&item)) {
    seen_zxid_ = std::max(seen_zxid_, result->zxid);
    client = find(result->header.proposer_tag);
    if (client != nullptr) status = client->connection.OnResult(std::move(*result));
  } else if (auto* event = std::get_if<WatchEvent>(&item)) {
    client = find(event->tag);
    if (client != nullptr) {
      client->connection.OnWatchEvent(event->type, event->path, event->zxid, event->readers);
    }
  } else if (auto* sync = std::get_if<SyncDone>(&item)) {
    seen_zxid_ = std::max(seen_zxid_, sync->zxid);
    client = find(sync->tag);
    if (client != nullptr) client->connection.OnSyncDone(sync->sync_id);
  } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
    client = find(attached->tag);
    if (client != nullptr && client->connection.IsOvertaken(attached->attach_zxid)) {
      status = absl::AbortedError("the session has moved to another connection");
    }
  } else {
    client = find(std::get<SessionClosed>(item).tag);
    if (client != nullptr && client->connection.OnSessionClosed()) {
      status = absl::AbortedError("the session has expired or was closed elsewhere");
    }
  }
  if (client == nullptr) return;
  MarkDirty(*client);
  if (!status.ok()) Finish(*client, status);
}

void ConnectionLoop::FinishAll(const absl::Status& why) {
  for (const std::shared_ptr<Client>& client : in_order_) Finish(*client, why);
}

// --- From time to time ---------------------------------------------------------------------------

std::chrono::milliseconds ConnectionLoop::OnTimer() {
  BeginIteration();
  const int64_t leader_contact_age_ms = frontend_->service().status().leader_contact_age_ms;
  if (leader_contact_age_ms > Connection::LeaderContactAgeMinMs(frontend_->config())) {
    for (const std::shared_ptr<Client>& client : in_order_) Attend(*client);
  }
  bool somebody_waits = false;
  for (uint32_t tag : std::exchange(attended_, {})) {
    const auto found = clients_.find(tag);
    if (found == clients_.end()) continue;
    const std::shared_ptr<Client> client = found->second;
    client->attended = false;
    CheckTime(*client, leader_contact_age_ms);
    if (!client->open) continue;
    somebody_waits |= client->connection.waits_for_catch_up() || !client->receiving;
    if (NeedsAttention(*client)) Attend(*client);
  }
  CloseStalled();
  CloseHeaviest();
  UnlockTree();
  SendTouches();
  if (somebody_waits) return kTimerPeriod;
  // Short sessions have to be touched in time; kTimerPeriod bounds the rate for the shortest.
  return std::clamp(std::chrono::milliseconds(frontend_->config().touch_period_ms()), kTimerPeriod,
                    kIdleTimerPeriod);
}

// Closes at most one connection per measurement of memory, as the next measurement shows the
// effect.
void ConnectionLoop::CloseHeaviest() {
  MemoryBudget& memory = frontend_->service().memory();
  if (!memory.clients_exceed() ||
      std::exchange(measurement_seen_, memory.measurements()) == memory.measurements()) {
    return;
  }
  std::shared_ptr<Client> heaviest;
  size_t most = kHeavyBytes;
  for (const std::shared_ptr<Client>& client : in_order_) {
    const size_t bytes = client->connection.out().capacity() + client->connection.kept_bytes();
    if (bytes <= most) continue;
    most = bytes;
    heaviest = client;
  }
  if (heaviest == nullptr) return;
  memory.CountClosed();
  Finish(*heaviest,
         absl::ResourceExhaustedError(absl::StrCat(
             "the server's memory is almost used up (memoryLimitMb), and this connection "
             "takes the most on its thread: ",
             most, " bytes")));
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
  const size_t waiting = sockets_->WaitingBytes(client.connection.tag());
  const bool has_grown = waiting > std::exchange(client.waiting, waiting);
  // While `blocked`, the client itself delays its bytes by not reading: it then counts as alive
  // only if more bytes come.
  if (has_grown || (waiting > 0 && !client.blocked)) client.connection.OnHeard();
}

void ConnectionLoop::CheckTime(Client& client, int64_t leader_contact_age_ms) {
  Connection& connection = client.connection;
  HearWaiting(client);
  absl::Status problem = connection.CheckTime(now_, leader_contact_age_ms);
  if (problem.ok() && connection.waits_for_catch_up()) {
    problem = connection.RetryHandshake();
    MarkDirty(client);
  }
  if (!problem.ok()) Finish(client, problem);
  if (connection.finished()) {
    if (client.finished_at == std::chrono::steady_clock::time_point()) client.finished_at = now_;
    if (now_ - client.finished_at >= kTimeToSendTheRest) Close(client);
  }
  MaybeReceive(client);  // in case it was paused
}

bool ConnectionLoop::TakeTouched(Client& client) {
  return client.connection.TakeTouched() && client.connection.has_session() &&
         !client.connection.read_only();
}

// The session of a closed connection lives for its whole timeout from the last byte received.
void ConnectionLoop::KeepTouch(Client& client) {
  if (TakeTouched(client)) touched_and_closed_.push_back(client.connection.session().value());
}

void ConnectionLoop::SendTouches() {
  if (now_ - touches_sent_ < std::chrono::milliseconds(frontend_->config().touch_period_ms()))
    return;
  touches_sent_ = now_;
  std::vector<int64_t> touched = std::exchange(touched_and_closed_, {});
  for (uint32_t tag : std::exchange(touched_, {})) {
    const auto found = clients_.find(tag);
    if (found == clients_.end() || !TakeTouched(*found->second)) continue;
    touched.push_back(found->second->connection.session().value());
  }
  if (touched.empty()) return;
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  frontend_->service().Touch(std::move(touched));
}

}  // namespace quorate::rpc::zk
