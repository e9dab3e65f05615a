// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/session_tracker.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"

namespace quorate::rpc {

SessionTracker::SessionTracker(int64_t granularity_ms, int64_t advance_max_ms)
    : granularity_ms_(granularity_ms), advance_max_ms_(advance_max_ms) {
  ASSERT(granularity_ms > 0);
}

int64_t SessionTracker::DeadlineFor(int32_t timeout_ms) const {
  const int64_t exact = now_ms_ + advance_max_ms_ + timeout_ms;
  return (exact / granularity_ms_ + 1) * granularity_ms_;
}

void SessionTracker::OnAttached(tree::SessionId id, int32_t timeout_ms, tree::Zxid attach_zxid) {
  auto [it, fresh] = sessions_.try_emplace(id);
  Session& session = it->second;
  session.timeout_ms = timeout_ms;
  session.attach_zxid = attach_zxid;
  session.deadline_ms = DeadlineFor(timeout_ms);
  // A session with a shorter timeout than before is put into an earlier bucket. Its entry in the
  // old bucket is stale, and is skipped when that bucket is due.
  if (fresh || session.deadline_ms < session.bucket_ms) {
    session.bucket_ms = session.deadline_ms;
    buckets_[session.bucket_ms].push_back(id);
  }
}

void SessionTracker::OnClosed(tree::SessionId session) { sessions_.erase(session); }

void SessionTracker::Clear() {
  sessions_.clear();
  buckets_.clear();
}

void SessionTracker::Touch(tree::SessionId id) {
  auto it = sessions_.find(id);
  if (it != sessions_.end()) it->second.deadline_ms = DeadlineFor(it->second.timeout_ms);
}

void SessionTracker::TouchAll() {
  // The sessions may be visited in any order, because they stay in their buckets.
  for (auto& [id, session] : sessions_) session.deadline_ms = DeadlineFor(session.timeout_ms);
}

std::vector<SessionTracker::Expired> SessionTracker::Advance(int64_t elapsed_ms, size_t max) {
  ASSERT(elapsed_ms >= 0);
  now_ms_ += SeededBug("sessions age too fast") ? 3 * elapsed_ms : elapsed_ms;
  std::vector<Expired> expired;
  while (!buckets_.empty() && buckets_.begin()->first <= now_ms_ && expired.size() < max) {
    std::vector<tree::SessionId>& due = buckets_.begin()->second;
    const int64_t bucket_ms = buckets_.begin()->first;
    while (!due.empty() && expired.size() < max) {
      const tree::SessionId id = due.back();
      due.pop_back();
      auto it = sessions_.find(id);
      if (it == sessions_.end() || it->second.bucket_ms != bucket_ms) continue;
      Session& session = it->second;
      if (session.deadline_ms <= now_ms_) {
        expired.push_back({id, session.attach_zxid});
        session.deadline_ms = DeadlineFor(session.timeout_ms);
      }
      session.bucket_ms = session.deadline_ms;
      buckets_[session.bucket_ms].push_back(id);
    }
    if (due.empty()) buckets_.erase(bucket_ms);
  }
  return expired;
}

}  // namespace quorate::rpc
