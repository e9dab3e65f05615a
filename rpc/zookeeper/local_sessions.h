// SPDX-License-Identifier: Apache-2.0

// The local sessions of this server (localSessionsEnabled): sessions that neither the log nor
// another server knows. A local session lives while its client is heard from, on any connection of
// this server, and ends with the server. Its client may make it global: then a createSession with
// its id goes through the log, and the session is removed here when that is applied.
//
// A client that connects again gets its session only when everything that it has sent over the
// earlier connection has had its effect: the earlier connection is closed, and its writes are
// applied. So no write of a session takes effect after the client has seen a state without it.
//
// Bounds: as many sessions as there are connections, and kDetachedMax without a connection, each for
// at most its timeout.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "rpc/member/sessions/session_tracker.h"
#include "tree/types.h"

namespace quorate::rpc::zk {

class LocalSessions {
 public:
  static constexpr size_t kDetachedMax = 100'000;

  // Silent sessions end at multiples of `granularity_ms`, as SessionTracker says.
  explicit LocalSessions(int64_t granularity_ms);

  // Adds a session that the connection `tag` has. Returns false if there is one with this id.
  bool Add(tree::SessionId id, std::string password, int32_t timeout_ms, uint32_t tag);

  enum class Taking : uint8_t {
    kTaken,
    kUnknown,  // there is no such session, or the password is wrong
    kBusy,     // an earlier connection is not closed yet, its writes are not applied yet, or the
               // session is being made global
  };
  struct Taken {
    Taking result = Taking::kUnknown;
    // If kBusy: the connection that has the session, which the caller has to close; nullopt if none.
    std::optional<uint32_t> other;
  };
  // Gives the session to the connection `tag`, with a new timeout.
  Taken Take(tree::SessionId id, std::string_view password, int32_t timeout_ms, uint32_t tag);

  // Takes note that the connection `tag`, which had the session, is closed, with so many writes that
  // are not applied yet. The session goes on for its timeout from the last Touch, unless too many
  // have no connection.
  void Detach(tree::SessionId id, uint32_t tag, uint32_t writes_in_flight);
  // Takes note that a write of the closed connection `tag` is applied. O(1) without a lock if there
  // are none.
  void OnLateResult(uint32_t tag);
  // Ends the session, if there is one with this id.
  void End(tree::SessionId id);

  // Takes note that the session's createSession is on its way through the log. From then on it does
  // not end by silence, nor is it given to another connection.
  void BeginUpgrade(tree::SessionId id);
  // Ends the session, if there is one with this id whose createSession was on its way: it was refused.
  void EndUpgrade(tree::SessionId id);
  // Called when a session is in the tree: if it was local, it is so no longer. O(1) without a lock if
  // there is no local session.
  void OnGlobal(tree::SessionId id);
  // Called when the tree was replaced by a later one, without the results of what was applied. Ends the
  // sessions whose state depends on such results.
  void OnTreeReplaced();

  // Begins the timeouts again, because the clients were heard from. Ignores unknown sessions.
  void Touch(std::span<const int64_t> sessions);
  struct Due {
    tree::SessionId id;
    std::optional<uint32_t> tag;
  };
  // Advances the time to `now`. Returns the sessions that were silent for their timeout. Those
  // without a connection have ended. The others get another timeout: the thread of their connection
  // decides, because only it knows whether bytes of the client wait to be received. Does nothing
  // if another thread has just done it.
  std::vector<Due> Advance(std::chrono::steady_clock::time_point now);

  // Returns the connection that has the session; nullopt if there is none.
  std::optional<uint32_t> TagOf(tree::SessionId id) const;
  bool Has(tree::SessionId id) const;
  // O(1) without a lock.
  size_t size() const { return count_.load(std::memory_order_relaxed); }
  // Returns how many sessions were ended because of their silence.
  int64_t expired() const { return expired_.load(std::memory_order_relaxed); }
  // Counts a session that the thread of its connection has ended because of its silence.
  void CountExpired() { expired_.fetch_add(1, std::memory_order_relaxed); }

  struct Shown {
    tree::SessionId id;
    int32_t timeout_ms = 0;
  };
  // Returns at most `max` sessions with ids above `last`, ascending.
  std::vector<Shown> After(tree::SessionId last, size_t max) const;

 private:
  struct Session {
    std::string password;
    int32_t timeout_ms = 0;
    std::optional<uint32_t> tag;  // nullopt: no connection has it
    uint32_t late_writes = 0;     // of closed connections
    bool is_upgrading = false;
  };
  struct Late {
    tree::SessionId session;
    uint32_t writes = 0;
  };
  using Map = absl::btree_map<tree::SessionId, Session>;

  void Erase(Map::iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Map sessions_ ABSL_GUARDED_BY(mutex_);
  SessionTracker tracker_ ABSL_GUARDED_BY(mutex_);
  size_t detached_ ABSL_GUARDED_BY(mutex_) = 0;  // sessions without a connection
  // By the tags of closed connections.
  absl::flat_hash_map<uint32_t, Late> late_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> advanced_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};       // sessions_.size()
  std::atomic<size_t> late_count_{0};  // late_.size()
  std::atomic<int64_t> expired_{0};
};

}  // namespace quorate::rpc::zk
