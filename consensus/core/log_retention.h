// SPDX-License-Identifier: Apache-2.0

// Decides how much of the log before a checkpoint is kept, and for whom.
//
// Entries before the newest durable checkpoint are not needed by this member. They are kept for
// followers, because entries take less than a checkpoint to send:
//
//   for                                  back to                          bound
//   every follower                       `trailing_entries` before the    none
//                                        checkpoint
//   a follower that lags, and was        the end of the log that it is    retained_entries_max,
//   heard from recently                  known to have                    retained_bytes_max
//   a follower that receives a           the checkpoint that it           transfer_bytes_max
//   checkpoint, or catches up after one  receives, or its own end
//   the followers of a member that       the checkpoint before the        retained_entries_max,
//   does not lead, if it leads later     newest one                       retained_bytes_max
//   the followers of a leadership that   as in that leadership            transfer_bytes_max
//   ended less than `stall_ticks` ago
//
// The bounds count from the newest checkpoint. While the disk is almost full, only the first line
// holds. Entries that are not durable here are kept in any case.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/core/log_sizes.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class LogRetention {
 public:
  // The fields of RaftOptions with the same names, with the defaults of those in ticks filled in.
  struct Limits {
    uint64_t trailing_entries = 0;
    uint64_t retained_entries_max = 0;
    uint64_t retained_bytes_max = 0;
    uint64_t transfer_bytes_max = 0;
    int retained_ticks_max = 0;
    int stall_ticks = 0;
  };
  // What a leader knows of a follower (Progress).
  struct Follower {
    Index match{};
    Index held_from{};  // 0: nothing is held for a transfer or the time after one
    bool receives_checkpoint = false;
    int ticks_since_heard = 0;
  };

  // Starts with `checkpoint` as the newest durable checkpoint, 0 if there is none. `base` is the
  // index after which the log begins: the checkpoint before the newest one is not known.
  LogRetention(const Limits& limits, Index checkpoint, Index base)
      : limits_(limits), checkpoint_(checkpoint), previous_checkpoint_(base) {}

  // Returns the index of the newest durable checkpoint.
  Index checkpoint() const { return checkpoint_; }
  // Returns whether the disk is almost full.
  bool space_is_short() const { return space_is_short_; }

  // Records that the checkpoint of `index` is durable, while the log begins after `base`. Ignores a
  // checkpoint that is not newer than the newest.
  void Checkpointed(Index index, Index base);
  // Records that a snapshot of `index` was installed in place of the log.
  void Reset(Index index) { checkpoint_ = previous_checkpoint_ = index; }
  void SetSpaceIsShort(bool is_short) { space_is_short_ = is_short; }
  // Records that this member has ceased to lead or feed `followers`: what was held for them stays for
  // `stall_ticks`, because this member may soon do so again.
  void EndedSending(const std::vector<Follower>& followers, uint64_t now_ticks);

  // Returns whether `follower` needs no entry before the checkpoint any more, so that nothing has
  // to be held for it.
  bool IsCaughtUp(const Follower& follower) const {
    return !follower.receives_checkpoint && follower.match >= checkpoint_;
  }

  // Returns the index up to which a leader of `followers` may drop its log. It may be below the
  // log's base. `durable` is the index up to which the log is durable here, `sizes` those of its
  // entries.
  Index TargetAtLeader(Index durable, const LogSizes& sizes, uint64_t now_ticks,
                       const std::vector<Follower>& followers) const;
  // Returns the same at a member that does not lead. `has_other_voters` is whether the membership
  // has voters other than this member.
  Index TargetElsewhere(Index durable, const LogSizes& sizes, uint64_t now_ticks,
                        bool has_other_voters) const;

 private:
  // The part of the log that was held for followers when this member ceased to lead: the index
  // after which it is kept, and the time.
  struct FormerHold {
    Index from;
    uint64_t ended_ticks = 0;
  };

  // Returns the lowest index after which at most so much of the log before the checkpoint follows.
  Index Floor(const LogSizes& sizes, uint64_t entries_max, uint64_t bytes_max) const;
  Index RetainedFloor(const LogSizes& sizes) const;
  Index HeldFloor(const LogSizes& sizes) const;
  // Returns the target if no follower needs more than the trailing entries.
  Index TargetForNobody(Index durable) const;
  // Lowers `target` for what is still held after the end of a leadership.
  Index WithFormerHold(Index target, const LogSizes& sizes, uint64_t now_ticks) const;

  Limits limits_;
  Index checkpoint_;
  Index previous_checkpoint_;
  bool space_is_short_ = false;
  std::optional<FormerHold> former_hold_;
};

}  // namespace quorate::consensus
