#include "rpc/grpc/native/stream_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rpc/grpc/native/call.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/watch_stream.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

// Only a stream that takes more bytes than this may be ended when memory is low.
constexpr size_t kHeavyBytes = 5u << 19;
// How many timers a finished stream has to send its last messages.
constexpr int kTimersToSendTheRest = 40;
// Watches that are dropped in one hold of the tree's lock.
constexpr size_t kWatchesPerHold = kNodesPerHold / 4;

std::unique_ptr<Stream> MakeStream(StreamLoop* loop, uint32_t tag, Method method,
                                   std::string address) {
  switch (method) {
    case Method::kSession:
      return std::make_unique<SessionStream>(loop, tag, std::move(address));
    case Method::kWatch:
      return std::make_unique<WatchStream>(loop, tag, std::move(address));
    default:
      return std::make_unique<Call>(loop, tag, std::move(address), method);
  }
}

}  // namespace

struct StreamLoop::Client {
  std::unique_ptr<Stream> stream;
  std::list<std::shared_ptr<Client>>::iterator in_order;
  bool open = true;
  bool receiving = true;     // Transport::Receive was called, and no message came since
  bool half_closed = false;  // nothing more will come
  bool blocked = false;      // waits for OnWritable
  bool dirty = false;        // in dirty_
  int timers_finished = 0;
  size_t unsent_counted = 0;  // in the memory budget
  size_t held_counted = 0;    // in the memory budget
};

StreamLoop::StreamLoop(NativeFrontend* frontend, Transport* transport)
    : frontend_(frontend),
      transport_(transport),
      clock_(&frontend->clock()),
      number_(frontend->AddLoop(this)) {
  BeginIteration();
  touches_sent_ = now_;
}

StreamLoop::~StreamLoop() = default;

// --- From other threads --------------------------------------------------------------------------

void StreamLoop::Push(Item item) { inbox_.Push(std::move(item)); }

void StreamLoop::Wake() {
  if (inbox_.WantsWake()) transport_->Wake();
}

void StreamLoop::OnWake() {
  BeginIteration();
  inbox_.OnWake();
  inbox_may_have_items_ = true;
  ScheduleIterationEnd();
}

// --- From the transport --------------------------------------------------------------------------

StreamLoop::Client* StreamLoop::Find(uint32_t tag) {
  const auto it = clients_.find(tag);
  return it == clients_.end() ? nullptr : it->second.get();
}

absl::StatusOr<uint32_t> StreamLoop::Open(Method method, std::string address) {
  BeginIteration();
  if (absl::Status s = frontend_->Admit(address); !s.ok()) return s;
  // After very many calls tags repeat, and a session may still have the same tag.
  uint32_t tag = frontend_->NewTag(number_);
  while (Find(tag) != nullptr) tag = frontend_->NewTag(number_);
  auto client = std::make_shared<Client>();
  client->stream = MakeStream(this, tag, method, std::move(address));
  client->in_order = in_order_.insert(in_order_.end(), client);
  clients_[tag] = std::move(client);
  return tag;
}

void StreamLoop::OnMessage(uint32_t tag, std::string_view bytes) {
  BeginIteration();
  Client* client = Find(tag);
  ASSERT(client != nullptr, "a stream is known until Transport::Finish");
  client->receiving = false;
  MarkDirty(*client);
  if (!client->stream->finished()) FinishIfBad(*client, client->stream->OnMessage(bytes));
}

void StreamLoop::OnHalfClosed(uint32_t tag) {
  BeginIteration();
  Client* client = Find(tag);
  ASSERT(client != nullptr);
  client->receiving = false;
  client->half_closed = true;
  MarkDirty(*client);
  if (!client->stream->finished()) FinishIfBad(*client, client->stream->OnHalfClosed());
}

void StreamLoop::OnWritable(uint32_t tag) {
  BeginIteration();
  Client* client = Find(tag);
  ASSERT(client != nullptr);
  client->blocked = false;
  client->stream->OnRoom();
  MarkDirty(*client);
}

