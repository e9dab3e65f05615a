#include "consensus/runtime/node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {
namespace {

using Clock = std::chrono::steady_clock;

// After a pause of the process the ticks that were missed are not made up: a member that slept has
// learnt nothing about the others, and must not time out on the strength of its own sleep.
constexpr int kTicksAtOnceMax = 2;
// Entries read from the log for apply at once.
constexpr size_t kApplyReadBytes = 4u << 20;

}  // namespace

template <class T>
void Node::BatchQueue<T>::Push(T item) {
  bool wake;
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    items_.push_back(std::move(item));
    wake = waiting_;
    waiting_ = false;
  }
  if (wake) changed_.notify_one();
}

template <class T>
bool Node::BatchQueue<T>::TakeAll(std::vector<T>* items, const Clock::time_point* deadline) {
  items->clear();
  std::unique_lock<std::mutex> lock(mutex_.native());
  while (items_.empty() && !closed_) {
    waiting_ = true;
    if (deadline == nullptr) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, *deadline) == std::cv_status::timeout) {
      break;
    }
  }
  waiting_ = false;
  items->swap(items_);
  return !closed_ || !items->empty();
}

template <class T>
std::vector<T> Node::BatchQueue<T>::TakeQueued() {
  MutexLock lock(&mutex_);
  return std::exchange(items_, {});
}

template <class T>
bool Node::BatchQueue<T>::HasItems() const {
  MutexLock lock(&mutex_);
  return !items_.empty();
}

template <class T>
void Node::BatchQueue<T>::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.notify_all();
}

Node::Node(NodeOptions options, DataDir* data_dir, RandomSource* random,
           StateMachine* state_machine, PeerTransport* transport, NodeObserver* observer)
    : options_(std::move(options)),
      data_dir_(data_dir),
      state_machine_(state_machine),
      transport_(transport),
      observer_(observer),
      raft_(std::make_unique<Raft>(options_.raft, data_dir->initial_state(), random)) {
  ASSERT(options_.tick_ms > 0);
}

Node::~Node() { Stop(); }

void Node::Start() {
  ASSERT(threads_.empty(), "started once");
  threads_.emplace_back([this] { RunQueue(&log_batches_, &Node::HandleLog); });
  threads_.emplace_back([this] { RunQueue(&apply_ranges_, &Node::HandleApply); });
  threads_.emplace_back([this] { RunQueue(&log_reads_, &Node::HandleReads); });
  threads_.emplace_back([this] { RunNode(); });
}

void Node::Stop() {
  events_.Close();
  log_batches_.Close();
  apply_ranges_.Close();
  log_reads_.Close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Node::Deliver(std::vector<Message> messages) { events_.Push(std::move(messages)); }
void Node::Post(std::function<void()> task) { events_.Push(std::move(task)); }
void Node::PeerUnreachable(MemberId member) { events_.Push(Unreachable{member}); }

void Node::RunNode() {
  const auto tick = std::chrono::milliseconds(options_.tick_ms);
  Clock::time_point next_tick = Clock::now() + tick;
  std::vector<Event> events;
  while (events_.TakeAll(&events, &next_tick)) {
    for (Event& event : events) Handle(std::move(event));
    const Clock::time_point now = Clock::now();
    for (int ticks = 0; next_tick <= now; next_tick += tick) {
      if (++ticks > kTicksAtOnceMax) {
        next_tick = now + tick;
        break;
      }
      Tick();
    }
    DispatchOutputs();
  }
}

void Node::Tick() {
  raft_->Tick();
  observer_->OnTick();
}

template <class T>
void Node::RunQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches)) {
  std::vector<T> batches;
  while (queue->TakeAll(&batches, nullptr)) {
    if (absl::Status status = (this->*handle)(batches); !status.ok()) {
      observer_->OnFatal(status);
      return;
    }
  }
}

// --- Without threads -----------------------------------------------------------------------------

bool Node::HasWork(Work work) const {
  if (failed_) return false;
  switch (work) {
    case Work::kNode:
      return events_.HasItems() || raft_->HasOutput();
    case Work::kLog:
      return log_batches_.HasItems();
    case Work::kApply:
      return apply_ranges_.HasItems();
    case Work::kRead:
      return log_reads_.HasItems();
  }
  return false;
}

void Node::Step(Work work) {
  ASSERT(threads_.empty(), "either threads or steps");
  if (failed_) return;
  switch (work) {
    case Work::kNode:
      for (Event& event : events_.TakeQueued()) Handle(std::move(event));
      DispatchOutputs();
      return;
    case Work::kLog:
      return StepQueue(&log_batches_, &Node::HandleLog);
    case Work::kApply:
      return StepQueue(&apply_ranges_, &Node::HandleApply);
    case Work::kRead:
      return StepQueue(&log_reads_, &Node::HandleReads);
  }
}

template <class T>
void Node::StepQueue(BatchQueue<T>* queue, absl::Status (Node::*handle)(std::vector<T>& batches)) {
  std::vector<T> batches = queue->TakeQueued();
  if (batches.empty()) return;
  if (absl::Status status = (this->*handle)(batches); !status.ok()) {
    failed_ = true;
    observer_->OnFatal(status);
  }
}

void Node::TickNow() {
  ASSERT(threads_.empty(), "either threads or steps");
  if (failed_) return;
  Tick();
  DispatchOutputs();
}

// --- The work ------------------------------------------------------------------------------------

