// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/testing/test_member.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {

uint64_t TestRandom::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<TermRun> RunsOf(std::span<const Entry> log) {
  std::vector<TermRun> runs;
  for (const Entry& entry : log) {
    if (runs.empty() || runs.back().term != entry.term) runs.push_back({entry.index, entry.term});
  }
  return runs;
}

TestMember::TestMember(RaftOptions options, Disk disk, RandomSource* random)
    : id(options.self), options_(std::move(options)), random_(*random), disk_(std::move(disk)) {
  const size_t applied = disk_.checkpoint ? disk_.checkpoint->index.value() : 0;
  ASSERT(applied <= disk_.log.size());
  applied_.assign(disk_.log.begin(), disk_.log.begin() + static_cast<std::ptrdiff_t>(applied));
  Start(Index{applied});
}

std::string CheckpointOf(std::span<const Entry> applied) {
  Message message;
  AppendRequest request;
  request.entries.assign(applied.begin(), applied.end());
  message.body = std::move(request);
  std::string bytes;
  EncodeMessage(message, &bytes);
  return bytes;
}

namespace {

std::vector<Entry> EntriesOf(std::string checkpoint) {
  const auto buffer = std::make_shared<const std::string>(std::move(checkpoint));
  absl::StatusOr<Message> message = DecodeMessage(buffer, *buffer);
  ASSERT(message.ok(), "a checkpoint arrives as it was sent");
  return std::get<AppendRequest>(message->body).entries;
}

}  // namespace

void TestMember::AlignLog(const SnapshotMeta& meta) {
  const size_t index = meta.index.value();
  if (disk_.log.size() >= index && disk_.log[index - 1].term == meta.term) return;
  ASSERT(applied_.size() >= index);
  disk_.log.assign(applied_.begin(), applied_.begin() + static_cast<std::ptrdiff_t>(index));
  disk_.base = meta.index;
}

void TestMember::Start(Index applied) {
  ASSERT(!running());
  if (disk_.checkpoint) AlignLog(*disk_.checkpoint);
  ASSERT(applied.value() <= disk_.log.size());
  ASSERT(applied.value() <= applied_.size());
  applied_.resize(applied.value());
  log_ = disk_.log;
  handed_out_ = applied;
  last_batch_ = PersistId{0};
  followed_ = SnapshotMeta{{}, {}, options_.membership, kVersionBase};
  for (const Entry& entry : applied_) Follow(entry, &followed_);
  if (disk_.checkpoint && disk_.checkpoint->index == applied) followed_ = *disk_.checkpoint;
  status = Status{};
  truncations = 0;
  InitialState state;
  state.hard_state = disk_.hard_state;
  if (disk_.checkpoint && disk_.checkpoint->term > disk_.hard_state.term) {
    // The checkpoint is older than the hard state of its term. Therefore no vote was given in that
    // term.
    state.hard_state.term = disk_.checkpoint->term;
    state.hard_state.vote = kNoMember;
  }
  state.last_index = Index{disk_.log.size()};
  state.base_index = disk_.base;
  if (disk_.base > Index{0}) state.base_term = disk_.log[disk_.base.value() - 1].term;
  const auto kept = std::span(disk_.log).subspan(disk_.base.value());
  state.term_runs = RunsOf(kept);
  for (const Entry& entry : kept) {
    if (IsControl(entry.kind)) state.control_entries.push_back(entry);
    state.size_runs.push_back({entry.index, entry.ByteSize()});
  }
  state.checkpoint = disk_.checkpoint;
  state.applied = applied;
  options_.directory_epoch = disk_.directory_epoch;
  raft_ = std::make_unique<Raft>(options_, state, &random_);
  raft_->CheckInvariants();
}

