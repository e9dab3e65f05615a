// What a member may say of disks, and when it may refuse writes that add data: told from what the
// simulator knows of its disk and its links and from the reports that have reached it, tick by
// tick, and not from anything that the server keeps about it (rpc/server/disk_guard.h has the
// rule). One for each life of a process.
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
  // The log has no work left that it was given before.
  void OnLogIdle();
  // Whether its log may have been refused space, or have taken its ballast file, and not have
  // noticed yet that there is some again.
  bool is_short() const { return is_short_; }

  // --- What the members say ----------------------------------------------------------------------
  // A report has reached the node.
  void OnReport(consensus::MemberId from, const rpc::DiskReport& report);
  // How this member sees the cluster.
  struct View {
    consensus::MemberId leader;  // kNoMember: none is known
    const std::vector<consensus::MemberId>& voters;
    std::function<bool(consensus::MemberId)> is_connected;
    bool disk_is_full = false;
  };
  // A tick begins. Whether the member may refuse from now to the next one.
  bool Tick(const View& view);
  // Whether it may tell others to refuse.
  bool may_tell_to_refuse() const { return leads_ && may_refuse_; }

 private:
  int64_t Ticks(int64_t ms) const;
  bool MayRefuseAsLeader(const View& view);

  const consensus::MemberId self_;
  const int tick_ms_;
  int64_t now_ticks_ = 0;
  bool is_short_ = false;
  int64_t ticks_with_free_space_ = 0;  // since it was full
  struct Heard {
    rpc::DiskReport report;
    int64_t ticks = 0;  // when
  };
  std::map<consensus::MemberId, Heard> heard_;
  int64_t leads_short_since_ticks_ = -1;  // -1: it does not
  bool leads_ = false;
  bool may_refuse_ = false;
};

}  // namespace quorate::simulation
