// The streams of one thread of the native front end, without the thread and without gRPC: their
// inbox, their loop iterations, the batch of their writes and their periodic work. The loop handles
// messages and tags. StreamThread drives it from gRPC; a test or a simulation drives it by hand.
//
// An iteration begins with an input (Open, OnMessage, OnWritable, OnWake, ...) and ends with
// EndIteration, after all inputs that were ready together. Then the writes of all streams go to the
// log as one batch, the tree is locked once, results and events of everything applied are delivered
// to the streams, the streams that can continue do so, and each stream sends all its ready parts as
// one message.
//
// Thread-safety: Push and Wake may be called from any thread. Everything else runs on one thread,
// including the calls of Transport, except for Transport::Wake. Apart from locks, nothing here
// waits for another thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rpc/frontend/inbox.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream.h"

namespace quorate::rpc::native {

// The loop's access to its clients. These functions must not call back into the loop. All except
// Wake are called only from within the loop's functions.
class Transport {
 public:
  virtual ~Transport() = default;

  // Schedules a call of OnWake on the loop's thread. May be called from any thread.
  virtual void Wake() = 0;
  // Schedules one call of EndIteration, after everything that is ready now was handed in.
  virtual void EndIterationSoon() = 0;

  // The stream takes a message: the next message is to be given to OnMessage, once, or the end of
  // the client's messages to OnHalfClosed.
  virtual void Receive(uint32_t tag) = 0;
  // Takes `*message` and sends it. Returns false if the previous message is not sent yet: then
  // OnWritable is to be called when it is.
  virtual bool Send(uint32_t tag, std::string* message) = 0;
  // Returns the bytes of the message that Send took last; 0 if it is sent.
  virtual size_t SendingBytes(uint32_t tag) const = 0;
  // Ends the stream with this status, after the messages sent before have left. `at_once`: discards
  // a message that the client does not take; the client may then not receive the status. The loop
  // has removed the stream: no call for this tag may follow. Called exactly once for each stream,
  // also after OnClosed, but not from the loop's destructor.
  virtual void Finish(uint32_t tag, const absl::Status& outcome, bool at_once) = 0;
};

class StreamLoop {
 public:
  // The interval at which OnTimer is to be called while there are streams.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(50);

  // Both must outlive the loop, and the front end must not be called any more when the loop is
  // destroyed. All loops of a front end are made before the first stream.
  StreamLoop(NativeFrontend* frontend, Transport* transport);
  ~StreamLoop();
  StreamLoop(const StreamLoop&) = delete;
  StreamLoop& operator=(const StreamLoop&) = delete;

  // --- From the transport ------------------------------------------------------------------------
  // A client at `address` calls `method`. Returns the tag of the new stream, which takes a message
  // as after Transport::Receive, or an error if the stream is refused.
  absl::StatusOr<uint32_t> Open(Method method, std::string address);
  // A message came. Called once after each Receive.
  void OnMessage(uint32_t tag, std::string_view bytes);
  // The client sends no more messages. Called once, instead of OnMessage.
  void OnHalfClosed(uint32_t tag);
  // The previous message was sent, after a Send that returned false.
  void OnWritable(uint32_t tag);
  // The client has disconnected, or has cancelled the stream.
  void OnClosed(uint32_t tag);
  // Called after each Transport::Wake.
  void OnWake();
  // Called after each Transport::EndIterationSoon.
  void EndIteration();
  // Checks time-outs and sends touches to the leader.
  void OnTimer();

  size_t stream_count() const { return clients_.size(); }
  // Returns the unsent bytes of all streams together. O(streams).
  size_t unsent_bytes() const;

