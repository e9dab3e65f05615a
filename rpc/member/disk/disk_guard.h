// Decides what a member does when disks become full. A disk with less free space than a reserve is
// *low*. The cluster goes on then, but accepts nothing more that has to be kept:
//  - A leader whose disk is low hands leadership over to a voter that has free space.
//  - If no majority of the voters has free space, the leader reports that writes which add data are
//    refused. All members refuse them at their front ends, before such a write is accepted.
//  - A follower whose disk is low reports that to the leader. If its log is full, it only lags.
// Deletions, and the writes that keep sessions alive or end them, are never refused: the reserve is
// for them, and for the checkpoint that allows the log before it to be removed.
//
// Other programs may fill a disk below the reserve, until nothing is free. Therefore each member
// that has data keeps two ballast files (consensus/log/ballast_file.h), one of the size of a log
// file and one of twice that size. (A member has data if it has a checkpoint or an eighth of a log
// file: before that, the rest of the log file serves the same purpose as a ballast file.)
//  - The log's becomes the next log file when there is no free space for one, but only while writes
//    that add data are refused: a follower whose disk alone is full just lags. The only data that
//    is still added then was accepted, here or by other members, before they received the report.
//  - The checkpoints' is given up when a checkpoint finds no free space; then the checkpoint is
//    tried again. While writes that add data are refused and the log has no ballast file,
//    checkpoints are taken repeatedly, and the log before each is removed.
// At first, both are made only of space that is free above the reserve.
// Later, both are made again of space that becomes free: that of the checkpoints first, as soon as
// a checkpoint is written, and then that of the log. While writes that add data are refused, the
// log uses free space on a disk that it shares with the checkpoints only if these have their
// ballast file; and until the log has its own again, the disk counts as low. So deletions and the
// ends of sessions go on as long as each checkpoint frees as much space as was written since the
// one before.
//
// Reports are repeated as long as there is something to report, and are forgotten when they stop.
// So no message says that all is well, and a lost message does no harm.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "consensus/core/types.h"
#include "rpc/peer/frame.h"

namespace quorate::rpc {

class DiskGuard {
 public:
  struct Options {
    consensus::MemberId self;
    int report_ticks = 1;    // between two reports
    int forget_ticks = 1;    // until a report expires, and between attempts to hand over
    int patience_ticks = 1;  // of a low leader, until it refuses data because it still leads
  };
  // The state of the cluster that the decisions depend on.
  struct View {
    consensus::MemberId leader;  // kNoMember: none is known
    const consensus::Membership* membership = nullptr;
    // Returns whether a voter is reachable. Called at a leader.
    std::function<bool(consensus::MemberId)> follows;
    bool own_disk_low = false;
  };
  struct Actions {
    // If not empty, leadership is to be handed over now, to one of these voters.
    std::vector<consensus::MemberId> successors;
    // The report that is to be sent now, and its receivers.
    DiskReport report;
    std::vector<consensus::MemberId> report_to;
  };

  explicit DiskGuard(Options options) : options_(options) {}

  // Takes the report of another member.
  void OnReport(consensus::MemberId from, const DiskReport& report);
  // Advances by one tick, and returns what is to be done now.
  Actions Tick(const View& view);

  // Returns whether writes that add data are refused.
  bool refuses_data() const { return refuses_data_; }

 private:
  bool IsLow(consensus::MemberId member) const;
  void Lead(const View& view, Actions* actions);

  const Options options_;
  int64_t now_ticks_ = 0;
  struct Heard {
    DiskReport report;
    int64_t ticks = 0;  // when it was received
  };
  std::map<consensus::MemberId, Heard> heard_;
  int64_t low_since_ticks_ = -1;    // since when this leader's disk is low; -1: it is not
  int64_t next_attempt_ticks_ = 0;  // the next attempt to hand over
  bool refuses_data_ = false;
};

}  // namespace quorate::rpc
