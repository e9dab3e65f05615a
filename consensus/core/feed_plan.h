// SPDX-License-Identifier: Apache-2.0

// What a leader knows of the observers that followers feed instead of it (raft_feeding.cc), and of
// the followers that are ready to do so.
//
// An observer from which its feeder hears nothing is taken back: the leader feeds it itself, and
// gives it to another follower only after a wait that doubles with each failure.
//
// Thread-safety: none; a value of Raft.
#pragma once

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
  // Records that the connection to `feeder` is lost: it is not ready until it reports again.
  void FeederLost(MemberId feeder) { ticks_since_report_.erase(feeder); }

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
  // Returns whether there was no such report for `ticks` ticks.
  bool IsSilent(MemberId observer, int ticks) const;
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

 private:
  struct Observer {
    MemberId feeder;  // kNoMember: the leader
    Index match;
    int silent_ticks = 0;
    int wait_ticks = 0;
    MemberId failed_feeder;
    int failures = 0;  // since it was last fed for long
    int fed_ticks = 0;
  };

  std::map<MemberId, Observer> observers_;
  std::map<MemberId, int> ticks_since_report_;
};

}  // namespace quorate::consensus
