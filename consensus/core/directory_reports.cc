// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/directory_reports.h"

#include <utility>

namespace quorate::consensus {

bool LaterDirectoryReports::Record(MemberId from) {
  const auto [found, is_new] = reports_.try_emplace(from);
  if (is_new || !std::exchange(found->second.asked, false)) return false;
  ++found->second.confirmations;
  return true;
}

size_t LaterDirectoryReports::confirmed() const {
  return static_cast<size_t>(std::count_if(
      reports_.begin(), reports_.end(),
      [this](const auto& report) { return report.second.confirmations >= confirmations_needed_; }));
}

std::vector<MemberId> LaterDirectoryReports::Tick(uint64_t now, uint64_t retry_ticks,
                                                  uint64_t answer_ticks) {
  std::vector<MemberId> to_ask;
  for (auto it = reports_.begin(); it != reports_.end();) {
    Report& report = it->second;
    const uint64_t waited = now - report.asked_ticks;
    if (report.asked && waited >= answer_ticks) {
      it = reports_.erase(it);
      continue;
    }
    if (!report.asked && waited >= retry_ticks) {
      report.asked = true;
      report.asked_ticks = now;
      to_ask.push_back(it->first);
    }
    ++it;
  }
  return to_ask;
}

}  // namespace quorate::consensus
