// SPDX-License-Identifier: Apache-2.0

#include "consensus/runtime/node.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "base/thread.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {
namespace {

using Clock = std::chrono::steady_clock;

// The most ticks that run at once. After a pause of the process the other missed ticks are skipped:
// a paused member could not hear the others, so its pause must not make an election timeout expire.
constexpr int kTicksAtOnceMax = 2;
// The intervals at which the log and a checkpoint are retried on a full disk.
constexpr int kLogRetryMs = 250;
constexpr int kCheckpointRetryMs = 2000;
// The most bytes of entries that are read from the log at once, to be applied.
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

// Returns how much of `whole` counts as applied since the last checkpoint when a node starts: a
// different share for each voter. So members that start together take their checkpoints at
// different times, and the others continue while one is busy with its checkpoint.
uint64_t ShareBefore(const RaftOptions& options, uint64_t whole) {
  const std::vector<MemberId>& voters = options.membership.voters;
  const auto before = std::count_if(voters.begin(), voters.end(),
                                    [&options](MemberId voter) { return voter < options.self; });
  const auto place = static_cast<uint64_t>(before);
  return whole / std::max<uint64_t>(voters.size(), place + 1) * place;
}

}  // namespace

Node::Node(NodeOptions options, DataDir* data_dir, RandomSource* random,
           StateMachine* state_machine, CheckpointStore* checkpoints, PeerTransport* transport,
           NodeObserver* observer)
    : options_(std::move(options)),
      data_dir_(data_dir),
      state_machine_(state_machine),
      checkpoints_(checkpoints),
      transport_(transport),
      observer_(observer),
      node_{std::make_unique<Raft>(
          options_.raft, data_dir->initial_state(NewestCheckpoint(checkpoints)), random)} {
  ASSERT(options_.tick_ms > 0);
  apply_.entries_since_checkpoint = ShareBefore(options_.raft, options_.checkpoint_entries);
  apply_.bytes_since_checkpoint = ShareBefore(options_.raft, options_.checkpoint_bytes);
  shared_.log_durable = data_dir_->log().last_index();
  if (std::optional<SnapshotMeta> newest = NewestCheckpoint(checkpoints)) {
    apply_.applied = *std::move(newest);
  } else {
    apply_.applied.membership = options_.raft.membership;
  }
}

Node::~Node() { Stop(); }

void Node::Start(EventLoop* event_loop) {
  ASSERT(threads_.empty(), "started once");
  has_threads_ = true;
  event_loop_ = event_loop;
  events_.SetEventLoop(event_loop);
  const auto start = [this](const char* name, auto* queue, auto handle) {
    threads_.push_back(StartThread(name, [=, this] { RunQueue(queue, handle); }));
  };
  start("apply", &apply_work_, &Node::HandleApplies);
  start("log-read", &read_work_, &Node::HandleReads);
  start("checkpoint", &checkpoint_work_, &Node::HandleCheckpoints);
  on_node_.Enter();
  node_.next_tick = Clock::now() + std::chrono::milliseconds(options_.tick_ms);
  for (const Next part : {Next::kLogThread, Next::kNodeThread}) {
    threads_.push_back(StartThread(part == Next::kNodeThread ? "node" : "log",
                                   [this, part] { RunNodeOrLog(part); }));
  }
}