void TestMember::Collect(std::string* trace) {
  while (raft_->HasOutput()) {
    Output output = raft_->TakeOutput();
    raft_->CheckInvariants();
    ASSERT(output.persist_id || output.apply || output.status || output.membership ||
               output.install || output.discard_staging || !output.snapshot_writes.empty() ||
               output.compact_to || !output.snapshot_rejections.empty() ||
               output.checkpoint_wanted || !output.snapshot_reads.empty() ||
               !output.messages_now.empty() || !output.log_reads.empty() || !output.reads.empty(),
           "HasOutput returns whether there is work");
    if (trace != nullptr) *trace += ToString(output);
    Take(std::move(output));
  }
}

void TestMember::Take(Output output) {
  if (output.persist_id) {
    ASSERT(!installing_, "no batch is handed out while a snapshot is installed");
    ASSERT(*output.persist_id == last_batch_ + 1);
    last_batch_ = *output.persist_id;
    if (output.truncate_after) {
      ASSERT(output.truncate_after->value() < log_.size(), "there is something to drop");
      log_.resize(output.truncate_after->value());
      ++truncations;
    }
    for (const Entry& entry : output.entries) {
      ASSERT(entry.index.value() == log_.size() + 1);
      log_.push_back(entry);
    }
    batches_.push_back({*output.persist_id, output.directory_epoch, output.hard_state,
                        output.truncate_after, std::move(output.entries),
                        std::move(output.messages_after_persist)});
  } else {
    ASSERT(!output.directory_epoch && !output.hard_state && !output.truncate_after);
    ASSERT(output.entries.empty() && output.messages_after_persist.empty());
  }
  ASSERT(Index{log_.size()} == raft_->last_index());
  for (Message& message : output.messages_now) Release(std::move(message));
  if (output.apply) {
    ASSERT(!installing_);
    ASSERT(output.apply->first == handed_out_ + 1, "apply has no gaps");
    handed_out_ = output.apply->last;
    applying_.push_back(std::move(*output.apply));
  }
  for (const LogReadRequest& request : output.log_reads) log_reads_.push_back(request);
  for (const SnapshotReadRequest& request : output.snapshot_reads) {
    snapshot_reads_.push_back(request);
  }
  if (output.discard_staging) {
    // Chunks that were handed out before the discard are still answered, in order.
    discard_after_ = snapshot_writes_.size();
    if (discard_after_ == 0) DiscardStaging();
  }
  for (SnapshotWriteRequest& write : output.snapshot_writes) {
    snapshot_writes_.push_back(std::move(write));
  }
  for (SnapshotRejection& rejection : output.snapshot_rejections) {
    snapshot_rejections.push_back(std::move(rejection));
  }
  if (output.checkpoint_wanted) checkpoint_wanted = output.checkpoint_wanted;
  if (output.compact_to) {
    ASSERT(disk_.checkpoint && *output.compact_to <= disk_.checkpoint->index);
    ASSERT(output.compact_to->value() <= disk_.log.size(), "only durable entries are compacted");
    ASSERT(*output.compact_to > disk_.base);
    disk_.base = *output.compact_to;
    ++compactions;
  }
  if (output.install) {
    ASSERT(!installing_ && !output.persist_id && !output.apply);
    installing_ = std::move(output.install);
  }
  if (output.membership) {
    membership = std::move(output.membership);
  }
  ASSERT(membership == raft_->membership());
  for (const ReadResult& read : output.reads) reads.push_back(read);
  if (output.status) {
    ASSERT(*output.status != status || *output.status == Status{});
    status = *output.status;
  }
}

void TestMember::Release(Message message) {
  ASSERT(message.from == id && message.to != id);
  const Term term = disk_.hard_state.term;
  if (const auto* ack = std::get_if<AppendAccepted>(&message.body)) {
    ASSERT(ack->match_index.value() <= disk_.log.size(), "only durable entries are acknowledged");
    ASSERT(!message.voting || disk_.hard_state.member_state == MemberState::kNormal);
  }
  const auto* response = std::get_if<VoteResponse>(&message.body);
  if (response && response->granted && !response->pre_vote) {
    ASSERT(term > message.term || (term == message.term && disk_.hard_state.vote == message.to));
  }
  const auto* request = std::get_if<VoteRequest>(&message.body);
  if (request && !request->pre_vote) {
    ASSERT(term > message.term || (term == message.term && disk_.hard_state.vote == id));
  }
  outbox.push_back(std::move(message));
}

