// The ZooKeeper front end: the state that all connections share, and the delivery of results and
// events to them. It has no threads and no sockets: those are in listener.h and io_thread.h, or in
// a simulation.
//
// A connection belongs to one loop (connection_loop.h) for its lifetime. The loop reads its
// requests, answers reads from the tree at once, collects the writes of all its connections into
// one batch for the log, and sends all ready replies of a connection with one system call. The
// apply thread delivers results and watch events through the loop's inbox, with one wake-up per
// batch; the loop drains the inbox before it answers a read from a newer tree.
//
// Thread-safety: the Frontend functions as rpc/frontend/service.h says; AddLoop before any other
// call; the rest from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/address_counts.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/session_tags.h"
#include "rpc/zookeeper/four_letter_words.h"
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

class ZkFrontend : public Frontend {
 public:
  // All must outlive the front end. `random` makes passwords.
  ZkFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random);

  bool AllowsInlineApply() const override;
  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls& acls) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnResult(tree::ApplyResult result) override;
  void OnTreeReplaced(const tree::Tree& tree) override;
  std::vector<int64_t> HeldUpSessions() override;
  WatchTotals watch_totals() const override;
  void OnBatchApplied() override;
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override;

  // --- For the loops -----------------------------------------------------------------------------
  // Returns the loop's number. The loop must outlive all other calls.
  size_t AddLoop(ConnectionLoop* loop);
  const Config& config() const { return config_; }
  // The content of /zookeeper/config; empty if standalone.
  const std::string& members_text() const { return members_text_; }
  const Clock& clock() const { return *clock_; }
  RandomBytes& random() { return *random_; }
  Service& service() { return *service_; }
  Watches& watches() { return watches_; }
  Listings& listings() { return listings_; }
  Statistics& statistics() { return statistics_; }
  // Returns a new session id: the server's number in the top byte, the rest random.
  tree::SessionId NewSessionId();
  // Returns a tag for a new connection of `loop`; the tag determines the loop. Tags repeat after
  // very many connections. If a connection with that tag is still open, the loop asks for another
  // tag.
  uint32_t NewTag(size_t loop);
  // For tests: the next connection gets a tag as if `count` tags had been handed out.
  void SetTagsHandedOut(uint32_t count) { next_tag_.store(count); }
  // The connection is closed: the session is no longer mapped to its tag.
  void ForgetSession(tree::SessionId session, uint32_t tag);
  // Counts a new connection of `address`. Returns false, and counts a refusal, if it exceeds
  // maxCnxns or maxClientCnxns.
  bool AdmitAddress(const std::string& address);
  // Counts a refused connection, and logs it, at a limited rate.
  void Refuse(const std::string& address, const std::string& why);
  void ReleaseAddress(const std::string& address);
  FourLetterWords& words() { return words_; }
  // The sessions that only this server knows, while it has no quorum (Connection::read_only).
  int64_t read_only_sessions() const { return read_only_sessions_.load(); }
  void AddReadOnlySessions(int64_t count) { read_only_sessions_.fetch_add(count); }

  // The progress of showing the watches of nodes, and its limits.
  struct WatchesShown {
    size_t count_left = 0;
    size_t bytes_left = 0;  // of their paths
    size_t part = 0;        // the part of the table that is shown next
    bool done = false;
    bool all = true;  // whether all were shown so far
  };
  // Calls `watch` for the next watches, path by path. Sets shown->done when all are shown, or as
  // many as the limits allow. The watches may change between two calls.
  void ShowNodeWatches(WatchesShown* shown,
                       const std::function<void(std::string_view path, int64_t session)>& watch);

 private:
  ConnectionLoop& LoopOf(uint32_t tag);

  const Config& config_;
  const std::string members_text_;
  Service* const service_;
  const Clock* const clock_;
  RandomBytes* const random_;
  mutable Watches watches_;
  Listings listings_;
  Statistics statistics_;
  std::vector<ConnectionLoop*> loops_;
  std::atomic<uint32_t> next_tag_{0};
  std::atomic<int64_t> read_only_sessions_{0};
  FourLetterWords words_;

  // The connection of each session. The apply thread sets it, so it is always up to date with the
  // tree.
  SessionTags sessions_;

  AddressCounts addresses_;

  Mutex refusals_mutex_;
  std::chrono::steady_clock::time_point refusal_logged_ ABSL_GUARDED_BY(refusals_mutex_);
  int refusals_not_logged_ ABSL_GUARDED_BY(refusals_mutex_) = 0;
};

}  // namespace quorate::rpc::zk
