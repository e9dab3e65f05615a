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

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/frontend/client_loop.h"
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

// Items for one stream or the loop: an event that a stream watches, and the end of a barrier.
struct EventItem {
  uint32_t tag;
  uint64_t number;
  std::shared_ptr<const Event> event;
};
struct BarrierDoneItem {
  uint64_t barrier;
};

struct LoopStream;  // a stream and what its loop keeps about it

class StreamLoop : public ClientLoop<StreamLoop, NativeFrontend, Transport, LoopStream, EventItem,
                                     BarrierDoneItem> {
 public:
  // The interval at which OnTimer is to be called while there are streams.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(50);

  // Both must outlive the loop, and the front end must not be called any more when the loop is
  // destroyed. All loops of a front end are made before the first stream.
  StreamLoop(NativeFrontend* frontend, Transport* transport);
  ~StreamLoop();

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

  // Returns the unsent bytes of all streams together. O(streams).
  size_t unsent_bytes() const;

  // --- For streams -------------------------------------------------------------------------------
  // Returns the number of a barrier. Stream::OnBarrierDone is called with it when everything that
  // was committed anywhere before this iteration is applied here.
  uint64_t AddBarrier(uint32_t tag);
  // The server's status, at most kTimerPeriod old.
  const ServerStatus& status();

 private:
  using Client = LoopStream;
  friend ClientLoop;

  void SubmitBatch();
  void HandleItem(Item& item);
  // Ends the stream with `why` once everything is sent.
  void Finish(Client& client, const absl::Status& why);
  void Continue(Client& client);
  void Flush(Client& client);
  void EndHeaviest();
  void MaybeReceive(Client& client);
  // Closes the stream and drops its watches, in pieces. REQUIRES: the tree is not locked.
  void Close(Client& client, const absl::Status& outcome, bool at_once);
  // Returns whether a session's stream is not read from for a reason that lies with this server.
  static bool IsHeldUp(const Client& client);
  void AddTouched(std::vector<int64_t>* sessions);

  bool inbox_may_have_items_ = false;
  ServerStatus status_;  // of status_at_
  std::optional<std::chrono::steady_clock::time_point> status_at_;

  // One barrier serves all streams that ask for one in an iteration.
  uint64_t next_barrier_ = 1;
  std::map<uint64_t, std::vector<uint32_t>> barriers_;  // the tags that wait for each barrier
  bool barrier_wanted_ = false;                         // this iteration begins next_barrier_
};

}  // namespace quorate::rpc::native
