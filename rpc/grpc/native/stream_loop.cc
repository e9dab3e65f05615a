// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/stream_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rpc/grpc/native/call.h"
#include "rpc/grpc/native/contender_call.h"
#include "rpc/grpc/native/contender_stream.h"
#include "rpc/grpc/native/observe_stream.h"
#include "rpc/grpc/native/scan_stream.h"
#include "rpc/grpc/native/session_stream.h"
#include "rpc/grpc/native/watch_stream.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

// The number of timer periods in which a finished stream may send its last messages.
constexpr int kTimersToSendTheRest = 40;
// The time between corrections of the counts of ephemerals.
constexpr auto kCorrectPeriod = std::chrono::seconds(2);
// The number of watches that are dropped while the tree is locked once.
constexpr size_t kWatchesPerHold = kNodesPerHold / 4;

std::unique_ptr<Stream> MakeStream(StreamLoop* loop, uint32_t tag, Method method,
                                   std::string address) {
  switch (method) {
    case Method::kSession:
      return std::make_unique<SessionStream>(loop, tag, std::move(address));
    case Method::kScan:
      return std::make_unique<ScanStream>(loop, tag, std::move(address));
    case Method::kWatch:
      return std::make_unique<WatchStream>(loop, tag, std::move(address));
    case Method::kAcquire:
    case Method::kCampaign:
      return std::make_unique<ContenderStream>(loop, tag, std::move(address), method);
    case Method::kRelease:
    case Method::kProclaim:
    case Method::kResign:
      return std::make_unique<ContenderCall>(loop, tag, std::move(address), method);
    case Method::kObserve:
      return std::make_unique<ObserveStream>(loop, tag, std::move(address));
    default:
      return std::make_unique<Call>(loop, tag, std::move(address), method);
  }
}

}  // namespace

struct LoopStream : LoopClient<LoopStream> {
  LoopStream(std::unique_ptr<Stream> s, MemoryBudget* memory)
      : LoopClient(memory), stream(std::move(s)), held(memory, MemoryUse::kRequests) {}

  uint32_t tag() const { return stream->tag(); }
  const std::string& address() const { return stream->address(); }
  tree::SessionId session() const { return stream->session(); }
  bool finished() const { return stream->finished(); }
  bool CanContinue() const { return !finished() && stream->wants_to_continue(); }
  bool TakeTouched() { return stream->TakeTouched(); }

  std::unique_ptr<Stream> stream;
  bool half_closed = false;  // the client sends no more messages
  bool has_scanned = false;  // has read a piece of a queue in this iteration
  int timers_finished = 0;
  CountedBytes held;
};

StreamLoop::StreamLoop(NativeFrontend* frontend, Transport* transport)
    : ClientLoop(frontend, transport),
      requests_(frontend->service().requests().AddLoop(RequestKindNames())),
      stage_finder_(&frontend->service().marks()),
      reserved_(&frontend->service().memory(), MemoryUse::kReads) {}

StreamLoop::~StreamLoop() = default;

// --- From the transport --------------------------------------------------------------------------

void StreamLoop::OnWake() {
  BeginIteration();
  inbox_.OnWake();
  inbox_may_have_items_ = true;
  ScheduleIterationEnd();
}

absl::StatusOr<uint32_t> StreamLoop::Open(Method method, CallerProof proof) {
  BeginIteration();
  const std::string& address = proof.principal.address;
  if (absl::Status s = frontend_->AdmitStream(address, IsOfHeldContender(method)); !s.ok())
    return s;
  const uint32_t tag = NewTag();
  std::unique_ptr<Stream> stream = MakeStream(this, tag, method, address);
  if (absl::Status s = stream->SetProof(std::move(proof)); !s.ok()) stream->Finish(std::move(s));
  Client& client = Add(std::make_shared<Client>(std::move(stream), &frontend_->service().memory()));
  if (client.finished()) MarkDirty(client);  // ends at once, before any message
  return tag;
}

void StreamLoop::OnMessage(uint32_t tag, std::string_view bytes) {
  BeginIteration();
  Client& client = Get(tag);
  client.receiving = false;
  MarkDirty(client);
  if (!client.finished()) FinishIfBad(client, client.stream->OnMessage(bytes));
}

void StreamLoop::OnHalfClosed(uint32_t tag) {
  BeginIteration();
  Client& client = Get(tag);
  client.receiving = false;
  client.half_closed = true;
  MarkDirty(client);
  if (!client.finished()) FinishIfBad(client, client.stream->OnHalfClosed());
}

