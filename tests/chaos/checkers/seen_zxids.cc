// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/seen_zxids.h"

#include <algorithm>

namespace quorate::chaos {

SeenZxids::SeenZxids(const Run& run) {
  for (const Operation& operation : run.operations()) {
    const int64_t write_zxid = operation.WriteZxid();
    const int64_t zxid = std::max(operation.zxid, write_zxid);
    if (operation.outcome == Outcome::kUnknown || zxid <= 0) continue;
    seen_.push_back({operation.answered_ns, zxid, operation.answered_line});
    if (write_zxid > 0) begun_.emplace_back(operation.invoked_ns, write_zxid);
  }
  for (const WatchEvent& event : run.events()) {
    if (event.zxid > 0) seen_.push_back({event.time_ns, event.zxid, event.line});
  }
  std::sort(seen_.begin(), seen_.end(),
            [](const Seen& a, const Seen& b) { return a.time_ns < b.time_ns; });
  for (size_t i = 1; i < seen_.size(); ++i) {
    if (seen_[i].zxid >= seen_[i - 1].zxid) continue;
    const int64_t time_ns = seen_[i].time_ns;
    seen_[i] = seen_[i - 1];
    seen_[i].time_ns = time_ns;
  }
  std::sort(begun_.begin(), begun_.end());
  for (size_t i = begun_.size(); i > 1; --i) {
    begun_[i - 2].second = std::min(begun_[i - 2].second, begun_[i - 1].second);
  }
}

SeenZxids::Seen SeenZxids::Before(int64_t time_ns) const {
  const auto after =
      std::lower_bound(seen_.begin(), seen_.end(), time_ns,
                       [](const Seen& seen, int64_t time) { return seen.time_ns < time; });
  return after == seen_.begin() ? Seen{} : *std::prev(after);
}

int64_t SeenZxids::BegunAfter(int64_t time_ns) const {
  const auto after = std::upper_bound(begun_.begin(), begun_.end(), std::pair(time_ns, kNever));
  return after == begun_.end() ? kNever : after->second;
}

}  // namespace quorate::chaos
