#include "consensus/core/test_member.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

uint64_t TestRandom::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<TermRun> RunsOf(const std::vector<Entry>& log) {
  std::vector<TermRun> runs;
  for (const Entry& entry : log) {
    if (runs.empty() || runs.back().term != entry.term) runs.push_back({entry.index, entry.term});
  }
  return runs;
}

TestMember::TestMember(RaftOptions options, Disk disk, RandomSource* random)
    : id(options.self), options_(std::move(options)), random_(*random), disk_(std::move(disk)) {
  Start(Index{0});
}

void TestMember::Start(Index applied) {
  ASSERT(!running());
  ASSERT(applied.value() <= disk_.log.size());
  ASSERT(applied.value() <= applied_.size());
  applied_.resize(applied.value());
  log_ = disk_.log;
  handed_out_ = applied;
  last_batch_ = PersistId{0};
  status = Status{};
  truncations = 0;
  const InitialState state{disk_.hard_state, Index{disk_.log.size()}, RunsOf(disk_.log), applied};
  raft_ = std::make_unique<Raft>(options_, state, &random_);
  raft_->CheckInvariants();
}

void TestMember::Collect(std::string* trace) {
  while (raft_->HasOutput()) {
    Output output = raft_->TakeOutput();
    raft_->CheckInvariants();
    ASSERT(output.persist_id || output.apply || output.status || !output.messages_now.empty() ||
               !output.log_reads.empty() || !output.reads.empty(),
           "HasOutput says that there is something");
    if (trace != nullptr) *trace += ToString(output);
    Take(std::move(output));
  }
}

void TestMember::Take(Output output) {
  if (output.persist_id) {
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
    batches_.push_back({*output.persist_id, output.hard_state, output.truncate_after,
                        std::move(output.entries), std::move(output.messages_after_persist)});
  } else {
    ASSERT(!output.hard_state && !output.truncate_after);
    ASSERT(output.entries.empty() && output.messages_after_persist.empty());
  }
  ASSERT(Index{log_.size()} == raft_->last_index());
  for (Message& message : output.messages_now) Release(std::move(message));
  if (output.apply) {
    ASSERT(output.apply->first == handed_out_ + 1, "apply has no gaps");
    handed_out_ = output.apply->last;
    applying_.push_back(std::move(*output.apply));
  }
  for (const LogReadRequest& request : output.log_reads) log_reads_.push_back(request);
  for (const ReadResult& read : output.reads) reads.push_back(read);
  if (output.status) {
    ASSERT(*output.status != status || *output.status == Status{});
    status = *output.status;
  }
}

void TestMember::Release(Message message) {
  ASSERT(message.from == id && message.to != id);
  const Term term = disk_.hard_state.term;
  if (const auto* ack = std::get_if<AppendResponse>(&message.body); ack && ack->success) {
    ASSERT(ack->match_index.value() <= disk_.log.size(), "no acknowledgement before durability");
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
    ASSERT(range.last.value() <= disk_.log.size(), "only what is durable is left to the log");
    range.entries.assign(disk_.log.begin() + static_cast<std::ptrdiff_t>(range.first.value() - 1),
                         disk_.log.begin() + static_cast<std::ptrdiff_t>(range.last.value()));
  }
  ASSERT(range.entries.back().index == range.last);
  for (Entry& entry : range.entries) {
    ASSERT(entry.index.value() == applied_.size() + 1);
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
  for (Index i = request.first; i <= request.last && i.value() <= disk_.log.size(); ++i) {
    const Entry& entry = disk_.log[i.value() - 1];
    bytes += entry.ByteSize();
    if (!entries.empty() && bytes > request.bytes_max) break;
    entries.push_back(entry);
  }
  // The log may have been cut since, by another leader.
  if (entries.empty()) return;
  ++log_reads_answered;
  raft_->LogRead(request.follower, std::move(entries));
}

void TestMember::Crash(const Torn& torn) {
  ASSERT(running());
  if (torn.whole_batches > 0) Persist(std::min(torn.whole_batches, batches_.size()));
  const size_t hard_states = std::min(torn.hard_states, batches_.size());
  for (size_t i = 0; i < hard_states; ++i) {
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
  outbox.clear();
  reads.clear();
}

void TestMember::Restart(Index applied) {
  Start(std::min({applied, Index{applied_.size()}, Index{disk_.log.size()}}));
}

}  // namespace quorate::consensus
