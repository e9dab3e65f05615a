// What a member does about disks that become full. Below a reserve of free space a disk is *low*.
// Everything goes on then, but nothing may be added that has to be kept:
//  - A leader whose disk is low hands leadership over to a voter that has free space.
//  - If it takes voters without free space to commit, the leader says that writes which add data
//    are refused. All members do so at their front ends, before such a write is accepted.
//  - A follower whose disk is low tells the leader. When its log is full it lags, no more.
// Deletions, and what sessions need to live and to end, are never refused: the reserve is for them,
// and for the checkpoint that lets go of the log before it.
//
// A disk may be filled by others, below the reserve and down to nothing. For that each member that
// has data keeps two ballast files (consensus/log/ballast_file.h), as large as a file of the log,
// and as two of them. (It has if there is a checkpoint, or an eighth of a file of the log: before,
// the rest of that file is as good as a ballast file.)
//  - One becomes the next file of the log when there is no free space for it, but only while writes
//    that add data are refused: a follower whose disk alone is full just lags. What may still come
//    to it that adds data is what had been accepted, here or by other members, before they heard of
//    it.
//  - One is given up when a checkpoint finds no free space; it is tried again then. While data is
//    refused and the log has no ballast file, checkpoints are taken again and again, and let go of
//    the log before them.
// The first ones are made only of what is free above the reserve.
// Both are made again from what becomes free: that of the checkpoints first, as soon as a
// checkpoint is written, and then that of the log. As long as data is refused, the log takes what
// is free on a disk that it shares with the checkpoints only if these have their ballast file; and
// until it has its own back the disk counts as low. So deletions and the ends of sessions go on for
// as long as each checkpoint lets go of as much as was written since the one before.
//
// Reports are repeated while there is something to say, and are forgotten when they stop: so no
// member need be told that all is well, and a message that is lost does no harm.
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
    int report_ticks = 1;    // from one report to the next
    int forget_ticks = 1;    // after the last one; and between attempts to hand leadership over
    int patience_ticks = 1;  // for a leader that is low and does not get rid of leadership
  };
  // How the cluster looks, as far as it matters here.
  struct View {
    consensus::MemberId leader;  // kNoMember: none is known
    const consensus::Membership* membership = nullptr;
    // Whether a voter is there and follows; asked by a leader.
    std::function<bool(consensus::MemberId)> follows;
    bool own_disk_low = false;
  };
  struct Actions {
    // Who is to lead instead of this member, now: one of them.
    std::vector<consensus::MemberId> successors;
    // What is to be sent to whom.
    DiskReport report;
    std::vector<consensus::MemberId> report_to;
  };

  explicit DiskGuard(Options options) : options_(options) {}

  // What another member says.
  void OnReport(consensus::MemberId from, const DiskReport& report);
  // One tick has passed.
  Actions Tick(const View& view);

  // Whether writes that add data are refused.
  bool refuses_data() const { return refuses_data_; }

 private:
  bool IsLow(consensus::MemberId member) const;
  void Lead(const View& view, Actions* actions);

  const Options options_;
  int64_t now_ticks_ = 0;
  struct Heard {
    DiskReport report;
    int64_t ticks = 0;  // when
  };
  std::map<consensus::MemberId, Heard> heard_;
  int64_t low_since_ticks_ = -1;    // this member, as a leader; -1: not
  int64_t next_attempt_ticks_ = 0;  // to hand leadership over
  bool refuses_data_ = false;
};

}  // namespace quorate::rpc
