// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_retention.h"

#include <algorithm>

namespace quorate::consensus {
namespace {

// Returns `target`, lowered so that the entries after `needed` stay, but none up to `floor`.
Index Keep(Index target, Index needed, Index floor) {
  return std::min(target, std::max(needed, floor));
}

}  // namespace

void LogRetention::Checkpointed(Index index, Index base) {
  if (index <= checkpoint_) return;
  previous_checkpoint_ = std::max(checkpoint_, base);
  checkpoint_ = index;
}

void LogRetention::EndedSending(const std::vector<Follower>& followers, uint64_t now_ticks) {
  Index from;
  for (const Follower& follower : followers) {
    const Index held = follower.held_from;
    if (held > Index{0} && (from == Index{0} || held < from)) from = held;
  }
  if (from > Index{0}) former_hold_ = FormerHold{from, now_ticks};
}

Index LogRetention::Floor(const LogSizes& sizes, uint64_t entries_max, uint64_t bytes_max) const {
  const Index by_entries = checkpoint_ - std::min(entries_max, checkpoint_.value());
  return std::max(by_entries, sizes.FirstWithin(checkpoint_, bytes_max));
}

Index LogRetention::RetainedFloor(const LogSizes& sizes) const {
  return Floor(sizes, limits_.retained_entries_max, limits_.retained_bytes_max);
}

Index LogRetention::HeldFloor(const LogSizes& sizes) const {
  return Floor(sizes, checkpoint_.value(), limits_.transfer_bytes_max);
}

Index LogRetention::TargetForNobody(Index durable) const {
  const uint64_t trailing = std::min(limits_.trailing_entries, checkpoint_.value());
  return std::min(checkpoint_ - trailing, durable);
}

Index LogRetention::WithFormerHold(Index target, const LogSizes& sizes, uint64_t now_ticks) const {
  if (!former_hold_) return target;
  const uint64_t held_ticks = now_ticks - former_hold_->ended_ticks;
  if (held_ticks >= static_cast<uint64_t>(limits_.stall_ticks)) return target;
  return Keep(target, former_hold_->from, HeldFloor(sizes));
}

Index LogRetention::TargetElsewhere(Index durable, const LogSizes& sizes, uint64_t now_ticks,
                                    bool has_other_voters) const {
  Index target = TargetForNobody(durable);
  if (space_is_short_) return target;
  target = WithFormerHold(target, sizes, now_ticks);
  if (!has_other_voters) return target;
  return Keep(target, previous_checkpoint_, RetainedFloor(sizes));
}

Index LogRetention::TargetAtLeader(Index durable, const LogSizes& sizes, uint64_t now_ticks,
                                   const std::vector<Follower>& followers) const {
  Index target = TargetForNobody(durable);
  if (space_is_short_) return target;
  target = WithFormerHold(target, sizes, now_ticks);
  const Index retained_floor = RetainedFloor(sizes);
  const Index held_floor = HeldFloor(sizes);
  for (const Follower& follower : followers) {
    if (IsCaughtUp(follower)) continue;
    if (follower.held_from > Index{0}) target = Keep(target, follower.held_from, held_floor);
    // A follower that receives a checkpoint continues after it, not after its own end.
    if (follower.receives_checkpoint) continue;
    if (follower.ticks_since_heard >= limits_.retained_ticks_max) continue;
    target = Keep(target, follower.match, retained_floor);
  }
  return target;
}

}  // namespace quorate::consensus
