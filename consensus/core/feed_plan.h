// SPDX-License-Identifier: Apache-2.0

// What a leader knows of the observers that followers feed instead of it (raft_feeding.cc), and of
// the followers that are ready to do so.
//
// An observer whose feeder hears nothing from it, or is behind itself, is taken back: the leader feeds
// it itself, and gives it to another follower only after a wait that doubles with each failure.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::consensus {

class FeedPlan {
 public:
  // Returns who feeds `observer`; kNoMember: the leader itself.
  MemberId FeederOf(MemberId observer) const;
  // Returns the observers that `feeder` feeds, ascending.
  std::vector<MemberId> FedBy(MemberId feeder) const;
  // Returns the index up to which the durable log of `observer` equals the leader's, according to its
  // feeder; 0 if that is not known.
  Index MatchOf(MemberId observer) const;

  // --- Feeders ---
  // Records that `feeder` has reported that it is ready.
  void Reported(MemberId feeder) { ticks_since_report_[feeder] = 0; }
  // Returns whether that was less than `ticks_max` ticks ago.
  bool IsReady(MemberId feeder, int ticks_max) const;

  // --- Observers ---
  // Returns whether `observer` may be given to a feeder now.
  bool MayAssign(MemberId observer) const;
  // Returns the feeder out of `ready` that feeds the fewest observers, and the first one of these.
  // Avoids the one that failed last with `observer`, unless there is no other. REQUIRES: `ready` is
  // not empty.
  MemberId Choose(MemberId observer, const std::vector<MemberId>& ready) const;
  void Assign(MemberId observer, MemberId feeder);
  // Records that the feeder of `observer` reports that it hears from the observer, and its match.
  void ObserverReported(MemberId observer, Index match);
  // Returns whether there was no such report for `ticks` ticks; `first_ticks` ticks if there was none
  // since `observer` was assigned.
  bool IsSilent(MemberId observer, int first_ticks, int ticks) const;
  // Returns whether `observer` had, at the last report, everything that was committed kSyncIntervals
  // heartbeat intervals earlier. A report says what was acknowledged some time ago: while there are
  // writes, it never has what is committed now.
  bool IsInSync(MemberId observer) const;
  // Records that the directory of `observer` was replaced: its match is not known any more.
  void ForgetMatch(MemberId observer);
  // Records that the leader feeds `observer` again, because its feeder heard nothing from it. It is
  // not given away for `ticks` ticks, doubled with each failure.
  void Failed(MemberId observer, int ticks);
  // Records that the leader feeds `observer` again, for at least `ticks` ticks.
  void Hold(MemberId observer, int ticks);
  void Forget(MemberId observer) { observers_.erase(observer); }

  // Records that a tick has passed.
  void Tick();
  // Records that a heartbeat interval begins, and the commit index of that time.
  void IntervalBegins(Index commit);

 private:
  // An entry takes at most one interval to the observer and back. The report takes the next one.
  static constexpr size_t kSyncIntervals = 2;

  struct Observer {
    MemberId feeder;  // kNoMember: the leader
    Index match;
    bool is_reported = false;  // since it was assigned
    bool is_in_sync = false;
    int silent_ticks = 0;
    int wait_ticks = 0;
    MemberId failed_feeder;
    int failures = 0;  // since it was last fed for long
    int fed_ticks = 0;
  };

  std::map<MemberId, Observer> observers_;
  std::map<MemberId, int> ticks_since_report_;
  std::deque<Index> commits_;  // at the last kSyncIntervals + 1 beginnings of intervals
};

}  // namespace quorate::consensus