void StreamLoop::OnWritable(uint32_t tag) {
  BeginIteration();
  Client& client = Get(tag);
  client.blocked = false;
  client.stream->OnRoom();
  MarkDirty(client);
}

void StreamLoop::OnClosed(uint32_t tag) {
  BeginIteration();
  Close(Get(tag), absl::CancelledError("the client has gone"), /*at_once=*/false);
}

size_t StreamLoop::unsent_bytes() const {
  size_t bytes = 0;
  for (const std::shared_ptr<Client>& client : in_order_) bytes += client->stream->outbox().bytes();
  return bytes;
}

// --- Streams -------------------------------------------------------------------------------------

void StreamLoop::Finish(Client& client, const absl::Status& why) {
  if (client.finished()) return;
  if (client.session() != tree::kNoSession) {
    spdlog::info("ending the stream of {}, session 0x{:x}: {}", client.address(),
                 static_cast<uint64_t>(client.session().value()), std::string(why.message()));
  }
  client.stream->Finish(why);
  MarkDirty(client);
}

void StreamLoop::Flush(Client& client) {
  Stream& stream = *client.stream;
  Outbox& outbox = stream.outbox();
  while (!client.blocked && !outbox.empty()) {
    std::string& message = outbox.front();
    const size_t size = message.size();
    // The fields of Complete are true only for the last message. A finished stream did not receive
    // all items of the inbox.
    if (outbox.count() == 1 && !stream.finished()) stream.Complete(&message);
    if (transport_->Send(stream.tag(), &message)) {
      outbox.Pop();
      stream.OnRoom();
    } else {
      message.resize(size);
      client.blocked = true;
    }
  }
  client.unsent.Set(outbox.bytes());
  client.held.Set(stream.held_bytes());
  stream.tenants().SetOutstanding(stream.outstanding(), stream.held_bytes());
  if (!stream.finished() || !outbox.empty()) return;
  Close(client, stream.outcome(), /*at_once=*/false);
}

void StreamLoop::EndHeaviest() {
  const auto bytes_of = [this](const Client& client) {
    const Stream& stream = *client.stream;
    return stream.finished() ? 0
                             : stream.outbox().bytes() + stream.held_bytes() + stream.kept_bytes() +
                                   transport_->SendingBytes(stream.tag());
  };
  size_t bytes = 0;
  const std::shared_ptr<Client> heaviest = TakeHeaviest(bytes_of, &bytes);
  if (heaviest == nullptr) return;
  Close(*heaviest,
        ToStatus(v1::ERROR_CODE_TOO_SLOW,
                 "this member's memory is almost used up, and of its streams this one takes the "
                 "most"),
        /*at_once=*/true);
}

void StreamLoop::MaybeReceive(Client& client) {
  if (!client.open || client.receiving || client.half_closed || client.finished() ||
      client.stream->IsFull()) {
    return;
  }
  // Congestion comes from writes. Therefore clients that wait for no write are still read from.
  if (client.stream->waits_for_log() && frontend_->service().congested()) return;
  client.receiving = true;
  transport_->Receive(client.tag());
}

void StreamLoop::Close(Client& client, const absl::Status& outcome, bool at_once) {
  if (!client.open) return;
  client.open = false;
  KeepTouch(client);
  client.stream->CountUnanswered();
  ForgetContender(*client.stream);
  client.held.Set(0);
  if (client.stream->tenants().ephemerals() > 0) {
    LockTree();
    if (frontend_->IsServedBy(client.session(), client.tag())) {
      client.stream->tenants().KeepEphemerals(client.session(),
                                              tree().EphemeralCount(client.session()));
    }
    UnlockTree();
  }
  while (client.stream->has_watches()) {
    LockTree();
    client.stream->DropWatches(kWatchesPerHold);
    Spend(kNodesPerHold);
    UnlockTree();
  }
  transport_->Finish(client.tag(), outcome, at_once);
  Remove(client);
  // The timer does not run without streams, so that touches are sent now.
  if (in_order_.empty() && has_kept_touches()) SendTouchesNow();
}

// --- Statistics ----------------------------------------------------------------------------------

