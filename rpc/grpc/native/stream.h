// One stream of a client through the native front end: a session, a unary call or a watch. Knows
// messages, not gRPC.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/grpc/native/event.h"
#include "rpc/grpc/native/event_history.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

class StreamLoop;

// What a client can ask for.
enum class Method : uint8_t {
  kSession,  // Sessions.Session
  kGet,      // the rest are Tree's
  kExists,
  kList,
  kCreate,
  kSet,
  kDelete,
  kTxn,
  kWatch,
};

// What is to be sent: messages, each of which has whatever was ready, as far as it is not too large
// for a client that has set no limits of its own.
class Outbox {
 public:
  // To append to: parts of a message that follow each other make one message.
  std::string* Open();
  // Takes note of what was appended.
  void Close();
  size_t bytes() const { return bytes_; }
  bool empty() const { return messages_.empty(); }
  size_t count() const { return messages_.size(); }
  // The next one to be sent. REQUIRES, of these two: it is not empty.
  std::string& front() { return messages_.front().bytes; }
  void Pop();

 private:
  struct Message {
    std::string bytes;
    size_t counted = 0;  // of them, in bytes_
  };
  std::deque<Message> messages_;
  size_t bytes_ = 0;
};

// Events on their way to a client that may not read them as fast as they happen: what does not fit
// stays in the history, and is fetched from there when there is room.
class EventFeed {
 public:
  // Unsent bytes of a stream from which on events stay in the history.
  static constexpr size_t kUnsentBytesMax = 4u << 20;

  // Whether the event of this number is to be sent now.
  bool Takes(uint64_t number, size_t unsent_bytes);
  // From now on, the event of this number is the next one to be sent.
  void GoBackTo(uint64_t number);
  bool lagging() const { return lagging_; }

  // Calls `send(event)` for what is left, as long as `may_go_on()`. TOO_SLOW if some of it is not
  // kept any more. REQUIRES: the tree is locked, and the inbox is empty.
  template <class MayGoOn, class Send>
  absl::Status CatchUp(const EventHistory& history, MayGoOn may_go_on, Send send) {
    if (!lagging_) return absl::OkStatus();
    if (history.IsLost(next_)) return Lost();
    EventHistory::Reader reader(history, next_);
    while (!reader.at_end() && may_go_on()) send(reader.Next());
    next_ = reader.number();
    lagging_ = !reader.at_end();
    return absl::OkStatus();
  }

 private:
  static absl::Status Lost();

  bool lagging_ = false;
  uint64_t next_ = 0;
};

class Stream {
 public:
  // `loop` must outlive the stream. `address` is the client's, without the port.
  Stream(StreamLoop* loop, uint32_t tag, std::string address);
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // In all of these, an error ends the stream with that status.

  // A message came. Not more than what goes through the log may be begun here.
  virtual absl::Status OnMessage(std::string_view bytes) = 0;
  // The client sends no more.
  virtual absl::Status OnHalfClosed() { return absl::OkStatus(); }

  // --- From the inbox. The tree is locked --------------------------------------------------------
  virtual absl::Status OnResult(tree::ApplyResult result) = 0;
  virtual void OnEvent(uint64_t number, const Event& event);
  virtual void OnBarrierDone(uint64_t barrier) = 0;
  virtual absl::Status OnSessionClosed() { return absl::OkStatus(); }
  // The session was attached by the command of `attach_zxid`.
  virtual absl::Status OnSessionAttached(tree::Zxid attach_zxid);
  // The tree was replaced: what became of anything that was under way is unknown.
  virtual absl::Status OnTreeReplaced() = 0;

  // Goes on with what can go on. REQUIRES: the tree is locked and the inbox is empty, so that every
  // event is in the outbox before any answer that could show its change.
  virtual absl::Status Continue() = 0;
  // Whether Continue has something to do.
  bool wants_to_continue() const { return wants_to_continue_; }
  // There is room for more after messages were sent.
  virtual void OnRoom() {}

  // From time to time: whether the stream has to end, with the reason.
  virtual absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                                 int64_t leader_contact_age_ms) = 0;

  // Just before a message is sent: what it says of the time at which it was. REQUIRES: the inbox
  // was empty when the tree was locked last, and the stream was handed all of it: !finished().
  virtual void Complete(std::string* message) { static_cast<void>(message); }

  // Whether it has watches, which DropWatches must drop before the stream is destroyed.
  virtual bool has_watches() const { return false; }
  // Drops at most `max` of its watches; nothing else may follow. REQUIRES: the tree is locked.
  virtual void DropWatches(size_t max) { static_cast<void>(max); }

  uint32_t tag() const { return tag_; }
  const std::string& address() const { return address_; }
  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }
  // Whether the stream ends, with its status, as soon as the outbox is sent.
  bool finished() const { return finished_; }
  const absl::Status& outcome() const { return outcome_; }
  // What was there before is sent, then the stream ends.
  void Finish(absl::Status outcome);

  // The session that it stands for, or none.
  virtual tree::SessionId session() const { return tree::kNoSession; }
  // Whether the session was heard from since the last call.
  virtual bool TakeTouched() { return false; }
  // Whether no more should be read from the client for now.
  virtual bool IsFull() const { return false; }
  // Bytes of requests that wait for what is before them.
  virtual size_t held_bytes() const { return 0; }
  // Bytes that it keeps besides those and the outbox.
  virtual size_t kept_bytes() const { return 0; }
  // Whether something of it waits for the log.
  virtual bool waits_for_log() const { return false; }

 protected:
  StreamLoop* const loop_;
  bool wants_to_continue_ = false;

 private:
  const uint32_t tag_;
  const std::string address_;
  Outbox outbox_;
  bool finished_ = false;
  absl::Status outcome_;
};

}  // namespace quorate::rpc::native
