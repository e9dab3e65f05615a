// The streams of one thread of the native front end, without the thread and without gRPC: their
// inbox, their iterations, the batch of their writes and what happens from time to time. It knows
// messages and tags. StreamThread drives it from gRPC; a test or a simulation drives it by hand.
//
// An iteration begins with whatever comes in (Open, OnMessage, OnWritable, OnWake, ...) and ends
// with EndIteration, once all that came together was handed in. Then the writes of all streams go
// to the log as one batch, the tree is locked once, what was applied is handed to the streams,
// those that can go on do, and each stream sends all it has ready as one message.
//
// Thread-safety: Push and Wake may be called from any thread; everything else runs on one thread,
// also what it calls of Transport, except for Transport::Wake. Nothing here waits for another
// thread, except for the locks.
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
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/server/inbox.h"

namespace quorate::rpc::native {

// How a loop reaches its clients. Calls come from within the loop's functions; they must not call
// back into the loop.
class Transport {
 public:
  virtual ~Transport() = default;

  // From any thread: OnWake is to be called soon, on the loop's thread.
  virtual void Wake() = 0;
  // EndIteration is to be called soon, once: after everything that is ready now was handed in.
  virtual void EndIterationSoon() = 0;

  // The stream takes a message: the next one (once) is to be given to OnMessage, or the end of what
  // the client sends to OnHalfClosed.
  virtual void Receive(uint32_t tag) = 0;
  // Takes `*message` and sends it, one at a time; false if the one before is not sent yet: then
  // OnWritable is to be called when it is.
  virtual bool Send(uint32_t tag, std::string* message) = 0;
  // The bytes of the message that Send took last, until it is sent.
  virtual size_t SendingBytes(uint32_t tag) const = 0;
  // Ends the stream with this status, once what was sent before has left; `at_once`: gives up a
  // message that the client does not take, and the client may learn no more than that. The loop has
  // forgotten the stream: no call for this tag must follow. Comes exactly once for each stream,
  // also after OnClosed, but not from the loop's destructor.
  virtual void Finish(uint32_t tag, const absl::Status& outcome, bool at_once) = 0;
};

class StreamLoop {
 public:
  // How often OnTimer is to be called, as long as there are streams.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(50);

  // Both must outlive the loop, and no call of the front end's may come any more when it is
  // destroyed. The loops of a front end are all made before the first stream.
  StreamLoop(NativeFrontend* frontend, Transport* transport);
  ~StreamLoop();
  StreamLoop(const StreamLoop&) = delete;
  StreamLoop& operator=(const StreamLoop&) = delete;

  // --- From the transport ------------------------------------------------------------------------
  // A client at `address` calls `method`. Returns the tag of the new stream, which takes a message
  // as after Transport::Receive; an error if it is refused.
  absl::StatusOr<uint32_t> Open(Method method, std::string address);
  // A message came; once after each Receive.
  void OnMessage(uint32_t tag, std::string_view bytes);
  // The client sends no more; once, in the place of a message.
  void OnHalfClosed(uint32_t tag);
  // The message before was sent, after a Send that took none.
  void OnWritable(uint32_t tag);
  // The client has gone, or has given up the stream.
  void OnClosed(uint32_t tag);
  // Follows each Transport::Wake.
  void OnWake();
  // Follows each Transport::EndIterationSoon.
  void EndIteration();
  // Time-outs, and touches to the leader.
  void OnTimer();

  size_t stream_count() const { return clients_.size(); }
  // What waits to be sent, of all streams together. O(streams).
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
  // Wakes the loop if something is queued and it does not know.
  void Wake();
  // When it has begun to do something the last time. While it has streams, OnTimer comes far more
  // often than each kHeldUpAfter.
  static constexpr auto kHeldUpAfter = std::chrono::milliseconds(600);
  std::chrono::steady_clock::time_point last_iteration() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(last_iteration_.load(std::memory_order_relaxed)));
  }

  // --- For streams -------------------------------------------------------------------------------
  NativeFrontend& frontend() { return *frontend_; }
  // REQUIRES: the tree is locked, as in Stream::Continue.
  const tree::Tree& tree() const;
  // Unlocks it before the end of Continue, which then must not look at it again.
  void UnlockTree();
  // So much of the tree was looked at, in znodes or what costs as much. Between two streams the
  // tree is unlocked for a moment after kNodesPerHold of them: what apply waits for is bounded.
  void Spend(size_t nodes) {
    spent_ += nodes;
    longest_hold_ = std::max(longest_hold_, spent_);
  }
  // The most that was spent while the tree was locked once.
  size_t longest_hold() const { return longest_hold_; }
  // Whether the tree was locked for long enough: the rest is for the next time.
  bool has_spent_enough() const { return spent_ >= kNodesPerHold; }
  // What was applied when the tree was locked last; all events up to it were handed out.
  tree::Zxid seen_zxid() const { return seen_zxid_; }
  // The batch that goes to the log in this iteration. Call AddedCommand after each one appended to
  // its bytes.
  std::string& command_bytes() { return *batch_.bytes; }
  // False if it is too large for the log: then it is taken out again.
  bool AddedCommand(size_t offset);
  // Stream::OnBarrierDone follows, with the number that is returned, once everything is applied
  // here that was committed anywhere before this iteration.
  uint64_t AddBarrier(uint32_t tag);
  std::chrono::steady_clock::time_point now() const { return now_; }
  // The server's, at most kTimerPeriod old.
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
  // Tells the memory budget what the client takes now.
  void CountMemory(Client& client);
  void CountMemory(Client& client, size_t unsent, size_t held);
  void EndHeaviest();
  void MaybeReceive(Client& client);
  // Drops the watches in pieces. REQUIRES: the tree is not locked.
  void Close(Client& client, const absl::Status& outcome, bool at_once);
  void BeginIteration();
  // Whether a session's stream is not read from, because of this server.
  static bool IsHeldUp(const Client& client);
  void SendTouches();
  void SendTouchesNow();

  NativeFrontend* const frontend_;
  Transport* const transport_;
  const Clock* const clock_;
  const size_t number_;
  // Looked up by tag only; whatever goes through all of them follows the order of opening.
  absl::flat_hash_map<uint32_t, std::shared_ptr<Client>> clients_;
  std::list<std::shared_ptr<Client>> in_order_;

  CommandBatch batch_;
  std::vector<std::shared_ptr<Client>> dirty_;
  bool iteration_end_scheduled_ = false;
  std::optional<GuardedTree::ReadGuard> tree_;  // while the tree is locked
  size_t spent_ = 0;                            // since then
  size_t longest_hold_ = 0;
  uint64_t measurement_seen_ = 0;  // of memory
  bool inbox_may_have_items_ = false;
  tree::Zxid seen_zxid_;
  std::chrono::steady_clock::time_point now_;
  std::atomic<std::chrono::steady_clock::rep> last_iteration_{0};  // now_
  ServerStatus status_;                                            // of status_at_
  std::optional<std::chrono::steady_clock::time_point> status_at_;
  std::chrono::steady_clock::time_point touches_sent_;
  // Sessions that were heard since then on streams that have ended.
  std::vector<int64_t> touched_and_ended_;

  // One barrier serves all streams that ask for one in an iteration.
  uint64_t next_barrier_ = 1;
  std::map<uint64_t, std::vector<uint32_t>> barriers_;  // who waits for which
  bool barrier_wanted_ = false;                         // next_barrier_, in this iteration

  Inbox<Item> inbox_;
  std::vector<Item> draining_;
};

}  // namespace quorate::rpc::native
