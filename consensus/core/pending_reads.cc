// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/pending_reads.h"

#include "base/assert.h"

namespace quorate::consensus {

void ReadRounds::Start(Index commit) {
  ASSERT(has_waiting(), "there are reads for the round to confirm");
  ++round_;
  confirming_.push_back({round_, commit, std::exchange(waiting_, {})});
}

bool ForwardedReads::Add(uint64_t request_id, uint64_t now_ticks) {
  if (forwarded_ticks_.size() >= kPendingReadsMax) return false;
  const bool is_new = forwarded_ticks_.emplace(request_id, now_ticks).second;
  ASSERT(is_new, "a request id is used once");
  in_order_.emplace_back(now_ticks, request_id);
  return true;
}

std::vector<uint64_t> ForwardedReads::RemoveExpired(uint64_t now_ticks, uint64_t timeout_ticks) {
  std::vector<uint64_t> expired;
  while (needs_ticks() && now_ticks - in_order_.front().first >= timeout_ticks) {
    const uint64_t request_id = in_order_.front().second;
    in_order_.pop_front();
    if (Remove(request_id)) expired.push_back(request_id);
  }
  return expired;
}

std::vector<uint64_t> ForwardedReads::RemoveAll() {
  std::vector<uint64_t> removed;
  removed.reserve(forwarded_ticks_.size());
  for (const auto& [request_id, ticks] : forwarded_ticks_) removed.push_back(request_id);
  forwarded_ticks_.clear();
  in_order_.clear();
  return removed;
}

}  // namespace quorate::consensus
