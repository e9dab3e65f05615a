// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/relation.h"

#include <iterator>

namespace quorate::differential {
namespace {

constexpr int64_t kNone = 0;

// Stores the pair and returns true, unless one of the two has another partner.
bool SamePair(std::map<int64_t, int64_t>& there, std::map<int64_t, int64_t>& back,
              int64_t reference, int64_t ours) {
  const auto to = there.find(reference);
  const auto from = back.find(ours);
  if (to == there.end() && from == back.end()) {
    there.emplace(reference, ours);
    back.emplace(ours, reference);
    return true;
  }
  return to != there.end() && to->second == ours;
}

}  // namespace

bool Relation::SameChange(int64_t reference, int64_t ours) {
  if (reference <= kNone || ours <= kNone) return reference == ours;
  const auto next = changes_.lower_bound(reference);
  if (next != changes_.end() && next->first == reference) return next->second == ours;
  if (next != changes_.end() && next->second <= ours) return false;
  if (next != changes_.begin() && std::prev(next)->second >= ours) return false;
  // A moment that is at or after the change at one server must be so at the other.
  const auto moment = moments_.lower_bound({reference, INT64_MIN});
  if (moment != moments_.end() && moment->second < ours) return false;
  if (moment != moments_.begin() && std::prev(moment)->second >= ours) return false;
  changes_.emplace(reference, ours);
  return true;
}

bool Relation::SameMoment(int64_t reference, int64_t ours) {
  if (reference <= kNone || ours <= kNone) return reference == ours;
  const std::pair<int64_t, int64_t> pair{reference, ours};
  const auto next = moments_.lower_bound(pair);
  if (next != moments_.end() && *next == pair) return true;
  if (next != moments_.end() && next->second < ours) return false;
  if (next != moments_.begin() && std::prev(next)->second > ours) return false;
  const auto change = changes_.upper_bound(reference);  // the first after this moment
  if (change != changes_.end() && change->second <= ours) return false;
  if (change != changes_.begin() && std::prev(change)->second > ours) return false;
  if (alone_) moments_.insert(pair);
  return true;
}

bool Relation::SameSession(int64_t reference, int64_t ours) {
  if (reference == kNone || ours == kNone) return reference == ours;
  return SamePair(sessions_, sessions_back_, reference, ours);
}

bool Relation::SameTime(int64_t reference_zxid, int64_t reference_ms, int64_t our_zxid,
                        int64_t ours_ms) {
  if ((reference_ms == 0) != (ours_ms == 0)) return false;
  if (reference_zxid <= kNone) return true;  // older than all changes
  const auto reference = times_ms_[0].emplace(reference_zxid, reference_ms).first;
  const auto ours = times_ms_[1].emplace(our_zxid, ours_ms).first;
  return reference->second == reference_ms && ours->second == ours_ms;
}

void Relation::ForgetChanges() {
  changes_.clear();
  moments_.clear();
  for (auto& times : times_ms_) times.clear();
}

}  // namespace quorate::differential
