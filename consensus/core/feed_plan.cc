// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/feed_plan.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {
namespace {

constexpr int kTicksMax = 1 << 30;
// The most doublings of the wait after a failure.
constexpr int kDoublingsMax = 6;
// An observer that was fed for so many ticks has no failures any more.
constexpr int kLongTicks = 4096;

}  // namespace

MemberId FeedPlan::FeederOf(MemberId observer) const {
  const auto found = observers_.find(observer);
  return found == observers_.end() ? kNoMember : found->second.feeder;
}

std::vector<MemberId> FeedPlan::FedBy(MemberId feeder) const {
  std::vector<MemberId> fed;
  if (feeder == kNoMember) return fed;
  for (const auto& [member, observer] : observers_) {
    if (observer.feeder == feeder) fed.push_back(member);
  }
  return fed;
}

Index FeedPlan::MatchOf(MemberId observer) const {
  const auto found = observers_.find(observer);
  return found == observers_.end() ? Index{0} : found->second.match;
}

bool FeedPlan::IsReady(MemberId feeder, int ticks_max) const {
  const auto found = ticks_since_report_.find(feeder);
  return found != ticks_since_report_.end() && found->second < ticks_max;
}

bool FeedPlan::MayAssign(MemberId observer) const {
  const auto found = observers_.find(observer);
  return found == observers_.end() || found->second.wait_ticks == 0;
}

MemberId FeedPlan::Choose(MemberId observer, const std::vector<MemberId>& ready) const {
  ASSERT(!ready.empty());
  const auto found = observers_.find(observer);
  const MemberId failed = found == observers_.end() ? kNoMember : found->second.failed_feeder;
  auto rank = [&](MemberId feeder) { return std::pair(feeder == failed, FedBy(feeder).size()); };
  return *std::min_element(ready.begin(), ready.end(),
                           [&](MemberId a, MemberId b) { return rank(a) < rank(b); });
}

void FeedPlan::Assign(MemberId observer, MemberId feeder) {
  ASSERT(feeder != kNoMember && feeder != observer);
  Observer& assigned = observers_[observer];
  ASSERT(assigned.feeder == kNoMember && assigned.wait_ticks == 0);
  assigned.feeder = feeder;
  assigned.match = Index{0};
  assigned.is_reported = assigned.is_in_sync = false;
  assigned.silent_ticks = assigned.fed_ticks = 0;
}

void FeedPlan::ObserverReported(MemberId observer, Index match) {
  const auto found = observers_.find(observer);
  if (found == observers_.end()) return;
  found->second.match = match;
  found->second.silent_ticks = 0;
  found->second.is_reported = true;
  found->second.is_in_sync = !commits_.empty() && match >= commits_.front();
}

bool FeedPlan::IsSilent(MemberId observer, int first_ticks, int ticks) const {
  const auto found = observers_.find(observer);
  if (found == observers_.end()) return false;
  return found->second.silent_ticks >= (found->second.is_reported ? ticks : first_ticks);
}

bool FeedPlan::IsInSync(MemberId observer) const {
  const auto found = observers_.find(observer);
  return found != observers_.end() && found->second.is_in_sync;
}

void FeedPlan::ForgetMatch(MemberId observer) {
  if (const auto found = observers_.find(observer); found != observers_.end()) {
    found->second.match = Index{0};
    found->second.is_in_sync = false;
  }
}

void FeedPlan::Failed(MemberId observer, int ticks) {
  Observer& failed = observers_[observer];
  failed.failed_feeder = failed.feeder;
  const int wait_ticks = ticks << std::min(failed.failures, kDoublingsMax);
  failed.failures = std::min(failed.failures + 1, kDoublingsMax);
  Hold(observer, wait_ticks);
}

void FeedPlan::Hold(MemberId observer, int ticks) {
  Observer& held = observers_[observer];
  held.feeder = kNoMember;
  held.wait_ticks = std::max(held.wait_ticks, ticks);
}

void FeedPlan::IntervalBegins(Index commit) {
  commits_.push_back(commit);
  if (commits_.size() > kSyncIntervals + 1) commits_.pop_front();
}

void FeedPlan::Tick() {
  for (auto& [member, ticks] : ticks_since_report_) ticks = std::min(ticks + 1, kTicksMax);
  for (auto& [member, observer] : observers_) {
    if (observer.feeder == kNoMember) {
      if (observer.wait_ticks > 0) --observer.wait_ticks;
      continue;
    }
    observer.silent_ticks = std::min(observer.silent_ticks + 1, kTicksMax);
    if (++observer.fed_ticks >= kLongTicks) observer.failures = observer.fed_ticks = 0;
  }
}

}  // namespace quorate::consensus
