// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/disk_pressure_oracle.h"

#include <algorithm>

namespace quorate::simulation {
namespace {

using consensus::MemberId;

// The servers' limits: how soon a log that ran out of space tries again, how soon it has a ballast
// file again after releasing it, how long a report is remembered, and how long a leader may lead
// with a full disk before it refuses writes.
constexpr int64_t kRetryMs = 250;
constexpr int64_t kBallastMs = 500;
constexpr int64_t kForgetMs = 2000;
constexpr int64_t kPatienceMs = 5000;

}  // namespace

int64_t DiskPressureOracle::Ticks(int64_t ms) const { return std::max<int64_t>(1, ms / tick_ms_); }

void DiskPressureOracle::OnFull() {
  is_short_ = true;
  ticks_with_free_space_ = 0;
}

void DiskPressureOracle::OnLogIdle() {
  // By now the log has retried.
  if (ticks_with_free_space_ > Ticks(std::max(kRetryMs, kBallastMs))) is_short_ = false;
}

void DiskPressureOracle::OnReport(MemberId from, const rpc::DiskReport& report) {
  heard_[from] = {report, now_ticks_};
}

bool DiskPressureOracle::Tick(const View& view) {
  ++now_ticks_;
  if (!view.disk_is_full) ++ticks_with_free_space_;
  std::erase_if(heard_, [this](const auto& item) {
    return now_ticks_ - item.second.ticks > Ticks(kForgetMs);
  });
  leads_ = view.leader == self_;
  if (!leads_ || !is_short_) {
    leads_short_since_ticks_ = -1;
  } else if (leads_short_since_ticks_ < 0) {
    leads_short_since_ticks_ = now_ticks_;
  }
  if (leads_) {
    may_refuse_ = MayRefuseAsLeader(view);
  } else {
    const auto leader = heard_.find(view.leader);
    may_refuse_ = leader != heard_.end() && leader->second.report.data_refused;
  }
  return may_refuse_;
}

bool DiskPressureOracle::MayRefuseAsLeader(const View& view) {
  if (leads_short_since_ticks_ >= 0 && now_ticks_ - leads_short_since_ticks_ > Ticks(kPatienceMs)) {
    return true;
  }
  size_t with_free_space = 0;
  size_t without_free_space = 0;
  for (MemberId voter : view.voters) {
    const auto heard = heard_.find(voter);
    if (voter == self_ ? is_short_ : heard != heard_.end() && heard->second.report.disk_low) {
      ++without_free_space;
    } else if (voter == self_ || view.is_connected(voter)) {
      ++with_free_space;
    }
  }
  return without_free_space > 0 && with_free_space * 2 <= view.voters.size();
}

}  // namespace quorate::simulation