void StreamLoop::OnClosed(uint32_t tag) {
  BeginIteration();
  Client* client = Find(tag);
  ASSERT(client != nullptr);
  Close(*client, absl::CancelledError("the client has gone"), /*at_once=*/false);
}

size_t StreamLoop::unsent_bytes() const {
  size_t bytes = 0;
  for (const std::shared_ptr<Client>& client : in_order_) bytes += client->stream->outbox().bytes();
  return bytes;
}

// --- Streams -------------------------------------------------------------------------------------

void StreamLoop::FinishIfBad(Client& client, const absl::Status& status) {
  if (status.ok() || client.stream->finished()) return;
  if (client.stream->session() != tree::kNoSession) {
    spdlog::info("ending the stream of {}, session 0x{:x}: {}", client.stream->address(),
                 client.stream->session().value(), std::string(status.message()));
  }
  client.stream->Finish(status);
  MarkDirty(client);
}

void StreamLoop::Flush(Client& client) {
  Stream& stream = *client.stream;
  Outbox& outbox = stream.outbox();
  while (!client.blocked && !outbox.empty()) {
    std::string& message = outbox.front();
    const size_t size = message.size();
    // The fields of Complete are true only for the last message. A finished stream did not receive
    // all items.
    if (outbox.count() == 1 && !stream.finished()) stream.Complete(&message);
    if (transport_->Send(stream.tag(), &message)) {
      outbox.Pop();
      stream.OnRoom();
    } else {
      message.resize(size);
      client.blocked = true;
    }
  }
  CountMemory(client);
  if (!stream.finished() || !outbox.empty()) return;
  Close(client, stream.outcome(), /*at_once=*/false);
}

void StreamLoop::CountMemory(Client& client) {
  CountMemory(client, client.stream->outbox().bytes(), client.stream->held_bytes());
}

void StreamLoop::CountMemory(Client& client, size_t unsent, size_t held) {
  MemoryBudget& memory = frontend_->service().memory();
  const auto count = [&memory](MemoryUse use, size_t bytes, size_t* counted) {
    if (bytes == *counted) return;
    memory.Add(use, static_cast<int64_t>(bytes) - static_cast<int64_t>(*counted));
    *counted = bytes;
  };
  count(MemoryUse::kUnsent, unsent, &client.unsent_counted);
  count(MemoryUse::kRequests, held, &client.held_counted);
}

// Ends at most one stream per measurement of memory, as the next measurement shows the effect.
void StreamLoop::EndHeaviest() {
  MemoryBudget& memory = frontend_->service().memory();
  const uint64_t measurements = memory.measurements();
  if (!memory.clients_exceed() || std::exchange(measurement_seen_, measurements) == measurements) {
    return;
  }
  Client* heaviest = nullptr;
  size_t most = kHeavyBytes;
  for (const std::shared_ptr<Client>& client : in_order_) {
    const Stream& stream = *client->stream;
    const size_t bytes = stream.outbox().bytes() + stream.held_bytes() + stream.kept_bytes() +
                         transport_->SendingBytes(stream.tag());
    if (bytes <= most || client->stream->finished()) continue;
    most = bytes;
    heaviest = client.get();
  }
  if (heaviest == nullptr) return;
  memory.CountClosed();
  Close(*heaviest,
        ToStatus(v1::TOO_SLOW,
                 "this member's memory is almost used up, and of its streams this one takes the "
                 "most"),
        /*at_once=*/true);
}

void StreamLoop::MaybeReceive(Client& client) {
  if (!client.open || client.receiving || client.half_closed || client.stream->finished() ||
      client.stream->IsFull()) {
    return;
  }
  // Congestion comes from writes: clients that wait for no writes are still read from.
  if (client.stream->waits_for_log() && frontend_->service().congested()) return;
  client.receiving = true;
  transport_->Receive(client.stream->tag());
}

