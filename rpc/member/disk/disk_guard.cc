// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/disk_guard.h"

#include <algorithm>

#include "base/assert.h"
#include "base/seeded_bug.h"

namespace quorate::rpc {

using consensus::MemberId;

void DiskGuard::OnReport(MemberId from, const DiskReport& report) {
  heard_[from] = {report, now_ticks_};
}

bool DiskGuard::IsLow(MemberId member) const {
  const auto heard = heard_.find(member);
  return heard != heard_.end() && heard->second.report.disk_low;
}

DiskGuard::Actions DiskGuard::Tick(const View& view) {
  ASSERT(view.membership != nullptr);
  ++now_ticks_;
  std::erase_if(heard_, [this](const auto& item) {
    if (SeededBug("reports about disks are not forgotten")) return false;
    return now_ticks_ - item.second.ticks > options_.forget_ticks;
  });
  Actions actions;
  const bool leads = view.leader == options_.self;
  if (leads) {
    Lead(view, &actions);
  } else {
    low_since_ticks_ = -1;
    const auto leader = heard_.find(view.leader);
    refuses_data_ = leader != heard_.end() && leader->second.report.data_refused;
    if (view.own_disk_low && view.leader != consensus::kNoMember) {
      actions.report_to = {view.leader};
    }
  }
  if (SeededBug("writes are refused for no reason") && now_ticks_ % 100 == 0) {
    refuses_data_ = true;
  }
  actions.report = {view.own_disk_low, leads && refuses_data_};
  if (now_ticks_ % options_.report_ticks != 0) actions.report_to.clear();
  return actions;
}

void DiskGuard::Lead(const View& view, Actions* actions) {
  const consensus::Membership& members = *view.membership;
  std::vector<MemberId> with_free_space;
  bool any_low = false;
  for (MemberId voter : members.voters) {
    const bool is_self = voter == options_.self;
    if (is_self ? view.own_disk_low : IsLow(voter)) {
      any_low = true;
    } else if (is_self || view.follows(voter)) {
      with_free_space.push_back(voter);
    }
  }
  const bool majority = with_free_space.size() > members.voters.size() / 2 &&
                        !(any_low && SeededBug("one full disk counts as a majority"));
  if (!view.own_disk_low) {
    low_since_ticks_ = -1;
  } else if (low_since_ticks_ < 0) {
    low_since_ticks_ = now_ticks_;
  }
  const bool stuck =
      low_since_ticks_ >= 0 && now_ticks_ - low_since_ticks_ > options_.patience_ticks;
  // Unreachable voters alone are no reason to refuse data: at least one disk must be low.
  refuses_data_ = (any_low && !majority) || stuck;
  // The attempts have an interval, because nothing is proposed while leadership is transferred.
  if (majority && view.own_disk_low && now_ticks_ >= next_attempt_ticks_) {
    actions->successors = with_free_space;
    next_attempt_ticks_ = now_ticks_ + options_.forget_ticks;
  }
  if (!refuses_data_) return;
  for (const auto* group : {&members.voters, &members.learners}) {
    for (MemberId member : *group) {
      if (member != options_.self) actions->report_to.push_back(member);
    }
  }
}

}  // namespace quorate::rpc