void StreamLoop::CountAnswered(const Stream& stream, const RequestRecord& request) {
  // Both times are of the loop, so that a reply costs no reading of the clock.
  const int64_t us =
      std::chrono::duration_cast<std::chrono::microseconds>(now_ - request.received).count();
  const auto kind = static_cast<size_t>(request.kind);
  requests_->operations[kind].Add(us);
  (IsWrite(request.kind) ? requests_->recent_writes : requests_->recent_reads).Add(us, now_);
  if (requests_->top.ShouldSample(now_)) Sample(stream, request);
  // Other requests were answered in the iteration in which they came, and did not wait for the tree.
  if (us == 0 && request.sequence == 0) return;
  const StageTimes stages = FindStages(request, us);
  requests_->stages.Add(stages);
  SlowRequests& slow_requests = frontend_->service().slow_requests();
  const std::string_view operation = RequestKindNames()[kind];
  if (!slow_requests.IsSlow(us) || !slow_requests.Count(operation, now_)) return;
  SlowRequest slow;
  slow.answered_ms = frontend_->clock().WallMs();
  slow.operation = operation;
  slow.session = stream.session().value();
  slow.client = stream.address();
  slow.path = request.first_path();
  slow.zxid = request.sequence == 0 ? 0 : request.zxid.value();
  slow.us = us;
  slow.stages = stages;
  slow_requests.Keep(std::move(slow));
}

void StreamLoop::Sample(const Stream& stream, const RequestRecord& request) {
  RequestSample sample;
  sample.client = stream.address();
  sample.session = stream.session().value();
  if (const tree::Identity* identity = stream.identities().first_proved()) {
    sample.scheme = identity->scheme;
    sample.id = identity->id;
  }
  sample.path = request.first_path();
  sample.operation = RequestKindNames()[static_cast<size_t>(request.kind)];
  requests_->top.Add(sample, now_);
}

StageTimes StreamLoop::FindStages(const RequestRecord& request, int64_t us) {
  if (request.sequence != 0) {
    return stage_finder_.Find(request.received, now_, request.sequence,
                              static_cast<uint64_t>(request.zxid.value()));
  }
  StageTimes stages;
  RequestStage stage = RequestStage::kQueue;
  if (request.is_in_pieces) {
    stage = RequestStage::kRead;
  } else if (!request.was_alone) {
    stage = RequestStage::kQueue;  // a wait of its own is not told from that
  } else if (request.waited_for_barrier) {
    stage = RequestStage::kBarrier;
  } else if (IsWrite(request.kind)) {
    stage = RequestStage::kCommit;  // of several commands
  }
  stages.Set(stage, us);
  return stages;
}

void StreamLoop::CountUnanswered(const RequestRecord& request) {
  SlowRequests& slow = frontend_->service().slow_requests();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now_ - request.received);
  if (slow.IsSlow(us.count())) {
    slow.CountUnanswered(RequestKindNames()[static_cast<size_t>(request.kind)]);
  }
}

// --- Iterations ----------------------------------------------------------------------------------

void StreamLoop::BeginIteration() {
  ClientLoop::BeginIteration();
  has_begun_ = true;
  stage_finder_.Forget();
}

const ServerStatus& StreamLoop::status() {
  if (!status_at_.has_value() || now_ - *status_at_ >= kTimerPeriod) {
    status_ = frontend_->service().status();
    status_at_ = now_;
  }
  return status_;
}

void StreamLoop::EndIteration() {
  // Without an input, as between the pieces of a long list, time has passed all the same.
  if (!has_begun_) BeginIteration();
  has_begun_ = false;
  iteration_end_scheduled_ = false;
  SubmitBatch();
  ContinueClients(std::exchange(inbox_may_have_items_, false));
  SubmitBatch();
  scanned_ = 0;
  const std::vector<uint32_t> scanners = std::exchange(scanners_, {});
  TakeDirty([this](Client& client) {
    Flush(client);
    if (!client.has_scanned && client.open && client.CanContinue()) MarkDirty(client);
    MaybeReceive(client);
  });
  for (const uint32_t tag : scanners) {
    Client* client = Find(tag);
    if (client == nullptr) continue;
    client->has_scanned = false;
    if (client->open && client->CanContinue()) MarkDirty(*client);
  }
}

void StreamLoop::SpendOnScan(uint32_t tag, size_t nodes) {
  Spend(nodes);
  scanned_ += nodes;
  if (!std::exchange(Get(tag).has_scanned, true)) scanners_.push_back(tag);
}

absl::Status StreamLoop::TakeContender(const ContenderKey& contender, uint32_t tag,
                                       uint64_t order) {
  ContenderStreamId& stream = contenders_[contender];
  const absl::Status superseded =
      ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, "a newer call for this contender has come");
  if (stream.order > order) return superseded;
  const ContenderStreamId before = std::exchange(stream, {tag, order});
  Client* client = before.order == 0 || before.tag == tag ? nullptr : Find(before.tag);
  if (client != nullptr) Finish(*client, superseded);
  return absl::OkStatus();
}

