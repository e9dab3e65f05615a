// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/local_sessions.h"

#include <algorithm>
#include <utility>

namespace quorate::rpc::zk {
namespace {

// The time moves by at most this much in one call of Advance: while this process is paused, no
// session gets older.
constexpr int64_t kAdvanceMaxMs = 500;
// The threads of the connections advance the time in turn, no more often than this.
constexpr int64_t kAdvancePeriodMs = 100;
// The most sessions that one call of Advance returns.
constexpr size_t kDueMax = 1000;

}  // namespace

LocalSessions::LocalSessions(int64_t granularity_ms)
    : tracker_(std::max<int64_t>(granularity_ms, 1), kAdvanceMaxMs) {}

bool LocalSessions::Add(tree::SessionId id, std::string password, int32_t timeout_ms,
                        uint32_t tag) {
  MutexLock lock(&mutex_);
  const auto [at, inserted] = sessions_.try_emplace(id);
  if (!inserted) return false;
  at->second.password = std::move(password);
  at->second.timeout_ms = timeout_ms;
  at->second.tag = tag;
  tracker_.OnAttached(id, timeout_ms, tree::Zxid(0));
  count_.store(sessions_.size(), std::memory_order_relaxed);
  return true;
}

LocalSessions::Taken LocalSessions::Take(tree::SessionId id, std::string_view password,
                                         int32_t timeout_ms, uint32_t tag) {
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second.password != password) return {};
  Session& session = at->second;
  const bool is_free = !session.tag.has_value() && session.late_writes == 0;
  if (!is_free || session.is_upgrading) {
    // Its client has proved to be alive.
    tracker_.Touch(id);
    return {Taking::kBusy, session.tag};
  }
  if (!session.tag.has_value()) --detached_;
  session.tag = tag;
  session.timeout_ms = timeout_ms;
  tracker_.OnAttached(id, timeout_ms, tree::Zxid(0));
  return {Taking::kTaken, std::nullopt};
}

void LocalSessions::Erase(Map::iterator at) {
  if (!at->second.tag.has_value()) --detached_;
  tracker_.OnClosed(at->first);
  sessions_.erase(at);
  count_.store(sessions_.size(), std::memory_order_relaxed);
}

void LocalSessions::Detach(tree::SessionId id, uint32_t tag, uint32_t writes_in_flight) {
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second.tag != tag) return;
  at->second.tag = std::nullopt;
  ++detached_;
  if (writes_in_flight > 0) {
    at->second.late_writes += writes_in_flight;
    late_[tag] = {id, writes_in_flight};
    late_count_.store(late_.size(), std::memory_order_relaxed);
  }
  if (detached_ > kDetachedMax) Erase(at);
}

void LocalSessions::OnLateResult(uint32_t tag) {
  if (late_count_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(&mutex_);
  const auto late = late_.find(tag);
  if (late == late_.end()) return;
  const auto at = sessions_.find(late->second.session);
  if (at != sessions_.end() && at->second.late_writes > 0) --at->second.late_writes;
  if (--late->second.writes > 0) return;
  late_.erase(late);
  late_count_.store(late_.size(), std::memory_order_relaxed);
}

void LocalSessions::End(tree::SessionId id) {
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  if (at != sessions_.end()) Erase(at);
}

void LocalSessions::BeginUpgrade(tree::SessionId id) {
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  if (at != sessions_.end()) at->second.is_upgrading = true;
}

void LocalSessions::EndUpgrade(tree::SessionId id) {
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  if (at != sessions_.end() && at->second.is_upgrading) Erase(at);
}

void LocalSessions::OnGlobal(tree::SessionId id) {
  if (size() > 0) End(id);
}

void LocalSessions::OnTreeReplaced() {
  MutexLock lock(&mutex_);
  late_.clear();
  late_count_.store(0, std::memory_order_relaxed);
  // Sessions that are being made global may be in the new tree already, or have ended there. If a
  // createSession is still on its way, the leader ends its session, which has no client then. The
  // results of late writes do not come, so that nobody knows when the session could go on.
  std::vector<tree::SessionId> ended;
  for (const auto& [id, session] : sessions_) {
    if (session.is_upgrading || session.late_writes > 0) ended.push_back(id);
  }
  for (const tree::SessionId id : ended) Erase(sessions_.find(id));
}

void LocalSessions::Touch(std::span<const int64_t> sessions) {
  if (sessions.empty()) return;
  MutexLock lock(&mutex_);
  for (const int64_t session : sessions) tracker_.Touch(tree::SessionId(session));
}

std::vector<LocalSessions::Due> LocalSessions::Advance(std::chrono::steady_clock::time_point now) {
  if (size() == 0) return {};
  MutexLock lock(&mutex_);
  const int64_t elapsed_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - advanced_.value_or(now)).count();
  if (advanced_.has_value() && elapsed_ms < kAdvancePeriodMs) return {};
  advanced_ = now;
  std::vector<Due> due;
  for (const auto& silent : tracker_.Advance(std::min(elapsed_ms, kAdvanceMaxMs), kDueMax)) {
    const auto at = sessions_.find(silent.session);
    if (at == sessions_.end() || at->second.is_upgrading) continue;
    due.push_back({silent.session, at->second.tag});
    if (at->second.tag.has_value()) continue;
    CountExpired();
    Erase(at);
  }
  return due;
}

std::optional<uint32_t> LocalSessions::TagOf(tree::SessionId id) const {
  if (size() == 0) return std::nullopt;
  MutexLock lock(&mutex_);
  const auto at = sessions_.find(id);
  return at == sessions_.end() ? std::nullopt : at->second.tag;
}

bool LocalSessions::Has(tree::SessionId id) const {
  if (size() == 0) return false;
  MutexLock lock(&mutex_);
  return sessions_.contains(id);
}

std::vector<LocalSessions::Shown> LocalSessions::After(tree::SessionId last, size_t max) const {
  std::vector<Shown> shown;
  MutexLock lock(&mutex_);
  for (auto at = sessions_.upper_bound(last); at != sessions_.end() && shown.size() < max; ++at) {
    shown.push_back({at->first, at->second.timeout_ms});
  }
  return shown;
}

}  // namespace quorate::rpc::zk
