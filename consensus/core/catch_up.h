// SPDX-License-Identifier: Apache-2.0

// Whether a follower has caught up with its leader, so that it may become a voter. A voter that has
// not would take part in majorities without having the entries, and commits would wait for it.
//
// The rule is that of Ongaro's thesis, 4.2.1. Replication to a follower is divided into rounds. A
// round begins with a position of the leader's log, its end at that time, and is complete when the
// follower has everything up to there durably; meanwhile other entries are appended, which the next
// round replicates. The follower has caught up if its last complete round took less than an election
// timeout: then what it still lacks takes less than that, too, at the same speed. The number of
// entries does not matter, because a lag that is large for a slow disk is small for a fast one.
//
// Here the rounds go on without end, and the round in progress counts as well: a follower that has
// stopped acknowledging is not caught up any more when that round takes an election timeout. Time is
// counted in ticks of the leader. Any follower is tracked from the time that its leader is elected,
// or that it is added.
//
// Thread-safety: none; a value of Progress.
#pragma once

#include <algorithm>
#include <string>

#include "base/assert.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class CatchUp {
 public:
  // Begins the first round. `last_index` is the end of the leader's log.
  explicit CatchUp(Index last_index) : round_end_(last_index) {}

  // Records that a tick has passed. `match` is the index up to which the follower has the log
  // durably, and `last_index` the end of the leader's log.
  void Tick(Index match, Index last_index) {
    constexpr int kTicksMax = 1 << 30;
    round_ticks_ = std::min(round_ticks_ + 1, kTicksMax);
    Advance(match, last_index);
  }
  // Completes the round if the follower has all of it, and begins the next one.
  void Advance(Index match, Index last_index) {
    ASSERT(match <= last_index);
    if (match < round_end_) return;
    last_round_ticks_ = round_ticks_;
    round_ticks_ = 0;
    round_end_ = last_index;
  }
  // Begins with the first round again, because the follower has lost entries.
  void Restart(Index last_index) { *this = CatchUp(last_index); }

  // Returns whether the last complete round took less than `election_ticks`, and the one in progress
  // has not taken as long.
  bool IsCaughtUp(int election_ticks) const {
    return last_round_ticks_ != kNone && last_round_ticks_ < election_ticks &&
           round_ticks_ < election_ticks;
  }
  // Returns how far a follower that has not caught up is, for the message of a refusal. The
  // arguments are those of Tick and IsCaughtUp.
  std::string Describe(Index match, Index last_index, int election_ticks) const {
    std::string text = "it lags by " + std::to_string(last_index - match) + " entries; ";
    if (last_round_ticks_ == kNone) {
      text += "its first round of catching up, up to index " + std::to_string(round_end_.value()) +
              ", has taken " + std::to_string(round_ticks_) + " ticks so far";
    } else if (round_ticks_ >= election_ticks) {
      text += "the current round of catching up, up to index " +
              std::to_string(round_end_.value()) + ", has taken " + std::to_string(round_ticks_) +
              " ticks so far";
    } else {
      text += "its last round of catching up took " + std::to_string(last_round_ticks_) + " ticks";
    }
    return text + "; a round must take less than an election timeout, " +
           std::to_string(election_ticks) + " ticks";
  }

 private:
  static constexpr int kNone = -1;

  Index round_end_;
  int round_ticks_ = 0;           // since the round began
  int last_round_ticks_ = kNone;  // of the last complete round; kNone: there is none yet
};

}  // namespace quorate::consensus
