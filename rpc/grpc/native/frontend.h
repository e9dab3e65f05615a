// The native front end: what all its streams have in common, and where news of the tree is handed
// to them. It has no threads and knows no gRPC: those are in stream_thread.h and services.h, or a
// test's.
//
// A stream (a session, a unary call or a watch) belongs to one loop (stream_loop.h) for its life.
// The apply thread hands it results and events through the loop's inbox, with one wake-up a batch;
// the inbox is emptied before any read of a newer tree is answered.
//
// Thread-safety: the Frontend functions as rpc/server/service.h says; AddLoop before any other
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
#include "rpc/grpc/native/event_history.h"
#include "rpc/grpc/native/scoped_watches.h"
#include "rpc/server/address_counts.h"
#include "rpc/server/config.h"
#include "rpc/server/listing.h"
#include "rpc/server/service.h"
#include "rpc/server/session_tags.h"

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
  // Returns the loop's number. It must outlive all other calls.
  size_t AddLoop(StreamLoop* loop);
  const Config& config() const { return config_; }
  // What /zookeeper/config holds; empty if standalone.
  const std::string& members_text() const { return members_text_; }
  const Clock& clock() const { return *clock_; }
  Service& service() { return *service_; }
  // A new session id: the server's number in the top byte, the rest drawn by lot.
  tree::SessionId NewSessionId();
  // A number for a stream, which says to which of the loops it belongs. They are used again, but
  // not soon.
  uint32_t NewTag(size_t loop);
  // The tag of a loop's own, for the barriers that its streams share.
  uint32_t TagOfLoop(size_t loop) const;
  // Counts streams, also by address: RESOURCE_EXHAUSTED if this one would be too many.
  absl::Status Admit(const std::string& address);
  void Release(const std::string& address);
  // The stream is gone: it no longer stands for its session.
  void ForgetSession(tree::SessionId session, uint32_t tag);

  Listings& listings() { return listings_; }

  // REQUIRES, of these: the caller holds a side of the tree's lock.
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
  std::atomic<uint32_t> next_tag_{1};  // 0 of each loop is its own
  EventHistory history_;
  Listings listings_;

  mutable Mutex watches_mutex_;
  ScopedWatches watches_ ABSL_GUARDED_BY(watches_mutex_);  // tags
  WatchTotals watch_totals_ ABSL_GUARDED_BY(watches_mutex_);
  std::vector<uint64_t> watchers_;  // of an event; whoever applies

  // Which stream serves a session. The apply thread sets it, so that it is never behind.
  SessionTags sessions_;

  AddressCounts addresses_;
  std::atomic<int> streams_{0};
};

}  // namespace quorate::rpc::native
