// SPDX-License-Identifier: Apache-2.0

// Tracks which part of a member's log and hard state is durable, and which part is being written to
// the disk.
//
// The driver gets batches (Output::persist_id) in the order of their ids, and they become durable
// in that order. For the log,
//
//   durable() <= handed() <= the log's last index
//
// Entries above handed() are not in a batch yet. If an entry is replaced while a batch with it is
// being written, that batch does not make its index durable: only the batch with the replacement
// does (the ABA case of testdata/append_aba.txt).
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "consensus/core/types.h"

namespace quorate::consensus {

class Durability {
 public:
  struct Batch {
    PersistId id;
    // Set if the batch includes the hard state: the commit hint to write with it.
    std::optional<Index> commit_hint;
    // Whether term, vote or member state have changed since the previous batch.
    bool hard_state_changed = false;
    bool member_state_changed = false;
    // Entries above this index are dropped from the log on the disk before entries are appended.
    std::optional<Index> truncate_after;
    // The entries first..last are appended; none if last < first.
    Index first;
    Index last;
  };

  // Starts with a log that is durable up to `last_index`, and with a durable `commit_hint`. The
  // hint is written again with another change of the hard state, or as soon as the commit index is
  // `commit_hint_entries` ahead of it.
  Durability(Index last_index, Index commit_hint, uint64_t commit_hint_entries);

  // --- What is durable ---
  // Returns the last index up to which the log is durable.
  Index durable() const { return durable_; }
  // Returns the last index that was handed out in a batch.
  Index handed() const { return handed_; }
  // Returns the newest batch that is durable.
  PersistId persisted() const { return persisted_; }
  // Returns whether the present term, vote and member state are durable.
  bool IsHardStateDurable() const {
    return !hard_state_changed_ && hard_state_batch_ <= persisted_;
  }
  bool IsMemberStateDurable() const {
    return !member_state_changed_ && member_state_batch_ <= persisted_;
  }

  // --- Changes ---
  // Records that term or vote has changed.
  void HardStateChanged() { hard_state_changed_ = true; }
  void MemberStateChanged() { hard_state_changed_ = member_state_changed_ = true; }
  // Records that the entries above `index` were dropped from the log.
  void Truncated(Index index);
  // Records that a snapshot up to `index` was installed in place of the log. REQUIRES:
  // !truncate_due().
  void Reset(Index index);

  // --- Batches ---
  // Returns whether the next batch includes a change of term, vote or member state.
  bool IsHardStateDue() const { return hard_state_changed_; }
  std::optional<Index> truncate_due() const { return truncate_after_; }
  bool IsDue(Index last_index) const;
  // Returns the next batch, with the log up to `last_index`. `commit` is the commit index; the hint
  // made of it covers only entries that are durable already. REQUIRES: IsDue(last_index).
  Batch Take(Index last_index, Index commit, uint64_t now_ticks);
  // Records that batch `id` and all batches before it are durable. Returns false if that was known.
  // REQUIRES: batch `id` was taken.
  bool Persisted(PersistId id);
  // Returns the ticks for which the oldest batch has been written; 0 if no batch is being written.
  uint64_t WaitedTicks(uint64_t now_ticks) const;

  // Aborts if an invariant is violated. `last_index` is the log's last index.
  void CheckInvariants(Index last_index) const;

 private:
  struct InProgress {
    PersistId id;
    // Once the batch is durable, the log is durable up to this index. The index is lowered when
    // entries of the batch are replaced.
    Index last;
    uint64_t handed_ticks;
  };

  uint64_t commit_hint_entries_;
  Index durable_;
  Index handed_;
  Index commit_hint_;                    // commit hint of the last batch with a hard state
  bool hard_state_changed_ = false;      // since the last batch
  bool member_state_changed_ = false;    // since the last batch
  std::optional<Index> truncate_after_;  // for the next batch
  PersistId last_batch_;
  PersistId persisted_;
  PersistId hard_state_batch_;  // the last batch with a change of the hard state
  PersistId member_state_batch_;
  std::deque<InProgress> in_progress_;  // ascending by id
};

}  // namespace quorate::consensus