void StreamLoop::Close(Client& client, const absl::Status& outcome, bool at_once) {
  if (!client.open) return;
  client.open = false;
  const uint32_t tag = client.stream->tag();
  // The session lives for its whole timeout from the last message received.
  if (client.stream->TakeTouched()) {
    touched_and_ended_.push_back(client.stream->session().value());
  }
  CountMemory(client, 0, 0);
  while (client.stream->has_watches()) {
    LockTree();
    client.stream->DropWatches(kWatchesPerHold);
    Spend(kNodesPerHold);
    UnlockTree();
  }
  if (client.stream->session() != tree::kNoSession) {
    frontend_->ForgetSession(client.stream->session(), tag);
  }
  frontend_->Release(client.stream->address());
  transport_->Finish(tag, outcome, at_once);
  in_order_.erase(client.in_order);
  clients_.erase(tag);
  // The timer does not run without streams.
  if (in_order_.empty() && !touched_and_ended_.empty()) SendTouchesNow();
}

// --- Iterations ----------------------------------------------------------------------------------

void StreamLoop::BeginIteration() {
  now_ = clock_->Now();
  last_iteration_.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
}

const ServerStatus& StreamLoop::status() {
  if (!status_at_.has_value() || now_ - *status_at_ >= kTimerPeriod) {
    status_ = frontend_->service().status();
    status_at_ = now_;
  }
  return status_;
}

void StreamLoop::MarkDirty(Client& client) {
  if (client.dirty || !client.open) return;
  client.dirty = true;
  dirty_.push_back(*client.in_order);
  ScheduleIterationEnd();
}

void StreamLoop::ScheduleIterationEnd() {
  if (iteration_end_scheduled_) return;
  iteration_end_scheduled_ = true;
  transport_->EndIterationSoon();
}

void StreamLoop::SubmitBatch() {
  if (!batch_.empty()) {
    const size_t bytes = batch_.bytes->size();
    frontend_->service().Submit(std::exchange(batch_, CommandBatch{}));
    batch_.bytes->reserve(bytes);
  }
  if (std::exchange(barrier_wanted_, false)) {
    frontend_->service().Sync(frontend_->TagOfLoop(number_), next_barrier_++);
  }
}

void StreamLoop::EndIteration() {
  iteration_end_scheduled_ = false;
  SubmitBatch();
  const auto wants_to_continue = [](const std::shared_ptr<Client>& client) {
    return client->open && !client->stream->finished() && client->stream->wants_to_continue();
  };
  if (std::exchange(inbox_may_have_items_, false) ||
      std::any_of(dirty_.begin(), dirty_.end(), wants_to_continue)) {
    LockTree();  // may add to dirty_
    for (size_t i = 0; i < dirty_.size(); ++i) {
      if (spent_ >= kNodesPerHold) UnlockTree();
      // LockTree may deliver that the tree was replaced, after which a stream does not continue.
      LockTree();
      if (!wants_to_continue(dirty_[i])) continue;
      FinishIfBad(*dirty_[i], dirty_[i]->stream->Continue());
    }
    UnlockTree();
    SubmitBatch();
  }
  std::vector<std::shared_ptr<Client>> dirty;
  dirty.swap(dirty_);
  // Reset all of them first: closing one of them drains the inbox, which may mark any other dirty.
  for (const std::shared_ptr<Client>& client : dirty) client->dirty = false;
  for (const std::shared_ptr<Client>& client : dirty) {
    if (!client->open) continue;
    Flush(*client);
    if (wants_to_continue(client)) MarkDirty(*client);
    MaybeReceive(*client);
  }
}

bool StreamLoop::AddedCommand(size_t offset) {
  const size_t size = batch_.bytes->size() - offset;
  if (size > kCommandBytesMax) {
    batch_.bytes->resize(offset);
    return false;
  }
  batch_.commands.push_back({offset, size});
  ScheduleIterationEnd();
  return true;
}

uint64_t StreamLoop::AddBarrier(uint32_t tag) {
  std::vector<uint32_t>& waiting = barriers_[next_barrier_];
  if (waiting.empty() || waiting.back() != tag) waiting.push_back(tag);
  barrier_wanted_ = true;
  ScheduleIterationEnd();
  return next_barrier_;
}

const tree::Tree& StreamLoop::tree() const {
  ASSERT(tree_.has_value(), "whoever reads has locked the tree");
  return **tree_;
}

void StreamLoop::LockTree() {
  if (tree_.has_value()) return;
  tree_.emplace(frontend_->service().ReadTree());
  DrainInbox();
  seen_zxid_ = tree().last_zxid();
}

