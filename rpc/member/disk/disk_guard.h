// SPDX-License-Identifier: Apache-2.0

// Decides what a member does when disks become full. A disk with less free space than a reserve is
// *low*. A cluster with low disks keeps serving, with these restrictions:
//  - A leader whose disk is low transfers leadership to a voter that has free space.
//  - If no majority of the voters has free space, the leader reports to all members that writes
//    which add data are refused. Each member refuses such writes at its front ends, before it
//    accepts them.
//  - A follower whose disk is low reports that to the leader. If its log is full, it only lags.
// Deletions, and writes that keep sessions alive or end them, are never refused. The reserve is for
// these writes, and for the checkpoint that allows the log before it to be removed.
//
// Other programs may fill a disk until nothing of the reserve is left. Therefore each member that
// has data keeps two ballast files (consensus/log/ballast_file.h): one for the log, of the size of
// a log file, and one for the checkpoints, of twice that size. A member has data if it has a
// checkpoint or an eighth of a log file. Before that, the rest of the log file serves as ballast.
//  - The log's ballast file becomes the next log file when there is no free space for one, but only
//    while writes that add data are refused: a follower whose disk alone is full just lags. The
//    data that is still added then was accepted before the report was received, here or at other
//    members.
//  - The checkpoints' ballast file is removed when a checkpoint finds no free space; then the
//    checkpoint is tried again. While writes that add data are refused and the log has no ballast
//    file, checkpoints are taken repeatedly, and the log before each of them is removed.
// A ballast file is made for the first time only of space that is free above the reserve. After it
// was used, it is made again of any space that becomes free: first that of the checkpoints, as soon
// as a checkpoint is written, and then that of the log. While writes that add data are refused, a
// log that shares its disk with the checkpoints uses free space only if the checkpoints have their
// ballast file. Until the log has its own ballast file again, the disk counts as low. So deletions
// and the ends of sessions continue as long as each checkpoint frees as much space as was written
// since the one before.
//
// A report is repeated as long as its reason exists, and expires when it is not repeated. No
// message says that all is well, so a lost message does no harm.
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
    int report_ticks = 1;    // the interval of reports
    int forget_ticks = 1;    // until a report expires, and between attempts to transfer leadership
    int patience_ticks = 1;  // until a low leader that could not transfer leadership refuses data
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
    // The voters to one of which leadership is to be transferred now; empty: no transfer.
    std::vector<consensus::MemberId> successors;
    // The report that is to be sent now, and its receivers.
    DiskReport report;
    std::vector<consensus::MemberId> report_to;
  };

  explicit DiskGuard(Options options) : options_(options) {}

  // Records the report of another member.
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
  int64_t next_attempt_ticks_ = 0;  // when leadership may next be transferred
  bool refuses_data_ = false;
};

}  // namespace quorate::rpc
