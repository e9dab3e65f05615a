// SPDX-License-Identifier: Apache-2.0

// The part of Node that makes batches durable, on the log thread or on the node thread.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/runtime/node.h"

namespace quorate::consensus {
namespace {

using Clock = std::chrono::steady_clock;

// After so many looks, at intervals of kStalledSync, at which the node thread has not synced again,
// the log thread does not watch it any longer.
constexpr int kIdleLooksMax = 4;

// Moves the VoteResponses from `messages` to `votes`. A vote promises only what the hard state
// holds, so it need not wait for entries for which there is no free space.
void TakeVotes(std::vector<Message>* messages, std::vector<Message>* votes) {
  const auto rest = std::stable_partition(
      messages->begin(), messages->end(),
      [](const Message& message) { return !std::holds_alternative<VoteResponse>(message.body); });
  votes->insert(votes->end(), std::make_move_iterator(rest),
                std::make_move_iterator(messages->end()));
  messages->erase(rest, messages->end());
}

}  // namespace

// --- Syncs of the node thread --------------------------------------------------------------------

Node::Next Node::PersistBatches() {
  if (node_.batches.empty()) return Next::kNodeThread;
  if (!log_turn_.TryLock()) {
    QueueBatches();
    return Next::kNodeThread;
  }
  if (!MayPersistHere()) {
    log_turn_.Unlock();
    QueueBatches();
    return Next::kNodeThread;
  }
  std::vector<LogBatch> batches = std::exchange(node_.batches, {});
  const uint64_t sync = has_threads_ ? BeginSync() : 0;
  // Stop does not wait for a disk. The order matters: either the log thread sees that a sync has
  // begun, or this thread sees that the log thread may be gone and not watch it.
  if (is_stopping_.load()) {
    log_turn_.Unlock();
    for (LogBatch& batch : batches) PushLog(std::move(batch));
    return BecomeNodeThread(sync) ? Next::kNodeThread : Next::kLogThread;
  }
  std::optional<PersistId> persisted;
  const absl::Status status = PersistAndSend(std::move(batches), &persisted);
  QueueChoresIfDue();
  // The log thread deals with a full disk.
  if (absl::IsResourceExhausted(status)) PushLog(LogRetry{});
  const bool is_node_thread = !has_threads_ || BecomeNodeThread(sync);
  log_turn_.Unlock();
  if (!status.ok() && !absl::IsResourceExhausted(status)) {
    observer_->OnFatal(status);
    // A log that has failed once refuses everything, so that the log thread will end, too.
    return is_node_thread ? Next::kEnd : Next::kLogThread;
  }
  if (!is_node_thread) {
    if (persisted.has_value()) Report(Persisted{*persisted}, shared_.persisted_awaited);
    return Next::kLogThread;
  }
  if (persisted.has_value()) Handle(Persisted{*persisted});
  DispatchOutputs();
  QueueBatches();
  return Next::kNodeThread;
}

bool Node::MayPersistHere() const {
  // The backlog holds what a full disk has left of earlier batches.
  if (shared_.log_pending.load() > 0 || !log_.backlog.empty()) return false;
  if (shared_.log_full.load(std::memory_order_relaxed)) return false;
  if (shared_.sync_ns.load(std::memory_order_relaxed) > std::chrono::nanoseconds(kFastSync).count())
    return false;
  size_t bytes = 0;
  for (const LogBatch& batch : node_.batches) {
    const Output& output = batch.output;
    // These write other files, too.
    if (output.hard_state.has_value() || output.truncate_after.has_value() ||
        output.directory_epoch.has_value() || batch.bind_cluster_id) {
      return false;
    }
    for (const Entry& entry : output.entries) bytes += entry.ByteSize();
  }
  return bytes <= options_.persist_here_bytes_max && options_.persist_here_bytes_max > 0;
}

void Node::QueueBatches() {
  for (LogBatch& batch : node_.batches) PushLog(std::move(batch));
  node_.batches.clear();
}

uint64_t Node::BeginSync() {
  const uint64_t sync = sync_watch_.sync.fetch_add(1) + 1;
  // The order matters: either this thread sees that the log thread does not watch, or the log thread
  // sees the new number before it ceases to watch.
  if (!sync_watch_.is_watching.exchange(true)) log_work_.Push(WatchSyncs{});
  return sync;
}

bool Node::BecomeNodeThread(uint64_t sync) {
  return sync % 2 == 1 && sync_watch_.sync.compare_exchange_strong(sync, sync + 1);
}

bool Node::TakeNodeThreadIfStalled() {
  if (!sync_watch_.is_watching.load()) return false;
  const uint64_t sync = sync_watch_.sync.load();
  if (std::exchange(log_thread_.last_sync, sync) != sync) {
    log_thread_.idle_looks = 0;
    return false;
  }
  if (sync % 2 == 1) return BecomeNodeThread(sync);
  if (++log_thread_.idle_looks < kIdleLooksMax) return false;
  log_thread_.idle_looks = 0;
  sync_watch_.is_watching.store(false);
  if (sync_watch_.sync.load() != sync) sync_watch_.is_watching.store(true);
  return false;
}

// --- The log thread ------------------------------------------------------------------------------

void Node::PushLog(LogWork&& work) {
  shared_.log_pending.fetch_add(1);
  log_work_.Push(std::move(work));
}

Node::Next Node::RunLog() {
  on_log_.Enter();
  std::vector<LogWork> work;
  for (;;) {
    const Clock::time_point deadline = Clock::now() + kStalledSync;
    const bool watches = sync_watch_.is_watching.load();
    if (!log_work_.TakeAll(&work, watches ? &deadline : nullptr)) break;
    std::erase_if(work,
                  [](const LogWork& item) { return std::holds_alternative<WatchSyncs>(item); });
    if (work.empty()) {
      if (TakeNodeThreadIfStalled()) return Next::kNodeThread;
      continue;
    }
    if (BecomeNodeThread(sync_watch_.sync.load())) {
      // The work has to wait for the sync, and so for the thread that is in it.
      for (LogWork& item : work) log_work_.Push(std::move(item));
      return Next::kNodeThread;
    }
    if (const absl::Status status = HandleLog(work); !status.ok()) {
      // The work stays pending, so that the node thread makes nothing durable that comes after it.
      observer_->OnFatal(status);
      return Next::kEnd;
    }
    shared_.log_pending.fetch_sub(work.size());
  }
  // The node thread has to end without waiting for a disk that is slow.
  return BecomeNodeThread(sync_watch_.sync.load()) ? Next::kNodeThread : Next::kEnd;
}

absl::Status Node::HandleLog(std::vector<LogWork>& work) {
  MutexLock turn(&log_turn_);
  bool retry = !shared_.log_full.load(std::memory_order_relaxed);
  for (LogWork& item : work) {
    // A compaction may free space for the batches that wait.
    retry |= std::holds_alternative<LogRetry>(item) || std::holds_alternative<LogCompaction>(item);
    // A vote needs no space.
    const auto* batch = std::get_if<LogBatch>(&item);
    retry |= batch != nullptr && batch->output.hard_state.has_value();
    if (std::holds_alternative<LogRetry>(item) && !log_.unbound_cluster_id.empty()) {
      if (absl::Status s = BindClusterId(log_.unbound_cluster_id); !s.ok()) return s;
    }
    if (!std::holds_alternative<LogRetry>(item)) {
      log_.backlog.push_back(std::move(item));
    }
  }
  if (!retry) return absl::OkStatus();
  if (shared_.log_full.load(std::memory_order_relaxed)) {
    if (absl::Status status = CompactAhead(); !status.ok()) return status;
  }
  const absl::Status status = WorkOffLog();
  const bool full = absl::IsResourceExhausted(status);
  if (!full && !status.ok()) return status;
  if (full) {
    const absl::Status sent = SendWaitingVotes();
    if (!sent.ok() && !absl::IsResourceExhausted(sent)) return sent;
  }
  if (shared_.log_full.exchange(full, std::memory_order_relaxed) != full)
    observer_->OnLogFull(status);
  QueueChoresIfDue();
  return absl::OkStatus();
}

void Node::QueueChoresIfDue() {
  if (!data_dir_->log().HasChores()) return;
  if (!shared_.chores_queued.exchange(true)) read_work_.Push(LogChores{});
}

absl::Status Node::CompactAhead() {
  for (auto item = log_.backlog.begin(); item != log_.backlog.end();) {
    const auto* compaction = std::get_if<LogCompaction>(&*item);
    if (compaction == nullptr || compaction->to > data_dir_->log().last_index()) {
      ++item;
      continue;
    }
    if (absl::Status s = data_dir_->log().CompactTo(compaction->to); !s.ok()) return s;
    item = log_.backlog.erase(item);
  }
  const absl::Status status = data_dir_->log().DoChores();
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status Node::WorkOffLog() {
  while (!log_.backlog.empty()) {
    absl::Status status;
    if (const auto* compaction = std::get_if<LogCompaction>(&log_.backlog.front())) {
      status = data_dir_->log().CompactTo(compaction->to);
    } else if (const auto* reset = std::get_if<LogReset>(&log_.backlog.front())) {
      status = Reset(*reset);
    } else {
      std::optional<PersistId> persisted;
      status = PersistAndSend(TakeBatches(), &persisted);
      if (persisted.has_value()) Report(Persisted{*persisted}, shared_.persisted_awaited);
      if (!status.ok()) return status;
      continue;
    }
    if (!status.ok()) return status;
    log_.backlog.pop_front();
  }
  return absl::OkStatus();
}

std::vector<Node::LogBatch> Node::TakeBatches() {
  std::vector<LogBatch> batches;
  while (!log_.backlog.empty()) {
    auto* batch = std::get_if<LogBatch>(&log_.backlog.front());
    if (batch == nullptr) break;
    // Entries that were acknowledged before a truncation must be made durable before it.
    if (!batches.empty() && batch->output.truncate_after.has_value()) break;
    batches.push_back(std::move(*batch));
    log_.backlog.pop_front();
  }
  return batches;
}

absl::Status Node::PersistAndSend(std::vector<LogBatch> batches,
                                  std::optional<PersistId>* persisted) {
  // Only the first batch may truncate.
  const std::optional<Index> truncated =
      batches.empty() ? std::nullopt : batches.front().output.truncate_after;
  std::vector<LogBatch> done;
  const Clock::time_point begin = Clock::now();
  const absl::Status status = Persist(batches, &done);
  if (has_threads_) NoteSync(Clock::now() - begin);
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
  log_.backlog.insert(log_.backlog.begin(), std::make_move_iterator(batches.begin()),
                      std::make_move_iterator(batches.end()));
  shared_.log_durable.store(data_dir_->log().last_index(), std::memory_order_release);
  if (truncated.has_value()) observer_->OnDurable(*truncated);
  observer_->OnDurable(data_dir_->log().last_index());
  std::vector<Message> messages;
  for (LogBatch& batch : done) {
    auto& waiting = batch.output.messages_after_persist;
    if (messages.empty()) {
      messages = std::move(waiting);
    } else {
      for (Message& message : waiting) messages.push_back(std::move(message));
    }
    if (batch.output.persist_id.has_value()) *persisted = batch.output.persist_id;
  }
  if (!messages.empty()) transport_->Send(std::move(messages));
  return status;
}

absl::Status Node::SendWaitingVotes() {
  HardStateChange change{data_dir_->hard_state(), data_dir_->log().last_index()};
  bool any = false;
  for (const LogWork& item : log_.backlog) {
    const auto* batch = std::get_if<LogBatch>(&item);
    if (batch == nullptr) continue;
    any |= batch->output.hard_state.has_value();
    if (absl::Status s = Include(*batch, &change); !s.ok()) return s;
  }
  // A vote is in the same batch as its hard state, so without a hard state there is no vote.
  if (!any) return absl::OkStatus();
  if (absl::Status s = WriteHardState(change); !s.ok()) return s;
  std::vector<Message> votes;
  for (LogWork& item : log_.backlog) {
    auto* batch = std::get_if<LogBatch>(&item);
    if (batch == nullptr) continue;
    // The newest hard state is durable: an older one must not overwrite it when its batch is
    // written.
    batch->output.hard_state.reset();
    TakeVotes(&batch->output.messages_after_persist, &votes);
  }
  if (!votes.empty()) transport_->Send(std::move(votes));
  return absl::OkStatus();
}

absl::Status Node::Reset(const LogReset& reset) {
  if (!reset.installed) {
    PushApply(reset.meta);
    return absl::OkStatus();
  }
  // After a crash before this, the next start finds a checkpoint that the log does not contain, and
  // aligns the log in the same way.
  if (absl::Status s = data_dir_->AlignLog(reset.meta.index, reset.meta.term); !s.ok()) return s;
  shared_.log_durable.store(data_dir_->log().last_index(), std::memory_order_release);
  // A log that begins after a snapshot does not contain the entry with the cluster's id.
  if (absl::Status s = BindClusterId(reset.meta.cluster_id); !s.ok()) return s;
  events_.Push(SnapshotInstalled{reset.meta.index});
  return absl::OkStatus();
}

absl::Status Node::Include(const LogBatch& batch, HardStateChange* change) {
  const Output& output = batch.output;
  if (output.hard_state.has_value()) {
    change->state = *output.hard_state;
    change->changed = true;
  }
  if (output.truncate_after.has_value()) {
    change->durable = std::min(change->durable, *output.truncate_after);
    change->changed = true;
  }
  if (!output.directory_epoch.has_value() ||
      *output.directory_epoch == data_dir_->directory_epoch())
    return absl::OkStatus();
  // The epoch has to be durable before the hard state says that the directory counts. A full disk
  // is a fatal error here: messages that do not wait for the log would carry the epoch before it is
  // durable.
  const absl::Status s = data_dir_->SetDirectoryEpoch(*output.directory_epoch);
  return absl::IsResourceExhausted(s) ? absl::InternalError(s.message()) : s;
}

absl::Status Node::WriteHardState(const HardStateChange& change) {
  if (!change.changed || SeededBug("vote not persisted")) return absl::OkStatus();
  return data_dir_->WriteHardState(change.state, change.durable);
}

absl::Status Node::Persist(std::vector<LogBatch>& batches, std::vector<LogBatch>* done) {
  // The newest term and vote are written before the entries: DataDir::Open refuses a log with a
  // term above that of the hard state, but accepts a hard state without its entries. The durable
  // mark is lowered before entries below it are truncated; otherwise, after a crash in between,
  // Open would report them as lost.
  SegmentLog& log = data_dir_->log();
  HardStateChange change{data_dir_->hard_state(), log.last_index()};
  for (const LogBatch& batch : batches) {
    if (absl::Status s = Include(batch, &change); !s.ok()) return s;
  }
  if (absl::Status s = WriteHardState(change); !s.ok()) return s;
  bool bind_cluster_id = false;
  absl::Status status;
  size_t written = 0;
  for (; written < batches.size(); ++written) {
    LogBatch& batch = batches[written];
    if (status = Write(batch); !status.ok()) break;
    bind_cluster_id |= batch.bind_cluster_id;
  }
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
  if (!SeededBug("acknowledged before the sync")) {
    if (absl::Status s = log.Sync(); !s.ok()) return s;
  }
  const auto rest = batches.begin() + static_cast<ptrdiff_t>(written);
  done->assign(std::make_move_iterator(batches.begin()), std::make_move_iterator(rest));
  batches.erase(batches.begin(), rest);
  if (bind_cluster_id) {
    if (absl::Status s = BindToFirstEntry(); !s.ok()) return s;
  }
  return status;
}

void Node::NoteSync(std::chrono::nanoseconds time) {
  const int64_t average = shared_.sync_ns.load(std::memory_order_relaxed);
  shared_.sync_ns.store(average + (time.count() - average) / 8, std::memory_order_relaxed);
}

absl::Status Node::Write(LogBatch& batch) {
  SegmentLog& log = data_dir_->log();
  Output& output = batch.output;
  if (output.truncate_after.has_value()) {
    if (absl::Status s = log.TruncateAfter(*output.truncate_after); !s.ok()) return s;
    output.truncate_after.reset();
  }
  if (output.entries.empty()) return absl::OkStatus();
  absl::Status status = log.Append(output.entries);
  // Entries that were written before the error are not written again.
  const Index last = log.last_index();
  std::erase_if(output.entries, [&](const Entry& entry) { return entry.index <= last; });
  return status;
}

absl::Status Node::BindToFirstEntry() {
  absl::StatusOr<std::vector<Entry>> first = data_dir_->log().Read(Index{1}, Index{1}, 1);
  if (!first.ok()) return first.status();
  ASSERT(first->front().kind == EntryKind::kNoOp, "a leader's no-op opens the log");
  return BindClusterId(std::string(first->front().payload.view()));
}

absl::Status Node::BindClusterId(std::string cluster_id) {
  const bool is_new = data_dir_->cluster_id().empty();
  const absl::Status bound = data_dir_->SetClusterId(cluster_id);
  if (absl::IsResourceExhausted(bound)) {
    // The retry is not urgent, because the log or the checkpoint holds the id, too.
    log_.unbound_cluster_id = std::move(cluster_id);
    shared_.binding_waits.store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  if (!bound.ok()) return bound;
  log_.unbound_cluster_id.clear();
  shared_.binding_waits.store(false, std::memory_order_relaxed);
  if (is_new) observer_->OnClusterId(cluster_id);
  return absl::OkStatus();
}

}  // namespace quorate::consensus