void Node::Handle(Event event) {
  if (auto* messages = std::get_if<std::vector<Message>>(&event)) {
    for (Message& message : *messages) raft_->Step(std::move(message));
  } else if (auto* task = std::get_if<std::function<void()>>(&event)) {
    (*task)();
  } else if (auto* persisted = std::get_if<Persisted>(&event)) {
    raft_->Persisted(persisted->id);
  } else if (auto* applied = std::get_if<Applied>(&event)) {
    raft_->Applied(applied->index);
    observer_->OnApplied(applied->index);
  } else if (auto* unreachable = std::get_if<Unreachable>(&event)) {
    raft_->PeerUnreachable(unreachable->member);
  } else {
    auto& read = std::get<LogReadDone>(event);
    raft_->LogRead(read.follower, std::move(read.entries));
  }
}

void Node::DispatchOutputs() {
  while (raft_->HasOutput()) Dispatch(raft_->TakeOutput());
}

void Node::Dispatch(Output output) {
  if (!output.messages_now.empty()) transport_->Send(std::move(output.messages_now));
  std::optional<ApplyRange> apply = std::move(output.apply);
  const bool first_entry = apply.has_value() && apply->first == Index{1};
  for (LogReadRequest& read : output.log_reads) log_reads_.Push(read);
  if (output.status.has_value()) observer_->OnStatus(*output.status);
  if (!output.reads.empty()) observer_->OnReads(output.reads);
  if (output.persist_id.has_value() || first_entry) {
    log_batches_.Push(LogBatch{std::move(output), first_entry});
  }
  if (apply.has_value()) apply_ranges_.Push(*std::move(apply));
}

absl::Status Node::HandleLog(std::vector<LogBatch>& batches) {
  if (absl::Status status = Persist(batches); !status.ok()) return status;
  std::vector<Message> messages;
  std::optional<PersistId> persisted;
  for (LogBatch& batch : batches) {
    auto& waiting = batch.output.messages_after_persist;
    if (messages.empty()) {
      messages = std::move(waiting);
    } else {
      for (Message& message : waiting) messages.push_back(std::move(message));
    }
    if (batch.output.persist_id.has_value()) persisted = batch.output.persist_id;
  }
  if (!messages.empty()) transport_->Send(std::move(messages));
  if (persisted.has_value()) events_.Push(Persisted{*persisted});
  return absl::OkStatus();
}

absl::Status Node::Persist(std::vector<LogBatch>& batches) {
  // The newest term and vote go first: a log that knows a term its hard state does not is worse
  // than a promise without entries. The durable mark is lowered before entries below it are cut, or
  // else they would look lost after a crash in between.
  SegmentLog& log = data_dir_->log();
  HardState hard_state = data_dir_->hard_state();
  Index durable = log.last_index();
  bool changed = false;
  for (const LogBatch& batch : batches) {
    if (batch.output.hard_state.has_value()) {
      hard_state = *batch.output.hard_state;
      changed = true;
    }
    if (batch.output.truncate_after.has_value()) {
      durable = std::min(durable, *batch.output.truncate_after);
      changed = true;
    }
  }
  if (changed) {
    if (absl::Status s = data_dir_->WriteHardState(hard_state, durable); !s.ok()) return s;
  }
  bool wrote = false;
  bool bind_cluster_id = false;
  for (LogBatch& batch : batches) {
    bind_cluster_id |= batch.bind_cluster_id;
    if (batch.output.truncate_after.has_value()) {
      if (absl::Status s = log.TruncateAfter(*batch.output.truncate_after); !s.ok()) return s;
      wrote = true;
    }
    if (!batch.output.entries.empty()) {
      if (absl::Status s = log.Append(batch.output.entries); !s.ok()) return s;
      wrote = true;
    }
  }
  if (wrote) {
    if (absl::Status s = log.Sync(); !s.ok()) return s;
  }
  return bind_cluster_id ? BindClusterId() : absl::OkStatus();
}

absl::Status Node::BindClusterId() {
  if (!data_dir_->cluster_id().empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<Entry>> first = data_dir_->log().Read(Index{1}, Index{1}, 1);
  if (!first.ok()) return first.status();
  ASSERT(first->front().kind == EntryKind::kNoOp, "a leader's no-op opens the log");
  const std::string cluster_id(first->front().payload.view());
  if (absl::Status s = data_dir_->SetClusterId(cluster_id); !s.ok()) return s;
  observer_->OnClusterId(cluster_id);
  return absl::OkStatus();
}

absl::Status Node::HandleApply(std::vector<ApplyRange>& ranges) {
  for (const ApplyRange& range : ranges) {
    if (absl::Status status = ApplyOne(range); !status.ok()) return status;
    events_.Push(Applied{range.last});
  }
  return absl::OkStatus();
}

absl::Status Node::ApplyOne(const ApplyRange& range) {
  if (!range.entries.empty()) {
    state_machine_->Apply(range.entries);
    return absl::OkStatus();
  }
  for (Index next = range.first; next <= range.last;) {
    absl::StatusOr<std::vector<Entry>> entries =
        data_dir_->log().Read(next, range.last, kApplyReadBytes);
    if (!entries.ok()) return entries.status();
    ASSERT(entries->front().index == next);
    state_machine_->Apply(*entries);
    next = entries->back().index + 1;
  }
  return absl::OkStatus();
}

absl::Status Node::HandleReads(std::vector<LogReadRequest>& requests) {
  for (const LogReadRequest& request : requests) {
    absl::StatusOr<std::vector<Entry>> entries =
        data_dir_->log().Read(request.first, request.last, request.bytes_max);
    // Entries that were truncated meanwhile are no longer wanted either; damage is.
    if (absl::IsOutOfRange(entries.status())) continue;
    if (!entries.ok()) return entries.status();
    events_.Push(LogReadDone{request.follower, *std::move(entries)});
  }
  return absl::OkStatus();
}

}  // namespace quorate::consensus
