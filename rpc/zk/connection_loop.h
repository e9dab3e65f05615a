// The connections of one I/O thread of the ZooKeeper front end, without the thread and without
// sockets: their inbox, their iterations, the batch of their writes and what happens from time to
// time. It knows bytes and tags. IoThread drives it from sockets; a simulation drives it by hand.
//
// An iteration begins with whatever comes in (OnBytes, OnWritable, OnWake, OnTimer) and ends with
// EndIteration, once all that came together was handed in: the writes of all connections then go to
// the log as one batch, and each connection sends all it has ready at once.
//
// Thread-safety: Push and Wake may be called from any thread; everything else runs on one thread,
// also what it calls of Sockets, except for Sockets::Wake. Nothing here waits for another thread,
// except for the locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "rpc/server/inbox.h"
#include "rpc/zk/connection.h"
#include "rpc/zk/frontend.h"

namespace quorate::rpc::zk {

// How a loop reaches its clients. Calls come from within the loop's functions; they must not call
// back into the loop, except where it says so.
class Sockets {
 public:
  virtual ~Sockets() = default;

  // From any thread: OnWake is to be called soon, on the loop's thread.
  virtual void Wake() = 0;
  // EndIteration is to be called soon, once: after everything that is ready now was handed in.
  virtual void EndIterationSoon() = 0;

  // The connection takes bytes again: the next ones that come (once) are to be given to OnBytes, or
  // the end of the stream to OnClosed.
  virtual void Receive(uint32_t tag) = 0;
  // How many bytes of the client wait to be received; 0 if it has hung up. REQUIRES: the connection
  // takes no bytes.
  virtual size_t WaitingBytes(uint32_t tag) = 0;
  // Sends what it can of `bytes`, which is not empty, without waiting. Returns how much that was;
  // if it is not all of it, OnWritable is to be called when there is room again. No value: the
  // client takes no more; what it has sent before is still given to OnBytes, and then comes
  // OnClosed.
  virtual std::optional<size_t> Send(uint32_t tag, std::string_view bytes) = 0;
  // The loop has forgotten the connection: no call for this tag must follow. Comes exactly once for
  // each connection, also after OnClosed, but not from the loop's destructor.
  virtual void Close(uint32_t tag) = 0;
};

class ConnectionLoop {
 public:
  // When OnTimer is to be called for the first time.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(100);
  // Nothing was done for so long by a loop that is held up: OnTimer comes more than twice as often.
  static constexpr auto kHeldUpAfter = std::chrono::milliseconds(600);

  // Both must outlive the loop, and no call of the front end's may come any more when it is
  // destroyed. The loops of a front end are all made before the first connection.
  ConnectionLoop(ZkFrontend* frontend, Sockets* sockets);
  ~ConnectionLoop();
  ConnectionLoop(const ConnectionLoop&) = delete;
  ConnectionLoop& operator=(const ConnectionLoop&) = delete;

  // --- From the sockets --------------------------------------------------------------------------
  // A client connected from `address`, `port`. Returns the tag of the new connection, which takes
  // bytes as after Sockets::Receive; no value if it is refused, because there are too many.
  std::optional<uint32_t> Open(std::string address, uint16_t port);
  // `bytes`, not empty, came; once after each Receive.
  void OnBytes(uint32_t tag, std::string_view bytes);
  // There is room for more after a Send that did not take everything.
  void OnWritable(uint32_t tag);
  // The client has gone.
  void OnClosed(uint32_t tag);
  // Follows each Sockets::Wake.
  void OnWake();
  // Follows each Sockets::EndIterationSoon.
  void EndIteration();
  // Time-outs, and touches to the leader. Returns after which time it is to be called again.
  std::chrono::milliseconds OnTimer();

  size_t connection_count() const { return clients_.size(); }
  // Ends all connections without a word to anybody: the last call. The service may end before the
  // loop does.
  void Stop();
  // What the loop has done. For its connections.
  LoopStatistics& statistics() { return *statistics_; }

