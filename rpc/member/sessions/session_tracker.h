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
  // Expiry happens at multiples of `granularity_ms` (ZooKeeper: tickTime), so that a silent session
  // ends between its timeout and one granularity more. The tracker's time does not move between two
  // calls of Advance, and then by at most `advance_max_ms`: each timeout is extended by that much.
  SessionTracker(int64_t granularity_ms, int64_t advance_max_ms);

  // A session was created or attached to a server: its full timeout begins now.
  void OnAttached(tree::SessionId session, int32_t timeout_ms, tree::Zxid attach_zxid);
  void OnClosed(tree::SessionId session);
  bool Knows(tree::SessionId session) const { return sessions_.contains(session); }
  // Forgets all sessions.
  void Clear();
  // A client was heard from: the session's timeout begins again. Unknown sessions are ignored.
  void Touch(tree::SessionId session);
  // Leadership begins: the full timeout of each session begins now.
  void TouchAll();

  struct Expired {
    tree::SessionId session;
    tree::Zxid attach_zxid;
  };
  // `elapsed_ms` have passed. Returns the sessions whose time is up, at most `max` of them. Such a
  // session gets another full timeout in case its end does not get into the log.
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
  // A touched session stays in its bucket, and is moved to a later one when the bucket is due: so a
  // touch costs one look-up.
  std::map<int64_t, std::vector<tree::SessionId>> buckets_;
};

}  // namespace quorate::rpc
