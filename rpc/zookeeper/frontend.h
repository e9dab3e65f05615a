// SPDX-License-Identifier: Apache-2.0

// The ZooKeeper front end: the state that all connections share, and the delivery of events to
// them; for the rest see rpc/frontend/client_frontend.h. It has no threads and no sockets: those
// are in listener.h and io_thread.h, or in a simulation.
//
// Each connection belongs to a loop (connection_loop.h). The loop receives the requests of its
// connections, answers reads from the tree at once, and collects the writes of all its connections
// into one batch for the log. It sends all ready replies of a connection with one system call.
//
// Thread-safety: as rpc/frontend/client_frontend.h says.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/client_frontend.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/event_history.h"
#include "rpc/sasl/exchange.h"
#include "rpc/zookeeper/four_letter_words.h"
#include "rpc/zookeeper/linearizable_sessions.h"
#include "rpc/zookeeper/local_sessions.h"
#include "rpc/zookeeper/server_info.h"
#include "rpc/zookeeper/statistics.h"
#include "tree/watch_table.h"

namespace quorate::rpc::zk {

class ConnectionLoop;

// The watches of all connections. A loop holds the read lock of the tree and then this mutex. The
// apply thread holds the write lock of the tree, which excludes all loops; it takes the mutex only
// for the thread-safety analysis.
struct Watches {
  Mutex mutex;
  tree::WatchTable table ABSL_GUARDED_BY(mutex);
};

class ZkFrontend : public ClientFrontend<ConnectionLoop> {
 public:
  // All must outlive the front end. `random` makes session ids and passwords. `history` has each
  // event before the front end is notified of it (Frontends). With nullptr, a client that connects
  // again gets no events that it missed.
  ZkFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random,
             const EventHistory* history = nullptr);

  bool AllowsInlineApply() const override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  WatchTotals watch_totals() const override;

  // Sets how clients authenticate by SASL; it must outlive the front end's use by clients. REQUIRES:
  // there is no client yet.
  void SetAuthenticator(sasl::Authenticator* authenticator) { authenticator_ = authenticator; }

  // --- For the loops -----------------------------------------------------------------------------
  // Returns nullptr if there is no SASL.
  sasl::Authenticator* authenticator() const { return authenticator_; }
  Watches& watches() { return watches_; }
  // Returns nullptr if no events are kept. REQUIRES: the caller holds the tree's lock while it reads
  // the history.
  const EventHistory* history() const { return history_; }
  Statistics& statistics() { return statistics_; }
  // Counts a new connection of `address`. Returns false, and counts a refusal, if it exceeds
  // maxCnxns or maxClientCnxns; otherwise Release must follow.
  bool AdmitOrRefuse(const std::string& address);
  // Counts a refused connection, and logs it, at a limited rate.
  void Refuse(const std::string& address, const std::string& why);
  FourLetterWords& words() { return words_; }
  // Any thread.
  ServerInfo& info() { return info_; }
  // Any thread.
  const LinearizableSessions& linearizable_sessions() const { return linearizable_sessions_; }
  // Any thread.
  LocalSessions& local_sessions() { return local_sessions_; }
  // Returns whether a new session is local: localSessionsEnabled is set, and every member understands
  // the writes of local sessions. If only the latter is missing, logs that once.
  bool MakesLocalSessions();
  // As LocalSessions::Take. Closes an earlier connection that has the session.
  LocalSessions::Taking TakeLocalSession(tree::SessionId id, std::string_view password,
                                         int32_t timeout_ms, uint32_t tag);
  // Ends local sessions whose clients were silent for their timeout, those with a connection through
  // its loop. To be called from time to time by each loop.
  void EndSilentLocalSessions();
  // The sessions that only this server knows, while it has no quorum (Connection::read_only).
  int64_t read_only_sessions() const { return read_only_sessions_.load(); }
  // Returns how many sessions only this server knows.
  int64_t local_session_count() const {
    return read_only_sessions() + static_cast<int64_t>(local_sessions_.size());
  }
  void AddReadOnlySessions(int64_t count) { read_only_sessions_.fetch_add(count); }

  // How far the watches of znodes were shown, and the limits of that.
  struct WatchesShown {
    size_t count_left = 0;
    size_t bytes_left = 0;  // of their paths
    size_t part = 0;        // the part of the table that is shown next
    bool done = false;
    bool all = true;  // whether all were shown so far
  };
  // Calls `watch` for the next watches, path by path. Sets shown->done when all watches were shown,
  // or as many as the limits allow. The watches may change between two calls.
  void ShowNodeWatches(WatchesShown* shown,
                       const std::function<void(std::string_view path, int64_t session)>& watch);

  // Calls `watch` for the watches on a path itself, as WatchTable::ForEachWatchAt, until it returns
  // false. `session` may be 0: the client has none yet.
  void ShowWatchesAt(
      std::string_view path,
      const std::function<bool(int64_t session, tree::WatchTable::WatchOf of)>& watch);

 private:
  const EventHistory* const history_;
  sasl::Authenticator* authenticator_ = nullptr;
  mutable Watches watches_;
  LinearizableSessions linearizable_sessions_;
  CommandReaders readers_;  // protected by the tree's lock
  LocalSessions local_sessions_;
  std::atomic<bool> has_logged_version_{false};  // that local sessions wait for the cluster version
  Statistics statistics_;
  std::atomic<int64_t> read_only_sessions_{0};
  ServerInfo info_;
  FourLetterWords words_;

  Mutex refusals_mutex_;
  std::chrono::steady_clock::time_point refusal_logged_ ABSL_GUARDED_BY(refusals_mutex_);
  int refusals_not_logged_ ABSL_GUARDED_BY(refusals_mutex_) = 0;
};

}  // namespace quorate::rpc::zk

// The template is instantiated once, in frontend.cc.
extern template class quorate::rpc::ClientFrontend<quorate::rpc::zk::ConnectionLoop>;
