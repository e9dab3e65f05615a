#include "consensus/runtime/node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "base/planted_fault.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {
namespace {

using Clock = std::chrono::steady_clock;

// After a pause of the process the ticks that were missed are not made up: a member that slept has
// learnt nothing about the others, and must not time out on the strength of its own sleep.
constexpr int kTicksAtOnceMax = 2;
// Entries read from the log for apply at once.
constexpr size_t kApplyReadBytes = 4u << 20;

std::optional<SnapshotMeta> NewestCheckpoint(const CheckpointStore* checkpoints) {
  return checkpoints == nullptr ? std::nullopt : checkpoints->newest();
}

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

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
           StateMachine* state_machine, CheckpointStore* checkpoints, PeerTransport* transport,
           NodeObserver* observer)
    : options_(std::move(options)),
      data_dir_(data_dir),
      state_machine_(state_machine),
      checkpoints_(checkpoints),
      transport_(transport),
      observer_(observer),
      raft_(std::make_unique<Raft>(
          options_.raft, data_dir->initial_state(NewestCheckpoint(checkpoints)), random)) {
  ASSERT(options_.tick_ms > 0);
  log_durable_ = data_dir_->log().last_index();
  if (std::optional<SnapshotMeta> newest = NewestCheckpoint(checkpoints)) {
    applied_ = *std::move(newest);
  } else {
    applied_.membership = options_.raft.membership;
  }
}

Node::~Node() { Stop(); }

void Node::Start() {
  ASSERT(threads_.empty(), "started once");
  threads_.emplace_back([this] { RunQueue(&log_work_, &Node::HandleLog); });
  threads_.emplace_back([this] { RunQueue(&apply_work_, &Node::HandleApply); });
  threads_.emplace_back([this] { RunQueue(&read_work_, &Node::HandleReads); });
  threads_.emplace_back([this] { RunQueue(&checkpoint_work_, &Node::HandleCheckpoints); });
  threads_.emplace_back([this] { RunNode(); });
}

void Node::Stop() {
  events_.Close();
  log_work_.Close();
  apply_work_.Close();
  read_work_.Close();
  checkpoint_work_.Close();
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
      return log_work_.HasItems();
    case Work::kApply:
      return apply_work_.HasItems();
    case Work::kRead:
      return read_work_.HasItems();
    case Work::kCheckpoint:
      return checkpoint_work_.HasItems();
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
      return StepQueue(&log_work_, &Node::HandleLog);
    case Work::kApply:
      return StepQueue(&apply_work_, &Node::HandleApply);
    case Work::kRead:
      return StepQueue(&read_work_, &Node::HandleReads);
    case Work::kCheckpoint:
      return StepQueue(&checkpoint_work_, &Node::HandleCheckpoints);
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
  std::visit(
      Overloaded{
          [this](std::vector<Message>& messages) {
            for (Message& message : messages) raft_->Step(std::move(message));
          },
          [](std::function<void()>& task) { task(); },
          [this](const Persisted& done) { raft_->Persisted(done.id); },
          [this](const Applied& done) {
            raft_->Applied(done.index);
            observer_->OnApplied(done.index);
          },
          [this](const Unreachable& peer) { raft_->PeerUnreachable(peer.member); },
          [this](LogReadDone& done) { raft_->LogRead(done.follower, std::move(done.entries)); },
          [this](SnapshotReadDone& done) {
            if (!done.chunk.has_value()) return raft_->SnapshotReadFailed(done.follower);
            SnapshotChunkData& chunk = *done.chunk;
            raft_->SnapshotRead(done.follower, std::move(chunk.meta), chunk.offset,
                                std::move(chunk.bytes), chunk.last);
          },
          [this](const SnapshotWritten& done) {
            raft_->SnapshotWritten(done.index, done.next_offset);
          },
          [this](const SnapshotInstalled& done) {
            raft_->SnapshotInstalled(done.index);
            observer_->OnApplied(done.index);
          },
          [this](const Checkpointed& done) { raft_->Checkpointed(done.index); },
      },
      event);
}

void Node::DispatchOutputs() {
  while (raft_->HasOutput()) Dispatch(raft_->TakeOutput());
}

