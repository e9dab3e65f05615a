// SPDX-License-Identifier: Apache-2.0

// Maps each session to the tag of the connection or stream that serves it at a front end.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "tree/types.h"

namespace quorate::rpc {

class SessionTags {
 public:
  void Set(tree::SessionId session, uint32_t tag) {
    MutexLock lock(&mutex_);
    tags_[session] = tag;
  }
  // Returns the tag that serves the session; nullopt if there is none.
  std::optional<uint32_t> Find(tree::SessionId session) const {
    MutexLock lock(&mutex_);
    const auto found = tags_.find(session);
    if (found == tags_.end()) return std::nullopt;
    return found->second;
  }
  // Removes the session and returns its tag; nullopt if no tag serves it.
  std::optional<uint32_t> Take(tree::SessionId session) {
    MutexLock lock(&mutex_);
    const auto found = tags_.find(session);
    if (found == tags_.end()) return std::nullopt;
    const uint32_t tag = found->second;
    tags_.erase(found);
    return tag;
  }
  // Removes the session if `tag` serves it.
  void Forget(tree::SessionId session, uint32_t tag) {
    MutexLock lock(&mutex_);
    const auto found = tags_.find(session);
    if (found != tags_.end() && found->second == tag) tags_.erase(found);
  }

  // Returns, ascending, the sessions that are served by a stalled loop of `loops`: one whose last
  // iteration began more than Loop::kHeldUpAfter before `now`. `loop_of(tag)` is the loop of a tag.
  // O(1) in the number of sessions while no loop is stalled.
  template <class Loop, class LoopOf>
  std::vector<int64_t> OfStalledLoops(const std::vector<Loop*>& loops,
                                      std::chrono::steady_clock::time_point now,
                                      const LoopOf& loop_of) const {
    std::vector<int64_t> sessions;
    const auto is_stalled = [limit = now - Loop::kHeldUpAfter](const Loop* loop) {
      return loop->last_iteration() < limit;
    };
    if (std::none_of(loops.begin(), loops.end(), is_stalled)) return sessions;
    {
      MutexLock lock(&mutex_);
      for (const auto& [session, tag] : tags_) {
        if (is_stalled(loop_of(tag))) sessions.push_back(session.value());
      }
    }
    std::sort(sessions.begin(), sessions.end());
    return sessions;
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<tree::SessionId, uint32_t> tags_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