  // --- Any thread --------------------------------------------------------------------------------
  struct WatchEvent {
    uint32_t tag;
    tree::EventType type;
    std::string path;
    tree::Zxid zxid;
    Readers readers;
  };
  struct SessionClosed {
    uint32_t tag;
  };
  struct SessionAttached {
    uint32_t tag;
    tree::Zxid attach_zxid;
  };
  struct SyncDone {
    uint32_t tag;
    uint64_t sync_id;
    tree::Zxid zxid;
  };
  struct TreeReplaced {};
  using Item = std::variant<tree::ApplyResult, WatchEvent, SessionClosed, SessionAttached, SyncDone,
                            TreeReplaced>;
  // Queues without waking the loop.
  void Push(Item item);
  // Wakes the loop if something is queued and it does not know.
  void Wake();
  // When it has begun to do something the last time.
  std::chrono::steady_clock::time_point last_iteration() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(last_iteration_.load(std::memory_order_relaxed)));
  }

  // --- For connections ---------------------------------------------------------------------------
  ZkFrontend& frontend() { return *frontend_; }
  // The tree, locked for reading until the end of this call into the loop or UnlockTree; everything
  // that was applied before has been put into the out() of its connections. If kNodesPerHold were
  // spent since it was locked, it is unlocked for a moment before: what apply waits for is bounded.
  const tree::Tree& LockTree();
  void UnlockTree();
  // So much of the tree was looked at, in znodes or what costs as much.
  void Spend(size_t nodes) {
    spent_ += nodes;
    longest_hold_ = std::max(longest_hold_, spent_);
  }
  // The most that was spent while the tree was locked once.
  size_t longest_hold() const { return longest_hold_; }
  // The newest zxid that a reply may show: all events up to it are in out() of their connections.
  tree::Zxid seen_zxid() const { return seen_zxid_; }
  // The batch that goes to the log at the end of this iteration. Call AddedCommand after each one
  // appended to its bytes.
  std::string& command_bytes() { return *batch_.bytes; }
  void AddedCommand(size_t offset);
  std::chrono::steady_clock::time_point now() const { return now_; }
  // Something came from a client, for the first time since the last TakeTouched of its connection.
  void RecordTouched(uint32_t tag) { touched_.push_back(tag); }

 private:
  struct Client;

  void MaybeReceive(Client& client);
  // Whether no more should be read from clients that wait for answers.
  bool IsCongested() const;
  // Brings the statistics up to what the connection has done.
  void UpdateStatistics(Client& client);
  void Flush(Client& client);
  // Gives a connection that has nothing to send a buffer for a large answer, if there is a spare.
  void LendBuffer(Client& client);
  void TakeBufferBack(std::string& out);
  // The next OnTimer is to look at the connection.
  void Attend(Client& client);
  static bool NeedsAttention(const Client& client);
  void CheckTime(Client& client, int64_t leader_contact_age_ms);
  // The time that bytes of a client wait here is no silence of the client.
  void HearWaiting(Client& client);
  void Finish(Client& client, const absl::Status& why);
  void LogClosing(const Connection& connection, const absl::Status& why);
  void Close(Client& client);
  void MarkDirty(Client& client);
  void BeginIteration();
  void ScheduleIterationEnd();
  void ContinueConnections();
  void DrainInbox();
  void HandleItem(Item& item);
  void FinishAll(const absl::Status& why);
  static bool TakeTouched(Client& client);
  void KeepTouch(Client& client);
  // When memory is short (rpc/server/memory_budget.h).
  void CloseStalled();
  void CloseHeaviest();
  void CloseForMemory(Client& client, size_t unsent);
  void SendTouches();

  ZkFrontend* const frontend_;
  Sockets* const sockets_;
  const Clock* const clock_;
  const size_t number_;
  LoopStatistics* const statistics_;
  // Looked up by tag only; whatever goes through all of them follows the order of opening.
  absl::flat_hash_map<uint32_t, std::shared_ptr<Client>> clients_;
  std::list<std::shared_ptr<Client>> in_order_;

  CommandBatch batch_;
  std::vector<std::shared_ptr<Client>> dirty_;
  // Tags. A connection that has a session and is read from needs no look from time to time, as long
  // as a leader is heard: of ten thousand, few are here.
  std::vector<uint32_t> attended_;
  std::vector<uint32_t> touched_;
  // Empty, and large: what large answers were sent from. Memory that was given back would have to
  // be made again, page by page, for each of them.
  std::vector<std::string> spare_buffers_;
  uint64_t measurement_seen_ = 0;  // of memory
  bool iteration_end_scheduled_ = false;
  std::optional<GuardedTree::ReadGuard> tree_;  // while the tree is locked
  size_t spent_ = 0;                            // since then
  size_t longest_hold_ = 0;
  tree::Zxid seen_zxid_;
  std::chrono::steady_clock::time_point now_;
  std::atomic<std::chrono::steady_clock::rep> last_iteration_{0};  // now_
  std::chrono::steady_clock::time_point touches_sent_;
  // Sessions that were heard since then on connections that have closed.
  std::vector<int64_t> touched_and_closed_;
  std::chrono::steady_clock::time_point refusal_logged_;
  int refusals_not_logged_ = 0;

  Inbox<Item> inbox_;
  std::vector<Item> draining_;
};

}  // namespace quorate::rpc::zk
