// SPDX-License-Identifier: Apache-2.0

// What a member may report about disks, and when it may refuse writes that add data. The oracle
// derives both, tick by tick, from what the simulator knows of the member's disk and links and from
// the reports that have reached the member. It uses no state of the server. The rule is in
// rpc/member/disk/disk_guard.h. Each start of a process has its own oracle.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "consensus/core/types.h"
#include "rpc/peer/frame.h"

namespace quorate::simulation {

class DiskPressureOracle {
 public:
  DiskPressureOracle(consensus::MemberId self, int tick_ms) : self_(self), tick_ms_(tick_ms) {}

  // --- The disk of this member -------------------------------------------------------------------
  void OnFull();
  // Called when the log has finished all work that it was given before.
  void OnLogIdle();
  // Whether the log may have run out of space, or have released its ballast file, without having
  // noticed yet that there is space again.
  bool is_short() const { return is_short_; }

  // --- The members' reports ----------------------------------------------------------------------
  // Called when a report has reached this member.
  void OnReport(consensus::MemberId from, const rpc::DiskReport& report);
  // How this member sees the cluster.
  struct View {
    consensus::MemberId leader;  // kNoMember: none is known
    const std::vector<consensus::MemberId>& voters;
    std::function<bool(consensus::MemberId)> is_connected;
    bool disk_is_full = false;
  };
  // Called when a tick begins. Returns whether the member may refuse writes until the next tick.
  bool Tick(const View& view);
  // Whether this member may tell the others to refuse writes.
  bool may_tell_to_refuse() const { return leads_ && may_refuse_; }

 private:
  int64_t Ticks(int64_t ms) const;
  bool MayRefuseAsLeader(const View& view);

  const consensus::MemberId self_;
  const int tick_ms_;
  int64_t now_ticks_ = 0;
  bool is_short_ = false;
  int64_t ticks_with_free_space_ = 0;  // since the disk was last full
  struct Heard {
    rpc::DiskReport report;
    int64_t ticks = 0;  // the tick at which the report came
  };
  std::map<consensus::MemberId, Heard> heard_;
  int64_t leads_short_since_ticks_ = -1;  // -1: this member does not lead while short of space
  bool leads_ = false;
  bool may_refuse_ = false;
};

}  // namespace quorate::simulation