void Node::Stop() {
  is_stopping_.store(true);
  events_.Close();
  log_work_.Close();
  apply_work_.Close();
  read_work_.Close();
  checkpoint_work_.Close();
  if (!threads_.empty()) {
    {
      MutexLock lock(&ended_mutex_);
      while (!node_ended_) ended_changed_.Wait(&ended_mutex_);
    }
    // Closes the connections before the other threads end: the other members learn at once that
    // this member is gone, even if its disk is slow now.
    if (event_loop_ != nullptr) event_loop_->End();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Node::Deliver(std::vector<Message> messages) {
  if (SeededBug("messages are stepped where they arrive")) {
    on_node_.Enter();
    return HandleEvent(messages);
  }
  events_.Push(std::move(messages));
}
void Node::Post(std::function<void()> task) { events_.Push(std::move(task)); }
void Node::PeerUnreachable(MemberId member) { events_.Push(Unreachable{member}); }

void Node::RequestCheckpoint(Index index, std::function<void()> done) {
  ASSERT(checkpoints_ != nullptr);
  Post([this, index, done = std::move(done)] {
    on_node_.Enter();
    node_.checkpoint_waiters.emplace(std::max(index, Index{1}), done);
    ReleaseCheckpointWaiters();
    AskForCheckpoint();
  });
}

void Node::RunNodeOrLog(Next part) {
  while (part != Next::kEnd) {
    part = part == Next::kNodeThread ? RunNode() : RunLog();
    if (part != Next::kEnd) NameThisThread(part == Next::kNodeThread ? "node" : "log");
  }
}

Node::Next Node::RunNode() {
  on_node_.Enter();
  const auto tick = std::chrono::milliseconds(options_.tick_ms);
  Clock::time_point& next_tick = node_.next_tick;
  std::vector<Event> events;
  for (;;) {
    RecordAwaited();
    int idle_ticks = IdleTicks();
    const Clock::time_point deadline = next_tick + idle_ticks * tick;
    if (!events_.TakeAll(&events, &deadline)) break;
    // Ticks that the thread slept over run before the events that came after them. If it wakes up
    // more than a tick late, the process was paused.
    const Clock::time_point woken = Clock::now();
    int ticks_max = woken < deadline + tick ? idle_ticks + kTicksAtOnceMax : kTicksAtOnceMax;
    for (; idle_ticks > 0 && ticks_max > 0 && next_tick <= woken; next_tick += tick) {
      Tick();
      --idle_ticks;
      --ticks_max;
    }
    for (Event& event : events) Handle(std::move(event));
    const Clock::time_point now = Clock::now();
    for (; next_tick <= now; next_tick += tick) {
      if (--ticks_max < 0) {
        next_tick = now + tick;
        break;
      }
      Tick();
    }
    DispatchOutputs();
    const Next next = PersistBatches();
    if (next == Next::kLogThread) return next;
    if (next == Next::kEnd) break;
  }
  MutexLock lock(&ended_mutex_);
  node_ended_ = true;
  ended_changed_.NotifyAll();
  return Next::kEnd;
}

int Node::IdleTicks() const {
  return observer_->AwaitsTick() ? 0 : std::min(kIdleTicksMax, node_.raft->IdleTicks());
}

void Node::RecordAwaited() {
  shared_.persisted_awaited.store(node_.raft->PersistWaits() || !node_.checkpoint_waiters.empty());
  shared_.applied_awaited.store(node_.raft->ApplyWaits() || !node_.checkpoint_waiters.empty() ||
                                observer_->AwaitsApplied());
}

void Node::Tick() {
  const uint64_t ticks = shared_.ticks.fetch_add(1, std::memory_order_relaxed);
  const auto retry_ticks = static_cast<uint64_t>(std::max(1, kLogRetryMs / options_.tick_ms));
  const bool log_waits = shared_.log_full.load(std::memory_order_relaxed) ||
                         shared_.binding_waits.load(std::memory_order_relaxed);
  if (log_waits && ticks % retry_ticks == 0) PushLog(LogRetry{});
  // A failed checkpoint is retried even if nothing is applied meanwhile: the log may need the space
  // that the checkpoint frees before anything can be applied.
  if (shared_.checkpoint_failed.load(std::memory_order_relaxed) &&
      !shared_.checkpoint_unfinished.load(std::memory_order_acquire) &&
      ticks >= shared_.next_checkpoint_ticks) {
    PushApply(CheckpointRetry{});
  }
  const uint64_t answer_ticks = shared_.late_answer_ticks.load(std::memory_order_relaxed);
  if (answer_ticks != 0 && ticks >= answer_ticks) checkpoint_work_.Push(AnswerLate{});
  node_.raft->Tick();
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
      on_node_.Enter();
      return events_.HasItems() || node_.raft->HasOutput();
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
      on_node_.Enter();
      for (Event& event : events_.TakeQueued()) Handle(std::move(event));
      DispatchOutputs();
      if (PersistBatches() == Next::kEnd) failed_ = true;
      return;
    case Work::kLog: {
      const size_t pending = shared_.log_pending.load();
      StepQueue(&log_work_, &Node::HandleLog);
      shared_.log_pending.fetch_sub(pending);
      return;
    }
    case Work::kApply:
      return StepQueue(&apply_work_, &Node::HandleApplies);
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
  on_node_.Enter();
  Tick();
  DispatchOutputs();
  if (PersistBatches() == Next::kEnd) failed_ = true;
}

// --- The work ------------------------------------------------------------------------------------

void Node::Handle(Event event) {
  std::visit(
      [this](auto& kind) {
        on_node_.Enter();
        HandleEvent(kind);
      },
      event);
}

void Node::HandleEvent(std::vector<Message>& messages) {
  for (Message& message : messages) node_.raft->Step(std::move(message));
}

void Node::HandleEvent(std::function<void()>& task) { task(); }

void Node::HandleEvent(const Persisted& done) {
  node_.raft->Persisted(done.id);
  AskForCheckpoint();
}

void Node::HandleEvent(const Applied& done) {
  // The event of the apply thread may arrive after later entries were already applied inline.
  if (done.index <= node_.applied_told) return;
  node_.applied_told = done.index;
  node_.raft->Applied(done.index);
  observer_->OnApplied(done.index);
  AskForCheckpoint();
}

void Node::HandleEvent(const Unreachable& peer) { node_.raft->PeerUnreachable(peer.member); }

void Node::HandleEvent(LogReadDone& done) {
  node_.raft->LogRead(done.follower, std::move(done.entries));
}

void Node::HandleEvent(SnapshotReadDone& done) {
  if (!done.chunk.has_value()) return node_.raft->SnapshotReadFailed(done.follower);
  SnapshotChunkData& chunk = *done.chunk;
  node_.raft->SnapshotRead(done.follower, std::move(chunk.meta), chunk.offset,
                           std::move(chunk.bytes), chunk.last);
}

void Node::HandleEvent(const SnapshotWritten& done) {
  if (done.status.ok()) return node_.raft->SnapshotWritten(done.index, done.next_offset);
  node_.raft->SnapshotWriteFailed(done.index, std::string(done.status.message()));
}

void Node::HandleEvent(const SnapshotInstalled& done) {
  node_.raft->SnapshotInstalled(done.index);
  node_.applied_told = done.index;
  observer_->OnApplied(done.index);
  ReleaseCheckpointWaiters();
}

void Node::HandleEvent(const Checkpointed& done) {
  node_.raft->Checkpointed(done.index);
  ReleaseCheckpointWaiters();
  AskForCheckpoint();
}

void Node::ReleaseCheckpointWaiters() {
  if (node_.checkpoint_waiters.empty()) return;
  const std::optional<SnapshotMeta> newest = checkpoints_->newest();
  if (!newest.has_value()) return;
  const auto end = node_.checkpoint_waiters.upper_bound(newest->index);
  std::vector<std::function<void()>> ready;
  for (auto it = node_.checkpoint_waiters.begin(); it != end; ++it) ready.push_back(it->second);
  node_.checkpoint_waiters.erase(node_.checkpoint_waiters.begin(), end);
  for (const auto& done : ready) done();
}

void Node::AskForCheckpoint() {
  if (node_.checkpoint_waiters.empty()) return;
  PushApply(CheckpointRequest{node_.checkpoint_waiters.rbegin()->first});
}

void Node::DispatchOutputs() {
  while (node_.raft->HasOutput()) {
    ReportCommitted();
    Dispatch(node_.raft->TakeOutput());
  }
}

void Node::ReportCommitted() {
  const Index committed = node_.raft->commit_index();
  if (committed <= node_.committed_told) return;
  node_.committed_told = committed;
  observer_->OnCommitted(committed);
}

void Node::Dispatch(Output output) {
  if (!output.messages_now.empty()) transport_->Send(std::move(output.messages_now));
  std::optional<ApplyRange> apply = std::move(output.apply);
  std::optional<SnapshotMeta> install = std::move(output.install);
  const std::optional<Index> compact_to = output.compact_to;
  const bool first_entry = apply.has_value() && apply->first == Index{1};
  for (const LogReadRequest& read : output.log_reads) read_work_.Push(read);
  for (const SnapshotReadRequest& read : output.snapshot_reads) read_work_.Push(read);
  if (output.discard_staging) checkpoint_work_.Push(DiscardStaged{});
  for (SnapshotWriteRequest& write : output.snapshot_writes) {
    checkpoint_work_.Push(std::move(write));
  }
  for (const SnapshotRejection& rejection : output.snapshot_rejections) {
    observer_->OnSnapshotRejected(rejection);
  }
  if (output.checkpoint_wanted.has_value()) {
    PushApply(CheckpointRequest{*output.checkpoint_wanted});
  }
  if (output.membership.has_value()) observer_->OnMembership(*output.membership);
  if (output.status.has_value()) observer_->OnStatus(*output.status);
  if (!output.reads.empty()) observer_->OnReads(output.reads);
  if (output.persist_id.has_value() || first_entry) {
    node_.batches.push_back(LogBatch{std::move(output), first_entry});
  }
  // What follows in the log thread's queue must not overtake the batches of before.
  if (compact_to.has_value() || install.has_value()) QueueBatches();
  if (compact_to.has_value()) PushLog(LogCompaction{*compact_to});
  if (apply.has_value() && !ApplyHere(*apply)) PushApply(*std::move(apply));
  // The snapshot passes through the log thread's queue, so that all earlier batches are durable,
  // and then through the apply thread's, so that all earlier ranges are applied.
  if (install.has_value()) PushLog(LogReset{*std::move(install)});
}

void Node::PushApply(ApplyWork&& work) {
  shared_.apply_pending.fetch_add(1);
  apply_work_.Push(std::move(work));
}

bool Node::ApplyHere(const ApplyRange& range) {
  if (range.entries.empty() || range.entries.size() > options_.apply_here_entries_max) return false;
  size_t bytes = 0;
  for (const Entry& entry : range.entries) bytes += entry.ByteSize();
  if (bytes > options_.apply_here_bytes_max) return false;
  // Only this thread queues entries, so no others can be applied before these.
  if (shared_.apply_pending.load() > 0) return false;
  if (!apply_turn_.TryLock()) return false;
  const bool applied = state_machine_->TryApply(range.entries);
  if (applied) {
    FollowApplied(range.entries);
    if (IsCheckpointDue()) PushApply(CheckpointRetry{});
  }
  apply_turn_.Unlock();
  if (applied) Handle(Applied{range.last});
  return applied;
}

// --- The apply thread ----------------------------------------------------------------------------

absl::Status Node::HandleApplies(std::vector<ApplyWork>& work) {
  for (const ApplyWork& item : work) {
    MutexLock turn(&apply_turn_);
    if (absl::Status status = HandleApply(item); !status.ok()) return status;
    shared_.apply_pending.fetch_sub(1);
  }
  return absl::OkStatus();
}

absl::Status Node::HandleApply(const ApplyWork& item) {
  if (const auto* range = std::get_if<ApplyRange>(&item)) {
    if (absl::Status status = Apply(*range); !status.ok()) return status;
    // Applied is reported before the checkpoint begins, because the checkpoint may be finished very
    // quickly.
    Report(Applied{range->last}, shared_.applied_awaited);
    BeginCheckpointIfDue();
  } else if (const auto* request = std::get_if<CheckpointRequest>(&item)) {
    BeginCheckpointIfRequested(request->index);
  } else if (std::holds_alternative<CheckpointRetry>(item)) {
    BeginCheckpointIfDue();
  } else {
    return Install(std::get<SnapshotMeta>(item));
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
  state_machine_->Apply(entries);
  FollowApplied(entries);
}

void Node::FollowApplied(const std::vector<Entry>& entries) {
  ASSERT(entries.front().index == apply_.applied.index + 1);
  for (const Entry& entry : entries) {
    Follow(entry, &apply_.applied);
    apply_.bytes_since_checkpoint += entry.ByteSize();
  }
  apply_.entries_since_checkpoint += entries.size();
}

bool Node::IsCheckpointDue() const {
  const bool wanted = shared_.checkpoint_failed.load(std::memory_order_relaxed)
                          ? !CheckpointWaits()
                          : apply_.entries_since_checkpoint >= options_.checkpoint_entries ||
                                apply_.bytes_since_checkpoint >= options_.checkpoint_bytes;
  return wanted && CanBeginCheckpoint();
}

void Node::BeginCheckpointIfDue() {
  if (IsCheckpointDue()) BeginCheckpoint();
}

void Node::BeginCheckpointIfRequested(Index index) {
  // If the checkpoint cannot begin now, AskForCheckpoint requests it again after each event that
  // may change that.
  if (apply_.applied.index < index || CheckpointWaits() || !CanBeginCheckpoint()) return;
  const std::optional<SnapshotMeta> newest = checkpoints_->newest();
  if (!newest.has_value() || newest->index < index) BeginCheckpoint();
}

bool Node::CheckpointWaits() const {
  return shared_.checkpoint_failed.load(std::memory_order_relaxed) &&
         shared_.ticks.load(std::memory_order_relaxed) < shared_.next_checkpoint_ticks;
}

bool Node::CanBeginCheckpoint() const {
  if (checkpoints_ == nullptr || shared_.checkpoint_unfinished.load(std::memory_order_acquire))
    return false;
  // Entries that are durable on a majority are applied even before they are durable here. A
  // checkpoint ahead of the log would be safe, but would look as if the log had lost entries.
  return apply_.applied.index <= shared_.log_durable.load(std::memory_order_acquire);
}

void Node::BeginCheckpoint() {
  ASSERT(apply_.applied.index > Index{0}, "a checkpoint of nothing could not be loaded");
  apply_.entries_since_checkpoint = 0;
  apply_.bytes_since_checkpoint = 0;
  shared_.checkpoint_unfinished.store(true, std::memory_order_release);
  SnapshotMeta meta = apply_.applied;
  if (SeededBug("a snapshot has the wrong term")) meta.term = Term{1};
  checkpoints_->Begin(meta);
  checkpoint_work_.Push(FinishCheckpoint{apply_.applied.index});
}

absl::Status Node::Install(const SnapshotMeta& meta) {
  if (shared_.checkpoint_unfinished.load(std::memory_order_acquire)) {
    checkpoint_work_.Push(InstallAfter{meta});  // calls Install again
    return absl::OkStatus();
  }
  ASSERT(meta.index > apply_.applied.index, "a snapshot takes nobody back");
  if (absl::Status s = checkpoints_->Install(meta); !s.ok()) return s;
  apply_.applied = meta;
  apply_.entries_since_checkpoint = 0;
  apply_.bytes_since_checkpoint = 0;
  PushLog(LogReset{meta, /*installed=*/true});
  return absl::OkStatus();
}

// --- The read thread -----------------------------------------------------------------------------

absl::Status Node::HandleReads(std::vector<ReadWork>& work) {
  for (const ReadWork& item : work) {
    const absl::Status status =
        std::visit(Overloaded{
                       [this](const LogReadRequest& request) { return ReadLog(request); },
                       [this](const SnapshotReadRequest& request) { return ReadSnapshot(request); },
                       [this](const LogChores&) { return DoChores(); },
                   },
                   item);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Node::DoChores() {
  shared_.chores_queued.store(false);
  const absl::Status status = data_dir_->log().DoChores();
  // If the disk is full, the log thread queues the chores again later.
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status Node::ReadLog(const LogReadRequest& request) {
  absl::StatusOr<std::vector<Entry>> entries =
      data_dir_->log().Read(request.first, request.last, request.bytes_max);
  // Entries that were truncated or compacted meanwhile are no longer needed. Other errors are
  // fatal.
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
  if (absl::IsUnavailable(chunk.status())) {
    read_work_.Push(request);
    return absl::OkStatus();
  }
  if (!chunk.ok()) return chunk.status();
  events_.Push(SnapshotReadDone{request.follower, *std::move(chunk)});
  return absl::OkStatus();
}

// --- The checkpoint thread -----------------------------------------------------------------------

absl::Status Node::HandleCheckpoints(std::vector<CheckpointWork>& work) {
  on_checkpoint_.Enter();
  for (const CheckpointWork& item : work) {
    if (const auto* checkpoint = std::get_if<FinishCheckpoint>(&item)) {
      if (absl::Status status = Finish(checkpoint->index); !status.ok()) return status;
    } else if (const auto* chunk = std::get_if<SnapshotWriteRequest>(&item)) {
      if (absl::Status status = Stage(*chunk); !status.ok()) return status;
    } else if (const auto* install = std::get_if<InstallAfter>(&item)) {
      PushApply(install->meta);
    } else if (std::holds_alternative<DiscardStaged>(item)) {
      if (checkpoints_ == nullptr) continue;
      if (absl::Status status = checkpoints_->DiscardStaged(); !status.ok()) return status;
    } else {
      AnswerLateNow();
    }
  }
  return absl::OkStatus();
}

void Node::AnswerLateNow() {
  shared_.late_answer_ticks.store(0, std::memory_order_relaxed);
  if (checkpoint_.late_answer.has_value())
    events_.Push(*std::exchange(checkpoint_.late_answer, std::nullopt));
}

uint64_t Node::CheckpointRetryTicks() const {
  const auto wait = static_cast<uint64_t>(std::max(1, kCheckpointRetryMs / options_.tick_ms));
  return shared_.ticks.load(std::memory_order_relaxed) + wait;
}

absl::Status Node::Finish(Index index) {
  const absl::Status status = checkpoints_->Finish();
  const bool full = absl::IsResourceExhausted(status);
  if (!status.ok() && !full) return status;
  if (full) shared_.next_checkpoint_ticks = CheckpointRetryTicks();
  shared_.checkpoint_failed.store(full, std::memory_order_relaxed);
  shared_.checkpoint_unfinished.store(false, std::memory_order_release);
  if (!full) events_.Push(Checkpointed{index});
  return absl::OkStatus();
}

absl::Status Node::Stage(const SnapshotWriteRequest& request) {
  if (checkpoints_ == nullptr) return absl::OkStatus();  // the leader gives up after a while
  AnswerLateNow();                                       // answers keep their order
  absl::StatusOr<uint64_t> next =
      checkpoints_->Stage(request.meta, request.offset, request.bytes.view(), request.last);
  if (absl::IsResourceExhausted(next.status())) {
    checkpoint_.late_answer = SnapshotWritten{request.meta.index, 0, next.status()};
    shared_.late_answer_ticks.store(CheckpointRetryTicks(), std::memory_order_relaxed);
    return absl::OkStatus();
  }
  // If a chunk does not continue what is staged, or is damaged, the leader sends the snapshot
  // again.
  if (absl::IsInvalidArgument(next.status()) || absl::IsDataLoss(next.status())) {
    events_.Push(SnapshotWritten{request.meta.index, 0, next.status()});
    return absl::OkStatus();
  }
  if (!next.ok()) return next.status();
  events_.Push(SnapshotWritten{request.meta.index, *next, absl::OkStatus()});
  return absl::OkStatus();
}

}  // namespace quorate::consensus
