// SPDX-License-Identifier: Apache-2.0

// Tracks which sessions are alive. Every member keeps a tracker; the leader uses its own to expire
// sessions that were silent for their timeout. A new leader gives each session its full timeout,
// because it does not know which touches the old one received.
//
// The tracker's time is the sum of ticks that really ran: while this process is paused, or the node
// thread is stuck, no session gets older, because no touch could be received.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc {

class SessionTracker {
 public:
  // Sessions expire at multiples of `granularity_ms` (ZooKeeper: tickTime), so that a silent
  // session ends between its timeout and one granularity later. The tracker's time moves only in
  // Advance, by at most `advance_max_ms` a call: each timeout is extended by that much.
  SessionTracker(int64_t granularity_ms, int64_t advance_max_ms);

  // Begins the full timeout of a session that was created or attached to a server.
  void OnAttached(tree::SessionId session, int32_t timeout_ms, tree::Zxid attach_zxid);
  void OnClosed(tree::SessionId session);
  bool Knows(tree::SessionId session) const { return sessions_.contains(session); }
  void Clear();
  // Begins the session's timeout again, because its client was heard from. Ignores unknown
  // sessions.
  void Touch(tree::SessionId session);
  // Begins the full timeout of each session again, because this member becomes the leader.
  void TouchAll();

  struct Expired {
    tree::SessionId session;
    tree::Zxid attach_zxid;
  };
  // Advances the time by `elapsed_ms`. Returns the sessions that have expired, at most `max` of
  // them. Each of them gets another full timeout, in case its expiry does not get into the log.
  std::vector<Expired> Advance(int64_t elapsed_ms, size_t max);

  size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    int32_t timeout_ms = 0;
    tree::Zxid attach_zxid;
    int64_t deadline_ms = 0;  // in the tracker's time, a multiple of the granularity
    int64_t bucket_ms = 0;    // its key in buckets_; at or before the deadline
  };

  int64_t DeadlineFor(int32_t timeout_ms) const;

  const int64_t granularity_ms_;
  const int64_t advance_max_ms_;
  int64_t now_ms_ = 0;
  absl::flat_hash_map<tree::SessionId, Session> sessions_;
  // A touched session stays in its bucket, and is moved to a later one when the bucket is due. So a
  // touch costs only one look-up.
  std::map<int64_t, std::vector<tree::SessionId>> buckets_;
};

}  // namespace quorate::rpc
