// The ZooKeeper front end: what all connections have in common, and where news of the tree is
// handed to them. It has no threads and no sockets: those are in listener.h and io_thread.h, or a
// simulation's.
//
// A connection belongs to one loop (connection_loop.h) for its life. That loop reads its requests,
// answers reads from the tree at once, collects the writes of all its connections into one batch
// for the log, and sends whatever is ready in one system call a connection. The apply thread hands
// it results and watch events through an inbox, with one wake-up a batch; the inbox is emptied
// before any read of a newer tree is answered.
//
// Thread-safety: the Frontend functions as rpc/server/service.h says; AddLoop before any other
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
#include "rpc/server/address_counts.h"
#include "rpc/server/config.h"
#include "rpc/server/listing.h"
#include "rpc/server/service.h"
#include "rpc/server/session_tags.h"
#include "rpc/zk/four_letter_words.h"
#include "rpc/zk/statistics.h"
#include "tree/watch_table.h"

namespace quorate::rpc::zk {

class ConnectionLoop;

// The watches of all connections. A loop holds the read side of the tree and then this
// mutex; the apply thread holds the write side of the tree, which excludes all others, and takes
// the mutex for form.
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
  // Returns the loop's number. It must outlive all other calls.
  size_t AddLoop(ConnectionLoop* loop);
  const Config& config() const { return config_; }
  // What /zookeeper/config holds; empty if standalone.
  const std::string& members_text() const { return members_text_; }
  const Clock& clock() const { return *clock_; }
  RandomBytes& random() { return *random_; }
  Service& service() { return *service_; }
  Watches& watches() { return watches_; }
  Listings& listings() { return listings_; }
  Statistics& statistics() { return statistics_; }
  // A new session id: the server's number in the top byte, the rest drawn by lot.
  tree::SessionId NewSessionId();
  // A number for a connection, which says to which of the loops it belongs. They come again after
  // very many connections, one of which may still be open: the loop asks for another one then.
  uint32_t NewTag(size_t loop);
  // For tests: the next connection gets tag `count`, as if so many had been handed out.
  void SetTagsHandedOut(uint32_t count) { next_tag_.store(count); }
  // The connection is gone: it no longer stands for its session.
  void ForgetSession(tree::SessionId session, uint32_t tag);
  // Counts connections by address; false if this one would be too many.
  bool AdmitAddress(const std::string& address);
  // A connection is refused: counts that, and says so, but not for each one of a flood.
  void Refuse(const std::string& address, const std::string& why);
  void ReleaseAddress(const std::string& address);
  FourLetterWords& words() { return words_; }
  // Sessions of this server alone, which has no quorum (Connection::read_only).
  int64_t read_only_sessions() const { return read_only_sessions_.load(); }
  void AddReadOnlySessions(int64_t count) { read_only_sessions_.fetch_add(count); }

  // How much of the watches of nodes is shown.
  struct WatchesShown {
    size_t count_left = 0;
    size_t bytes_left = 0;  // of their paths
    size_t part = 0;        // of the table, which is to come next
    bool done = false;
    bool all = true;  // so far
  };
  // Calls `watch` for the next of them, path by path, until `*shown` is done: there are no more, or
  // as many were shown as may be. What is watched may change between two calls.
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

  // Which connection serves a session. The apply thread sets it, so that it is never behind.
  SessionTags sessions_;

  AddressCounts addresses_;

  Mutex refusals_mutex_;
  std::chrono::steady_clock::time_point refusal_logged_ ABSL_GUARDED_BY(refusals_mutex_);
  int refusals_not_logged_ ABSL_GUARDED_BY(refusals_mutex_) = 0;
};

}  // namespace quorate::rpc::zk
