// SPDX-License-Identifier: Apache-2.0

// The native front end: the state that all its streams share, and the delivery of events to them.
// rpc/frontend/client_frontend.h describes the rest. The front end has no threads and does not
// depend on gRPC: those are in stream_thread.h and services.h, or in a test. A client of it is a
// stream: a session, a unary call or a watch.
//
// Thread-safety: as described in rpc/frontend/client_frontend.h; history(), values() and the watches are
// protected by the tree's lock.
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
#include "rpc/frontend/client_frontend.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/event_history.h"
#include "rpc/grpc/native/scoped_watches.h"
#include "rpc/grpc/native/value_history.h"

namespace quorate::rpc::native {

class StreamLoop;

class NativeFrontend : public ClientFrontend<StreamLoop> {
 public:
  // The pointers must outlive the front end. `random` is used for session ids. The front end is
  // notified of an event when `history` has it already (Frontends).
  NativeFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random,
                 const EventHistory* history);

  bool AllowsInlineApply() const override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  bool WantsNodeValues() const override {
    return valued_count_.load(std::memory_order_relaxed) > 0;
  }
  void OnNodeValues(const tree::EventValues& values) override { event_values_ = &values; }
  void OnTreeReplaced(const tree::Tree& tree) override;
  WatchTotals watch_totals() const override;

  // --- For the loops -----------------------------------------------------------------------------
  // Counts a new stream from `address`. Returns TOO_MANY_STREAMS if it would exceed maxCnxns or
  // maxClientCnxns. Otherwise Release must follow when the stream ends.
  // `may_exceed`: up to twice those are allowed.
  absl::Status AdmitStream(const std::string& address, bool may_exceed);
  // Notifies the stream of the session that it has `count` ephemerals now. Returns false if the session
  // has no stream here.
  bool NotifyEphemerals(tree::SessionId session, size_t count);
  // REQUIRES, for the next three functions: the caller holds the read or write lock of the tree.
  const EventHistory& history() const { return *history_; }
  const ValueHistory& values() const { return values_; }
  // `wants_values` says that the data of the watch's events are to be kept in values().
  void AddWatch(uint32_t tag, std::string_view path, Scope scope, bool wants_values = false);
  void RemoveWatch(uint32_t tag, std::string_view path, Scope scope, bool wants_values = false);

 private:
  const EventHistory* const history_;

  mutable Mutex watches_mutex_;
  ScopedWatches watches_ ABSL_GUARDED_BY(watches_mutex_);  // of streams, by tag
  WatchTotals watch_totals_ ABSL_GUARDED_BY(watches_mutex_);
  ScopedWatches valued_ ABSL_GUARDED_BY(watches_mutex_);  // those of them that want values
  std::atomic<size_t> valued_count_{0};
  ValueHistory values_;     // protected by the tree's lock
  CommandReaders readers_;  // as above
  // The data of the event that is being reported, or nullptr. Used only by the apply thread.
  const tree::EventValues* event_values_ = nullptr;
  std::vector<uint64_t> watchers_;  // the watchers of one event, by tag; used only by OnNodeEvent
};

}  // namespace quorate::rpc::native

// frontend.cc instantiates it.
extern template class quorate::rpc::ClientFrontend<quorate::rpc::native::StreamLoop>;