void Node::Dispatch(Output output) {
  if (!output.messages_now.empty()) transport_->Send(std::move(output.messages_now));
  std::optional<ApplyRange> apply = std::move(output.apply);
  std::optional<SnapshotMeta> install = std::move(output.install);
  const std::optional<Index> compact_to = output.compact_to;
  const bool first_entry = apply.has_value() && apply->first == Index{1};
  for (const LogReadRequest& read : output.log_reads) read_work_.Push(read);
  for (const SnapshotReadRequest& read : output.snapshot_reads) read_work_.Push(read);
  if (output.snapshot_write.has_value()) {
    checkpoint_work_.Push(*std::exchange(output.snapshot_write, std::nullopt));
  }
  if (output.membership.has_value()) observer_->OnMembership(*output.membership);
  if (output.status.has_value()) observer_->OnStatus(*output.status);
  if (!output.reads.empty()) observer_->OnReads(output.reads);
  if (output.persist_id.has_value() || first_entry) {
    log_work_.Push(LogBatch{std::move(output), first_entry});
  }
  if (compact_to.has_value()) log_work_.Push(LogCompaction{*compact_to});
  if (apply.has_value()) apply_work_.Push(*std::move(apply));
  // By way of the log thread, so that all batches before it are durable; then after all ranges
  // before it are applied.
  if (install.has_value()) log_work_.Push(LogReset{*std::move(install)});
}

// --- The log thread ------------------------------------------------------------------------------

absl::Status Node::HandleLog(std::vector<LogWork>& work) {
  std::vector<LogBatch> batches;  // that one sync makes durable
  for (LogWork& item : work) {
    if (auto* batch = std::get_if<LogBatch>(&item)) {
      // What was promised before a cut has to have been durable once.
      if (batch->output.truncate_after.has_value()) {
        if (absl::Status status = PersistAndSend(batches); !status.ok()) return status;
        batches.clear();
      }
      batches.push_back(std::move(*batch));
      continue;
    }
    if (absl::Status status = PersistAndSend(batches); !status.ok()) return status;
    batches.clear();
    absl::Status status;
    if (const auto* compaction = std::get_if<LogCompaction>(&item)) {
      status = data_dir_->log().CompactTo(compaction->to);
    } else {
      status = Reset(std::get<LogReset>(item));
    }
    if (!status.ok()) return status;
  }
  return PersistAndSend(batches);
}

