// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/durability.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

Durability::Durability(Index last_index, Index commit_hint, uint64_t commit_hint_entries)
    : commit_hint_entries_(commit_hint_entries),
      durable_(last_index),
      handed_(last_index),
      commit_hint_(commit_hint) {}

void Durability::Truncated(Index index) {
  durable_ = std::min(durable_, index);
  for (InProgress& batch : in_progress_) batch.last = std::min(batch.last, index);
  if (handed_ <= index) return;
  truncate_after_ = truncate_after_ ? std::min(*truncate_after_, index) : index;
  handed_ = index;
}

void Durability::Reset(Index index) {
  ASSERT(!truncate_after_, "dropped entries are removed before a snapshot is installed");
  durable_ = handed_ = index;
  for (InProgress& batch : in_progress_) batch.last = std::min(batch.last, index);
}

bool Durability::IsDue(Index last_index) const {
  return hard_state_changed_ || truncate_after_ || handed_ < last_index;
}

Durability::Batch Durability::Take(Index last_index, Index commit, uint64_t now_ticks) {
  ASSERT(IsDue(last_index));
  Batch batch;
  batch.id = ++last_batch_;
  // The hint covers only entries that are durable already. Otherwise the hard state could become
  // durable without the entries in the same batch, and would then mark entries as committed that
  // are still to be replaced in the log.
  const Index hint = std::max(std::min(commit, durable_), commit_hint_);
  if (hard_state_changed_ || hint - commit_hint_ >= commit_hint_entries_) {
    batch.commit_hint = commit_hint_ = hint;
  }
  batch.hard_state_changed = std::exchange(hard_state_changed_, false);
  if (batch.hard_state_changed) hard_state_batch_ = batch.id;
  batch.member_state_changed = std::exchange(member_state_changed_, false);
  if (batch.member_state_changed) member_state_batch_ = batch.id;
  batch.truncate_after = std::exchange(truncate_after_, std::nullopt);
  batch.first = handed_ + 1;
  batch.last = handed_ = last_index;
  in_progress_.push_back({batch.id, batch.last, now_ticks});
  return batch;
}

bool Durability::Persisted(PersistId id) {
  ASSERT(id <= last_batch_, "the batch was handed out");
  if (id <= persisted_) return false;
  persisted_ = id;
  while (!in_progress_.empty() && in_progress_.front().id <= id) {
    durable_ = std::max(durable_, in_progress_.front().last);
    in_progress_.pop_front();
  }
  ASSERT(durable_ <= handed_);
  return true;
}

uint64_t Durability::WaitedTicks(uint64_t now_ticks) const {
  return in_progress_.empty() ? 0 : now_ticks - in_progress_.front().handed_ticks;
}

void Durability::CheckInvariants(Index last_index) const {
  ASSERT(durable_ <= handed_);
  ASSERT(handed_ <= last_index);
  ASSERT(!truncate_after_ || *truncate_after_ <= handed_);
  ASSERT(!member_state_changed_ || hard_state_changed_);
  PersistId previous = persisted_;
  for (const InProgress& batch : in_progress_) {
    ASSERT(batch.id > previous);
    ASSERT(batch.last <= handed_);
    previous = batch.id;
  }
  ASSERT(previous == last_batch_);
}

}  // namespace quorate::consensus
