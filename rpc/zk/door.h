// The ZooKeeper door: what all connections have in common, and where news of the tree is handed to
// them. It has no threads and no sockets: those are in listener.h and io_thread.h, or a
// simulation's.
//
// A connection belongs to one loop (connection_loop.h) for its life. That loop reads its requests,
// answers reads from the tree at once, collects the writes of all its connections into one batch
// for the log, and sends whatever is ready in one system call a connection. The apply thread hands
// it results and watch events through an inbox, with one wake-up a batch; the inbox is emptied
// before any read of a newer tree is answered.
//
// Thread-safety: the Door functions as rpc/server/service.h says; AddLoop before any other call;
// the rest from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/strings.h"
#include "rpc/server/config.h"
#include "rpc/server/service.h"
#include "rpc/zk/statistics.h"
#include "tree/watch_table.h"

namespace quorate::rpc::zk {

class Connection;
class ConnectionLoop;

// The watches of all connections. A loop holds the read side of the tree and then this
// mutex; the apply thread holds the write side of the tree, which excludes all others, and takes
// the mutex for form.
struct Watches {
  Mutex mutex;
  tree::WatchTable table ABSL_GUARDED_BY(mutex);
};

class ZkDoor : public Door {
 public:
  // All must outlive the door. `random` makes passwords.
  ZkDoor(const Config& config, Service* service, const Clock* clock, RandomBytes* random);

  void OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid) override;
  void OnSessionAttached(const tree::SessionInfo& session) override;
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override;
  void OnResult(tree::ApplyResult result) override;
  void OnTreeReplaced() override;
  void OnBatchApplied() override;
  void OnSyncDone(uint32_t origin_tag, uint64_t sync_id, tree::Zxid zxid) override;

  // --- For the loops -----------------------------------------------------------------------------
  // Returns the loop's number. It must outlive all other calls.
  size_t AddLoop(ConnectionLoop* loop);
  const Config& config() const { return config_; }
  const Clock& clock() const { return *clock_; }
  RandomBytes& random() { return *random_; }
  Service& service() { return *service_; }
  Watches& watches() { return watches_; }
  Statistics& statistics() { return statistics_; }
  // A new session id: the server's number in the top byte, then the start time, then a count.
  tree::SessionId NewSessionId();
  // A number for a connection, which says to which of the loops it belongs.
  uint32_t NewTag(size_t loop);
  // The connection is gone: it no longer stands for its session.
  void ForgetSession(tree::SessionId session, uint32_t tag);
  // Counts connections by address; false if this one would be too many.
  bool AdmitAddress(const std::string& address);
  void ReleaseAddress(const std::string& address);
  // The list of connections that stat shows, and the sums of their counters.
  void AddConnection(uint32_t tag, std::string peer);
  void UpdateConnection(const Connection& connection);
  void RemoveConnection(uint32_t tag);
  // The answer to a four-letter word.
  std::string AnswerFourLetterWord(std::string_view word);

 private:
  ConnectionLoop& LoopOf(uint32_t tag);
  std::string ModeName(const ServerStatus& status) const;
  std::string ServerLines(const ServerStatus& status, bool with_clients);
  std::string EnvironmentLines() const;
  std::string MonitorLines(const ServerStatus& status);

  struct ConnectionLine {
    std::string peer;
    int64_t received = 0;
    int64_t sent = 0;
    int64_t queued = 0;
  };

  const Config& config_;
  Service* const service_;
  const Clock* const clock_;
  RandomBytes* const random_;
  Watches watches_;
  Statistics statistics_;
  std::vector<ConnectionLoop*> loops_;
  std::atomic<int64_t> next_session_;
  std::atomic<uint32_t> next_tag_{0};
  const std::chrono::steady_clock::time_point started_;

  Mutex sessions_mutex_;
  // Which connection here stands for a session; written by the apply thread, so that it is never
  // behind.
  absl::flat_hash_map<tree::SessionId, uint32_t> session_tags_ ABSL_GUARDED_BY(sessions_mutex_);

  Mutex addresses_mutex_;
  StringMap<int> addresses_ ABSL_GUARDED_BY(addresses_mutex_);

  Mutex connections_mutex_;
  std::map<uint32_t, ConnectionLine> connections_ ABSL_GUARDED_BY(connections_mutex_);
};

}  // namespace quorate::rpc::zk