  // --- Any thread --------------------------------------------------------------------------------
  struct EventItem {
    uint32_t tag;
    uint64_t number;
    std::shared_ptr<const Event> event;
  };
  struct SessionClosed {
    uint32_t tag;
  };
  struct SessionAttached {
    uint32_t tag;
    tree::Zxid attach_zxid;
  };
  struct BarrierDone {
    uint64_t barrier;
  };
  struct TreeReplaced {};
  using Item = std::variant<tree::ApplyResult, EventItem, SessionClosed, SessionAttached,
                            BarrierDone, TreeReplaced>;
  // Queues without waking the loop.
  void Push(Item item);
  // Wakes the loop if items are queued and the loop was not woken for them.
  void Wake();
  // The begin of the last iteration. A loop that has begun none for kHeldUpAfter is held up: while
  // it has streams, OnTimer comes far more often.
  static constexpr auto kHeldUpAfter = std::chrono::milliseconds(600);
  std::chrono::steady_clock::time_point last_iteration() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(last_iteration_.load(std::memory_order_relaxed)));
  }

  // --- For streams -------------------------------------------------------------------------------
  NativeFrontend& frontend() { return *frontend_; }
  // REQUIRES: the tree is locked, as in Stream::Continue.
  const tree::Tree& tree() const;
  // Unlocks the tree before the end of Continue, which then must not read it again.
  void UnlockTree();
  // Counts work on the locked tree: the number of znodes visited, or work of the same cost. When
  // kNodesPerHold are spent, the tree is unlocked for a moment between two streams, so that apply
  // waits for a bounded time only.
  void Spend(size_t nodes) {
    spent_ += nodes;
    longest_hold_ = std::max(longest_hold_, spent_);
  }
  // The most that was spent in one hold of the lock.
  size_t longest_hold() const { return longest_hold_; }
  // Whether the tree was locked for long enough: the caller continues in the next iteration.
  bool has_spent_enough() const { return spent_ >= kNodesPerHold; }
  // The last zxid applied when the tree was last locked; all events up to it were delivered to the
  // streams.
  tree::Zxid seen_zxid() const { return seen_zxid_; }
  // The batch that goes to the log in this iteration. Call AddedCommand after each one appended to
  // its bytes.
  std::string& command_bytes() { return *batch_.bytes; }
  // Returns false if the command is too large for the log: it is then removed from the batch.
  bool AddedCommand(size_t offset);
  // Returns the number of a barrier. Stream::OnBarrierDone is called with it when everything that
  // was committed anywhere before this iteration is applied here.
  uint64_t AddBarrier(uint32_t tag);
  std::chrono::steady_clock::time_point now() const { return now_; }
  // The server's status, at most kTimerPeriod old.
  const ServerStatus& status();

 private:
  struct Client;

  Client* Find(uint32_t tag);
  void MarkDirty(Client& client);
  void ScheduleIterationEnd();
  void SubmitBatch();
  void LockTree();
  void DrainInbox();
  void HandleItem(Item& item);
  void FinishIfBad(Client& client, const absl::Status& status);
  void Flush(Client& client);
  // Reports to the memory budget how much the client takes now.
  void CountMemory(Client& client);
  void CountMemory(Client& client, size_t unsent, size_t held);
  void EndHeaviest();
  void MaybeReceive(Client& client);
  // Closes the stream and drops its watches, in pieces. REQUIRES: the tree is not locked.
  void Close(Client& client, const absl::Status& outcome, bool at_once);
  void BeginIteration();
  // Returns whether a session's stream is not read from for a reason that lies with this server.
  static bool IsHeldUp(const Client& client);
  void SendTouches();
  void SendTouchesNow();

  NativeFrontend* const frontend_;
  Transport* const transport_;
  const Clock* const clock_;
  const size_t number_;
  // Only for lookups by tag; iteration uses in_order_, the order of opening.
  absl::flat_hash_map<uint32_t, std::shared_ptr<Client>> clients_;
  std::list<std::shared_ptr<Client>> in_order_;

  CommandBatch batch_;
  std::vector<std::shared_ptr<Client>> dirty_;
  bool iteration_end_scheduled_ = false;
  std::optional<GuardedTree::ReadGuard> tree_;  // has a value while the tree is locked
  size_t spent_ = 0;                            // since the tree was locked; see Spend
  size_t longest_hold_ = 0;
  uint64_t measurement_seen_ = 0;  // the last measurement of memory that EndHeaviest acted on
  bool inbox_may_have_items_ = false;
  tree::Zxid seen_zxid_;
  std::chrono::steady_clock::time_point now_;
  std::atomic<std::chrono::steady_clock::rep> last_iteration_{0};  // now_
  ServerStatus status_;                                            // of status_at_
  std::optional<std::chrono::steady_clock::time_point> status_at_;
  std::chrono::steady_clock::time_point touches_sent_;
  // Sessions that were touched since then, by streams that have ended.
  std::vector<int64_t> touched_and_ended_;

  // One barrier serves all streams that ask for one in an iteration.
  uint64_t next_barrier_ = 1;
  std::map<uint64_t, std::vector<uint32_t>> barriers_;  // the tags that wait for each barrier
  bool barrier_wanted_ = false;                         // this iteration begins next_barrier_

  Inbox<Item> inbox_;
  std::vector<Item> draining_;
};

}  // namespace quorate::rpc::native