void StreamLoop::EndCreation(const ContenderKey& contender) {
  const auto found = contenders_.find(contender);
  Client* client = found == contenders_.end() ? nullptr : Find(found->second.tag);
  if (client != nullptr) client->stream->EndCreation();
}

void StreamLoop::ForgetContender(const Stream& stream) {
  const std::optional<ContenderKey> contender = stream.contender();
  if (!contender.has_value()) return;
  const auto found = contenders_.find(*contender);
  if (found != contenders_.end() && found->second.tag == stream.tag()) contenders_.erase(found);
}

void StreamLoop::Continue(Client& client) { FinishIfBad(client, client.stream->Continue()); }

void StreamLoop::OnBarrierDone(Client& client, uint64_t barrier) {
  client.stream->OnBarrierDone(barrier);
}

// --- Inbox ---------------------------------------------------------------------------------------

void StreamLoop::HandleItem(Item& item) {
  if (auto* result = std::get_if<tree::ApplyResult>(&item)) {
    EndReservation(*result);
    DeliverTo(result->header.proposer_tag,
              [result](Client& client) { return client.stream->OnResult(std::move(*result)); });
  } else if (auto* event = std::get_if<EventItem>(&item)) {
    DeliverTo(event->tag, [event](Client& client) {
      client.stream->OnEvent(event->number, *event->event);
      return absl::OkStatus();
    });
  } else if (auto* ephemerals = std::get_if<EphemeralsItem>(&item)) {
    DeliverTo(ephemerals->tag, [ephemerals](Client& client) {
      client.stream->OnEphemerals(ephemerals->count);
      return absl::OkStatus();
    });
  } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
    DeliverTo(attached->tag, [attached](Client& client) {
      return client.stream->OnSessionAttached(attached->attach_zxid);
    });
  } else if (auto* closed = std::get_if<SessionClosed>(&item)) {
    DeliverTo(closed->tag, [](Client& client) { return client.stream->OnSessionClosed(); });
  } else if (auto* done = std::get_if<BarrierDone>(&item)) {
    DeliverBarrier(*done);
  } else {
    // The results of writes that were skipped do not come.
    reservations_.clear();
    reserved_.Set(0);
    for (const std::shared_ptr<Client>& client : in_order_) {
      DeliverTo(client->tag(), [](Client& each) { return each.stream->OnTreeReplaced(); });
    }
  }
}

void StreamLoop::Reserve(uint32_t tag, uint64_t sequence, size_t bytes) {
  reservations_[tag].push_back({sequence, bytes});
  reserved_.Set(reserved_.bytes() + bytes);
}

void StreamLoop::EndReservation(const tree::ApplyResult& result) {
  const auto found = reservations_.find(result.header.proposer_tag);
  if (found == reservations_.end()) return;
  std::vector<Reservation>& writes = found->second;
  if (writes.front().sequence != result.client_sequence) return;
  reserved_.Set(reserved_.bytes() - writes.front().bytes);
  writes.erase(writes.begin());
  if (writes.empty()) reservations_.erase(found);
}

// --- Periodic work -------------------------------------------------------------------------------

void StreamLoop::OnTimer() {
  BeginIteration();
  requests_->stages.Tick(now_);
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
    MaybeReceive(*client);  // receiving may have been paused
  }
  EndHeaviest();
  if (now_ - ephemerals_corrected_ >= kCorrectPeriod) {
    ephemerals_corrected_ = now_;
    for (const std::shared_ptr<Client>& client : clients) {
      if (!client->open || client->stream->tenants().ephemerals() == 0) continue;
      LockTree();
      if (client->open) client->stream->CorrectEphemerals();
      Spend(1);
    }
    UnlockTree();
  }
  SendTouches();
}

// Messages of the client wait in gRPC, which does not tell how many bytes wait. A client that does
// not read delays its own messages, and therefore does not count as held up.
bool StreamLoop::IsHeldUp(const Client& client) {
  return client.session() != tree::kNoSession && !client.receiving && !client.half_closed &&
         !client.blocked && !client.finished();
}

void StreamLoop::AddTouched(std::vector<int64_t>* sessions) {
  for (const std::shared_ptr<Client>& client : in_order_) {
    if (client->TakeTouched() || IsHeldUp(*client)) sessions->push_back(client->session().value());
  }
}

}  // namespace quorate::rpc::native
