// The native front end: the state that all its streams share, and the delivery of results and
// events to them. It has no threads and does not depend on gRPC: those are in stream_thread.h and
// services.h, or in a test.
//
// A stream (a session, a unary call or a watch) belongs to one loop (stream_loop.h) for its
// lifetime. The apply thread delivers results and events through the loop's inbox, with one wake-up
// per batch; the loop drains the inbox before it answers a read from a newer tree.
//
// Thread-safety: the Frontend functions as rpc/frontend/service.h says; AddLoop before any other
// call; history() and the watches under the tree's lock; the rest from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/address_counts.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/session_tags.h"
#include "rpc/grpc/native/event_history.h"
#include "rpc/grpc/native/scoped_watches.h"

namespace quorate::rpc::native {

class StreamLoop;

class NativeFrontend : public Frontend {
 public:
  // All must outlive the front end. `random` makes session ids.
  NativeFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random);

  bool AllowsInlineApply() const override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnResult(tree::ApplyResult result) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  std::shared_ptr<const RecentEvents> TakeRecentEvents() const override;
  void OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) override;
  std::vector<int64_t> HeldUpSessions() override;
  WatchTotals watch_totals() const override;
  void OnBatchApplied() override;
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override;

  // --- For the loops -----------------------------------------------------------------------------
  // Returns the loop's number. The loop must outlive all other calls.
  size_t AddLoop(StreamLoop* loop);
  const Config& config() const { return config_; }
  // The content of /zookeeper/config; empty if standalone.
  const std::string& members_text() const { return members_text_; }
  const Clock& clock() const { return *clock_; }
  Service& service() { return *service_; }
  // Returns a new session id: the server's number in the top byte, the rest random.
  tree::SessionId NewSessionId();
  // Returns a tag for a new stream of `loop`; the tag determines the loop. Tags repeat after very
  // many streams.
  uint32_t NewTag(size_t loop);
  // Returns the tag of the loop itself, for the barriers that its streams share.
  uint32_t TagOfLoop(size_t loop) const;
  // Counts a new stream of `address`. Returns TOO_MANY_STREAMS if it exceeds maxCnxns or
  // maxClientCnxns; otherwise Release must follow when the stream ends.
  absl::Status Admit(const std::string& address);
  void Release(const std::string& address);
  // The stream has ended: the session is no longer mapped to its tag.
  void ForgetSession(tree::SessionId session, uint32_t tag);

  Listings& listings() { return listings_; }

  // REQUIRES, for the next three: the caller holds the read or write lock of the tree.
  const EventHistory& history() const { return history_; }
  void AddWatch(uint32_t tag, std::string_view path, Scope scope);
  void RemoveWatch(uint32_t tag, std::string_view path, Scope scope);

 private:
  StreamLoop& LoopOf(uint32_t tag);

  const Config& config_;
  const std::string members_text_;
  Service* const service_;
  const Clock* const clock_;
  RandomBytes* const random_;
  std::vector<StreamLoop*> loops_;
  std::atomic<uint32_t> next_tag_{1};  // number 0 of each loop is TagOfLoop
  EventHistory history_;
  Listings listings_;

  mutable Mutex watches_mutex_;
  ScopedWatches watches_ ABSL_GUARDED_BY(watches_mutex_);  // of streams, by tag
  WatchTotals watch_totals_ ABSL_GUARDED_BY(watches_mutex_);
  std::vector<uint64_t> watchers_;  // the tags of one event; used only by OnNodeEvent

  // The stream of each session. The apply thread sets it, so it is always up to date with the tree.
  SessionTags sessions_;

  AddressCounts addresses_;
  std::atomic<int> streams_{0};
};

}  // namespace quorate::rpc::native