absl::Status Node::PersistAndSend(std::vector<LogBatch>& batches) {
  if (batches.empty()) return absl::OkStatus();
  if (absl::Status status = Persist(batches); !status.ok()) return status;
  log_durable_.store(data_dir_->log().last_index(), std::memory_order_release);
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

absl::Status Node::Reset(const LogReset& reset) {
  if (!reset.installed) {
    apply_work_.Push(reset.meta);
    return absl::OkStatus();
  }
  // A crash before this finds a checkpoint that the log does not contain, and does the same.
  if (absl::Status s = data_dir_->AlignLog(reset.meta.index, reset.meta.term); !s.ok()) return s;
  log_durable_.store(data_dir_->log().last_index(), std::memory_order_release);
  // A log that begins behind a snapshot does not have the entry that says it.
  if (absl::Status s = BindClusterId(reset.meta.cluster_id); !s.ok()) return s;
  events_.Push(SnapshotInstalled{reset.meta.index});
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
  if (changed && !PlantedFault("vote not persisted")) {
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
  if (wrote && !PlantedFault("acknowledged before the sync")) {
    if (absl::Status s = log.Sync(); !s.ok()) return s;
  }
  return bind_cluster_id ? BindToFirstEntry() : absl::OkStatus();
}

absl::Status Node::BindToFirstEntry() {
  absl::StatusOr<std::vector<Entry>> first = data_dir_->log().Read(Index{1}, Index{1}, 1);
  if (!first.ok()) return first.status();
  ASSERT(first->front().kind == EntryKind::kNoOp, "a leader's no-op opens the log");
  return BindClusterId(std::string(first->front().payload.view()));
}

absl::Status Node::BindClusterId(const std::string& cluster_id) {
  const bool is_new = data_dir_->cluster_id().empty();
  if (absl::Status s = data_dir_->SetClusterId(cluster_id); !s.ok()) return s;
  if (is_new) observer_->OnClusterId(cluster_id);
  return absl::OkStatus();
}

// --- The apply thread ----------------------------------------------------------------------------

absl::Status Node::HandleApply(std::vector<ApplyWork>& work) {
  for (const ApplyWork& item : work) {
    if (const auto* range = std::get_if<ApplyRange>(&item)) {
      if (absl::Status status = Apply(*range); !status.ok()) return status;
      BeginPictureIfDue();
      events_.Push(Applied{range->last});
    } else if (absl::Status status = Install(std::get<SnapshotMeta>(item)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Node::Apply(const ApplyRange& range) {
  if (!range.entries.empty()) {
    ApplyEntries(range.entries);
    return absl::OkStatus();
  }
  for (Index next = range.first; next <= range.last;) {
    absl::StatusOr<std::vector<Entry>> entries =
        data_dir_->log().Read(next, range.last, kApplyReadBytes);
    if (!entries.ok()) return entries.status();
    ASSERT(entries->front().index == next);
    ApplyEntries(*entries);
    next = entries->back().index + 1;
  }
  return absl::OkStatus();
}

void Node::ApplyEntries(const std::vector<Entry>& entries) {
  ASSERT(entries.front().index == applied_.index + 1);
  state_machine_->Apply(entries);
  for (const Entry& entry : entries) {
    Follow(entry, &applied_);
    bytes_since_picture_ += entry.ByteSize();
  }
  entries_since_picture_ += entries.size();
}

void Node::BeginPictureIfDue() {
  if (checkpoints_ == nullptr || picture_unfinished_.load(std::memory_order_acquire)) return;
  if (entries_since_picture_ < options_.checkpoint_entries &&
      bytes_since_picture_ < options_.checkpoint_bytes) {
    return;
  }
  // What others have on their disks is applied before this one's has it. A checkpoint ahead of the
  // log would be safe, but look as if the log it belongs to were lost.
  if (applied_.index > log_durable_.load(std::memory_order_acquire)) return;
  entries_since_picture_ = 0;
  bytes_since_picture_ = 0;
  picture_unfinished_.store(true, std::memory_order_release);
  SnapshotMeta meta = applied_;
  if (PlantedFault("a snapshot has the wrong term")) meta.term = Term{1};
  checkpoints_->Begin(meta);
  checkpoint_work_.Push(FinishPicture{applied_.index});
}

absl::Status Node::Install(const SnapshotMeta& meta) {
  if (picture_unfinished_.load(std::memory_order_acquire)) {
    checkpoint_work_.Push(InstallAfter{meta});  // and here again
    return absl::OkStatus();
  }
  ASSERT(meta.index > applied_.index, "a snapshot takes nobody back");
  if (absl::Status s = checkpoints_->Install(meta); !s.ok()) return s;
  applied_ = meta;
  entries_since_picture_ = 0;
  bytes_since_picture_ = 0;
  log_work_.Push(LogReset{meta, /*installed=*/true});
  return absl::OkStatus();
}

// --- The read thread -----------------------------------------------------------------------------

absl::Status Node::HandleReads(std::vector<ReadWork>& work) {
  for (const ReadWork& item : work) {
    const auto* entries = std::get_if<LogReadRequest>(&item);
    absl::Status status =
        entries != nullptr ? ReadLog(*entries) : ReadSnapshot(std::get<SnapshotReadRequest>(item));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Node::ReadLog(const LogReadRequest& request) {
  absl::StatusOr<std::vector<Entry>> entries =
      data_dir_->log().Read(request.first, request.last, request.bytes_max);
  // Entries that were truncated or compacted meanwhile are no longer wanted either; damage is.
  if (absl::IsOutOfRange(entries.status())) return absl::OkStatus();
  if (!entries.ok()) return entries.status();
  events_.Push(LogReadDone{request.follower, *std::move(entries)});
  return absl::OkStatus();
}

absl::Status Node::ReadSnapshot(const SnapshotReadRequest& request) {
  ASSERT(checkpoints_ != nullptr, "who compacts its log has checkpoints");
  absl::StatusOr<SnapshotChunkData> chunk =
      checkpoints_->Read(request.index, request.offset, request.bytes_max);
  if (absl::IsNotFound(chunk.status())) {
    events_.Push(SnapshotReadDone{request.follower, std::nullopt});
    return absl::OkStatus();
  }
  if (!chunk.ok()) return chunk.status();
  events_.Push(SnapshotReadDone{request.follower, *std::move(chunk)});
  return absl::OkStatus();
}

// --- The checkpoint thread -----------------------------------------------------------------------

absl::Status Node::HandleCheckpoints(std::vector<CheckpointWork>& work) {
  for (const CheckpointWork& item : work) {
    if (const auto* picture = std::get_if<FinishPicture>(&item)) {
      if (absl::Status status = checkpoints_->Finish(); !status.ok()) return status;
      picture_unfinished_.store(false, std::memory_order_release);
      events_.Push(Checkpointed{picture->index});
    } else if (const auto* chunk = std::get_if<SnapshotWriteRequest>(&item)) {
      if (absl::Status status = Stage(*chunk); !status.ok()) return status;
    } else {
      apply_work_.Push(std::get<InstallAfter>(item).meta);
    }
  }
  return absl::OkStatus();
}

absl::Status Node::Stage(const SnapshotWriteRequest& request) {
  if (checkpoints_ == nullptr) return absl::OkStatus();  // the leader gives up after a while
  absl::StatusOr<uint64_t> next =
      checkpoints_->Stage(request.meta, request.offset, request.bytes.view(), request.last);
  // What does not fit, or is damaged, is asked for anew.
  if (absl::IsInvalidArgument(next.status()) || absl::IsDataLoss(next.status())) next = 0;
  if (!next.ok()) return next.status();
  events_.Push(SnapshotWritten{request.meta.index, *next});
  return absl::OkStatus();
}

}  // namespace quorate::consensus
