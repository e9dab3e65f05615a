// SPDX-License-Identifier: Apache-2.0

// The time that a member waits for a leader before it starts an election (paper 5.2), and the time
// since it last heard from one.
//
// Two times are counted in ticks. The election timer is restarted by messages of a leader, granted
// votes and campaigns. The silence is ended by messages of a leader only: it decides whether this
// member refuses votes for another (thesis 4.2.3), and clients see it.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "consensus/core/options.h"

namespace quorate::consensus {

class ElectionTimer {
 public:
  // REQUIRES: both are positive.
  ElectionTimer(int election_ticks, int heartbeat_ticks)
      : election_ticks_(election_ticks), heartbeat_ticks_(heartbeat_ticks) {}

  // Restarts the timer, with a timeout of at least `election_ticks` and less than twice as much. It
  // is drawn again each time, so that two members that tie once do not tie again.
  void Restart(RandomSource* random) {
    const auto ticks = static_cast<uint64_t>(election_ticks_);
    elapsed_ticks_ = 0;
    timeout_ticks_ = static_cast<int>(ticks + random->Next() % ticks);
    ASSERT(timeout_ticks_ >= election_ticks_);
  }
  // Records a tick of a member that does not lead.
  void Tick() {
    constexpr int kTicksMax = 1 << 30;
    silence_ticks_ = std::min(silence_ticks_ + 1, kTicksMax);
    ++elapsed_ticks_;
  }
  // Records a message of the leader, and restarts the timer.
  void HeardLeader(RandomSource* random) {
    silence_ticks_ = 0;
    ++leader_contacts_;
    Restart(random);
  }
  // Records that this member no longer leads: until now it knew of a leader, itself.
  void EndedLeading() { silence_ticks_ = 0; }
  // Lets the timer expire soon, because the leader has probably died: counts the leader as not heard
  // from, so that this member grants pre-votes. If the leader is alive after all, its next heartbeat
  // arrives first, or a pre-vote fails because members that still hear from it refuse it.
  void ExpireSoon(RandomSource* random) {
    const auto spread = static_cast<uint64_t>(std::max(1, heartbeat_ticks_ / 2));
    const int soon = elapsed_ticks_ + 1 + static_cast<int>(random->Next() % spread);
    silence_ticks_ = std::max(silence_ticks_, election_ticks_);
    timeout_ticks_ = std::min(timeout_ticks_, soon);
  }

  bool has_expired() const { return elapsed_ticks_ >= timeout_ticks_; }
  // Returns the number of coming ticks in which the timer does not expire.
  int IdleTicks() const { return std::max(0, timeout_ticks_ - elapsed_ticks_ - 1); }
  // Returns whether a leader was heard from within the shortest timeout.
  bool hears_leader() const { return silence_ticks_ < election_ticks_; }
  int silence_ticks() const { return silence_ticks_; }
  // Returns the number of times that a leader was heard from.
  uint64_t leader_contacts() const { return leader_contacts_; }

 private:
  const int election_ticks_;
  const int heartbeat_ticks_;
  int elapsed_ticks_ = 0;
  int timeout_ticks_ = 0;
  int silence_ticks_ = 0;
  uint64_t leader_contacts_ = 0;
};

}  // namespace quorate::consensus