void StreamLoop::UnlockTree() {
  tree_.reset();
  spent_ = 0;
}

// --- Inbox ---------------------------------------------------------------------------------------

void StreamLoop::DrainInbox() {
  ASSERT(draining_.empty());
  if (!inbox_.Take(&draining_)) return;
  for (Item& item : draining_) HandleItem(item);
  draining_.clear();
}

void StreamLoop::HandleItem(Item& item) {
  // A stream that is about to end gets nothing more: it may have missed earlier items.
  const auto tell = [this](uint32_t tag, auto function) {
    Client* client = Find(tag);
    if (client == nullptr || !client->open || client->stream->finished()) return;
    MarkDirty(*client);
    FinishIfBad(*client, function(*client->stream));
  };
  if (auto* result = std::get_if<tree::ApplyResult>(&item)) {
    tell(result->header.proposer_tag,
         [&](Stream& stream) { return stream.OnResult(std::move(*result)); });
  } else if (auto* event = std::get_if<EventItem>(&item)) {
    tell(event->tag, [&](Stream& stream) {
      stream.OnEvent(event->number, *event->event);
      return absl::OkStatus();
    });
  } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
    tell(attached->tag,
         [&](Stream& stream) { return stream.OnSessionAttached(attached->attach_zxid); });
  } else if (auto* closed = std::get_if<SessionClosed>(&item)) {
    tell(closed->tag, [](Stream& stream) { return stream.OnSessionClosed(); });
  } else if (auto* done = std::get_if<BarrierDone>(&item)) {
    // A barrier that is done implies that all earlier ones are done.
    while (!barriers_.empty() && barriers_.begin()->first <= done->barrier) {
      const auto [barrier, tags] = *barriers_.begin();
      barriers_.erase(barriers_.begin());
      for (uint32_t tag : tags) {
        tell(tag, [number = barrier](Stream& stream) {
          stream.OnBarrierDone(number);
          return absl::OkStatus();
        });
      }
    }
  } else {
    for (const std::shared_ptr<Client>& client : in_order_) {
      tell(client->stream->tag(), [](Stream& stream) { return stream.OnTreeReplaced(); });
    }
  }
}

// --- From time to time ---------------------------------------------------------------------------

void StreamLoop::OnTimer() {
  BeginIteration();
  const int64_t leader_contact_age_ms = status().leader_contact_age_ms;
  const std::vector<std::shared_ptr<Client>> clients(in_order_.begin(), in_order_.end());
  for (const std::shared_ptr<Client>& client : clients) {
    Stream& stream = *client->stream;
    if (!stream.finished()) {
      FinishIfBad(*client, stream.CheckTime(now_, leader_contact_age_ms));
      if (stream.wants_to_continue()) MarkDirty(*client);
    } else if (client->open && ++client->timers_finished > kTimersToSendTheRest) {
      Close(*client, stream.outcome(), /*at_once=*/true);
    }
    MaybeReceive(*client);  // in case it was paused
  }
  EndHeaviest();
  SendTouches();
}

// The client's messages wait in gRPC, which does not tell how many bytes wait. A client that does
// not read delays its own messages and does not count as held up.
bool StreamLoop::IsHeldUp(const Client& client) {
  return client.stream->session() != tree::kNoSession && !client.receiving && !client.half_closed &&
         !client.blocked && !client.stream->finished();
}

void StreamLoop::SendTouches() {
  if (now_ - touches_sent_ < std::chrono::milliseconds(frontend_->config().touch_period_ms()))
    return;
  SendTouchesNow();
}

void StreamLoop::SendTouchesNow() {
  touches_sent_ = now_;
  std::vector<int64_t> touched = std::exchange(touched_and_ended_, {});
  for (const std::shared_ptr<Client>& client : in_order_) {
    if (client->stream->TakeTouched() || IsHeldUp(*client)) {
      touched.push_back(client->stream->session().value());
    }
  }
  if (touched.empty()) return;
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  frontend_->service().Touch(std::move(touched));
}

}  // namespace quorate::rpc::native