void TestMember::Persist(size_t count) {
  ASSERT(count > 0 && count <= batches_.size());
  PersistId newest;
  for (; count > 0; --count) {
    Batch& batch = batches_.front();
    if (batch.directory_epoch) disk_.directory_epoch = *batch.directory_epoch;
    if (batch.hard_state) disk_.hard_state = *batch.hard_state;
    if (batch.truncate_after) disk_.log.resize(batch.truncate_after->value());
    for (Entry& entry : batch.entries) disk_.log.push_back(std::move(entry));
    for (Message& message : batch.messages) Release(std::move(message));
    newest = batch.id;
    batches_.pop_front();
  }
  raft_->Persisted(newest);
  ASSERT(raft_->durable_index().value() <= disk_.log.size());
}

void TestMember::ApplyOne() {
  ASSERT(can_apply());
  ApplyRange range = std::move(applying_.front());
  applying_.pop_front();
  if (range.entries.empty()) {
    ++ranges_from_log;
    ASSERT(range.last.value() <= disk_.log.size(), "only durable entries are left to the log");
    ASSERT(range.first > disk_.base, "entries left to the log are not compacted");
    range.entries.assign(disk_.log.begin() + static_cast<std::ptrdiff_t>(range.first.value() - 1),
                         disk_.log.begin() + static_cast<std::ptrdiff_t>(range.last.value()));
  }
  ASSERT(range.entries.back().index == range.last);
  for (Entry& entry : range.entries) {
    ASSERT(entry.index.value() == applied_.size() + 1);
    Follow(entry, &followed_);
    ASSERT(followed_.version <= options_.version, "this program understands all applied entries");
    applied_.push_back(std::move(entry));
  }
  raft_->Applied(range.last);
}

void TestMember::AnswerLogRead() {
  ASSERT(can_read_log());
  const LogReadRequest request = log_reads_.front();
  log_reads_.pop_front();
  std::vector<Entry> entries;
  size_t bytes = 0;
  // Entries that were compacted in the meantime are out of range.
  if (request.first <= disk_.base) return;
  for (Index i = request.first; i <= request.last && i.value() <= disk_.log.size(); ++i) {
    const Entry& entry = disk_.log[i.value() - 1];
    bytes += entry.ByteSize();
    if (!entries.empty() && bytes > request.bytes_max) break;
    entries.push_back(entry);
  }
  // Another leader may have truncated the log since.
  if (entries.empty()) return;
  ++log_reads_answered;
  raft_->LogRead(request.follower, std::move(entries));
}

void TestMember::Checkpoint() {
  ASSERT(!applied_.empty() && !installing_);
  disk_.checkpoint = followed_;
  checkpoints_[followed_.index] = {followed_, CheckpointOf(applied_)};
  raft_->Checkpointed(followed_.index);
}

void TestMember::AnswerSnapshotRead() {
  ASSERT(can_read_snapshot());
  const SnapshotReadRequest request = snapshot_reads_.front();
  snapshot_reads_.pop_front();
  const Index newest = disk_.checkpoint ? disk_.checkpoint->index : Index{0};
  const auto checkpoint = checkpoints_.find(request.index == Index{0} ? newest : request.index);
  if (checkpoint == checkpoints_.end()) return raft_->SnapshotReadFailed(request.follower);
  const auto& [meta, bytes] = checkpoint->second;
  ASSERT(request.offset <= bytes.size());
  const std::string chunk = bytes.substr(request.offset, request.bytes_max);
  const bool last = request.offset + chunk.size() == bytes.size();
  ++chunks_read;
  raft_->SnapshotRead(request.follower, meta, request.offset, Slice(chunk), last);
}

