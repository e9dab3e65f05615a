// SPDX-License-Identifier: Apache-2.0

// Two parts of the recovery from lost disks (data_loss.cc) that wait for other members.
//
// Thread-safety: none; values of Raft.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::consensus {

// The reports of other members that they know a later data directory of this member than its own.
// The first report is not trusted, because the message may be an old one: each member is asked
// again, and a report counts as confirmed after several answers.
class LaterDirectoryReports {
 public:
  // A report is confirmed by `confirmations` answers to questions.
  explicit LaterDirectoryReports(int confirmations) : confirmations_needed_(confirmations) {}

  bool empty() const { return reports_.empty(); }
  // `from` knows no later directory.
  void Withdraw(MemberId from) { reports_.erase(from); }
  // `from` reports a later directory. Returns true if that was the answer to a question, and so a
  // confirmation.
  bool Record(MemberId from);
  // Returns the number of members whose report is confirmed.
  size_t confirmed() const;
  // Runs at each tick, `now`. Returns the members to ask, ascending: those that were not asked within
  // the last `retry_ticks`. Forgets members that have not answered within `answer_ticks`.
  std::vector<MemberId> Tick(uint64_t now, uint64_t retry_ticks, uint64_t answer_ticks);

 private:
  struct Report {
    int confirmations = 0;
    uint64_t asked_ticks = 0;
    bool asked = false;  // the member was asked, and has not answered
  };
  const int confirmations_needed_;
  std::map<MemberId, Report> reports_;
};

// The voters that may not know this member's data directory, which replaced a lost one. Each of
// them is asked to record it until it has, so that two directories of one member never both vote,
// even if the lost one comes back.
class DirectoryAnnouncements {
 public:
  bool empty() const { return to_.empty(); }
  void Add(MemberId member) { to_.insert(member); }
  // `member` has recorded the directory.
  void Recorded(MemberId member) { to_.erase(member); }
  // Runs at each tick. Returns the members to announce the directory to, ascending: all of them, once
  // in `period_ticks`. Forgets those for which `is_voter(member)` is false.
  template <class IsVoter>
  std::vector<MemberId> Tick(int period_ticks, const IsVoter& is_voter) {
    if (to_.empty() || ++ticks_ < period_ticks) return {};
    ticks_ = 0;
    std::erase_if(to_, [&](MemberId member) { return !is_voter(member); });
    return {to_.begin(), to_.end()};
  }

 private:
  std::set<MemberId> to_;
  int ticks_ = 0;  // since the last announcement
};

}  // namespace quorate::consensus