void TestMember::StageOne() {
  ASSERT(can_stage());
  const SnapshotWriteRequest request = std::move(snapshot_writes_.front());
  snapshot_writes_.pop_front();
  if (request.offset == 0) staged_.clear();
  if (request.offset == 0) staged_meta_ = request.meta;
  const bool follows = staged_meta_ == request.meta && request.offset == staged_.size();
  ASSERT(follows || staging_failed_, "a chunk follows the previous one");
  if (follows) staged_ += request.bytes.view();
  if (follows) staging_failed_ = false;
  RecordStaged();
  if (follows) {
    raft_->SnapshotWritten(request.meta.index, staged_.size());
  } else {
    raft_->SnapshotWriteFailed(request.meta.index, "does not follow");
  }
}

void TestMember::FailToStage(const std::string& reason) {
  ASSERT(can_stage());
  const Index index = snapshot_writes_.front().meta.index;
  snapshot_writes_.pop_front();
  staged_.clear();
  staged_meta_.reset();
  staging_failed_ = true;
  RecordStaged();
  raft_->SnapshotWriteFailed(index, reason);
}

void TestMember::RecordStaged() {
  if (discard_after_ > 0 && --discard_after_ == 0) DiscardStaging();
}

void TestMember::DiscardStaging() {
  ASSERT(!installing_);
  staged_.clear();
  staged_meta_.reset();
  ++discards;
}

void TestMember::Install() {
  ASSERT(can_install());
  if (!batches_.empty()) Persist(batches_.size());
  while (can_apply()) ApplyOne();
  const SnapshotMeta meta = *installing_;
  ASSERT(staged_meta_ == meta);
  installing_.reset();
  applied_ = EntriesOf(staged_);
  ASSERT(Index{applied_.size()} == meta.index);
  followed_ = SnapshotMeta{{}, {}, options_.membership, kVersionBase};
  for (const Entry& entry : applied_) Follow(entry, &followed_);
  ASSERT(followed_ == meta, "the metadata of a snapshot equals that of the log");
  disk_.checkpoint = meta;
  checkpoints_.clear();
  checkpoints_[meta.index] = {meta, staged_};
  disk_.log = applied_;
  disk_.base = meta.index;
  log_ = applied_;
  handed_out_ = meta.index;
  ++installs;
  raft_->SnapshotInstalled(meta.index);
}

void TestMember::Crash(const Torn& torn) {
  ASSERT(running());
  if (torn.whole_batches > 0) Persist(std::min(torn.whole_batches, batches_.size()));
  const size_t hard_states = std::min(torn.hard_states, batches_.size());
  for (size_t i = 0; i < hard_states; ++i) {
    if (batches_[i].directory_epoch) disk_.directory_epoch = *batches_[i].directory_epoch;
    if (batches_[i].hard_state) disk_.hard_state = *batches_[i].hard_state;
  }
  if (!batches_.empty() && (hard_states > 0 || !batches_.front().hard_state)) {
    Batch& batch = batches_.front();
    if (batch.truncate_after && torn.cut) disk_.log.resize(batch.truncate_after->value());
    if (!batch.truncate_after || torn.cut) {
      for (size_t i = 0; i < std::min(torn.entries, batch.entries.size()); ++i) {
        disk_.log.push_back(batch.entries[i]);
      }
    }
  }
  raft_.reset();
  batches_.clear();
  applying_.clear();
  log_reads_.clear();
  snapshot_reads_.clear();
  snapshot_writes_.clear();
  staged_.clear();
  staged_meta_.reset();
  staging_failed_ = false;
  discard_after_ = 0;
  installing_.reset();
  outbox.clear();
  reads.clear();
}

void TestMember::Restart(Index applied) {
  applied = std::min({applied, Index{applied_.size()}, Index{disk_.log.size()}});
  if (disk_.checkpoint) applied = std::max(applied, disk_.checkpoint->index);
  Start(applied);
}

void TestMember::RestartNew() {
  ASSERT(!running());
  disk_ = Disk{};
  disk_.hard_state.member_state = MemberState::kNew;
  applied_.clear();
  checkpoints_.clear();
  ++directories_lost_;
  Start(Index{0});
}

}  // namespace quorate::consensus
