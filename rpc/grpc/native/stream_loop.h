// SPDX-License-Identifier: Apache-2.0

// The streams of one thread of the native front end, without the thread and without gRPC: their
// inbox, their loop iterations, the batch of their writes and their periodic work. The loop handles
// messages and tags. StreamThread drives it from gRPC; a test or a simulation drives it step by
// step.
//
// An iteration begins with an input (Open, OnMessage, OnWritable, OnWake, ...) and ends with
// EndIteration, after all inputs that were ready together. EndIteration submits the writes of all
// streams to the log as one batch, and locks the tree once. It delivers the results and events of
// everything applied to the streams, and lets the streams continue that can. Then each stream sends
// all its ready parts as one message.
//
// Thread-safety: any thread may call Push and Wake. Everything else runs on one thread, including
// the calls of Transport except for Transport::Wake. Apart from locks, nothing here waits for
// another thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/frontend/client_loop.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/request_statistics.h"
#include "rpc/grpc/native/frontend.h"
#include "rpc/grpc/native/request_record.h"
#include "rpc/grpc/native/stream.h"

namespace quorate::rpc::native {

// The loop's access to its clients. These functions must not call back into the loop. Only the
// loop's functions call them, except for Wake.
class Transport {
 public:
  virtual ~Transport() = default;

  // Schedules a call of OnWake on the loop's thread. May be called from any thread.
  virtual void Wake() = 0;
  // Schedules one call of EndIteration, after all inputs that are ready now.
  virtual void EndIterationSoon() = 0;

  // Lets the stream receive one message. OnMessage is called once with the next message, or
  // OnHalfClosed at the end of the client's messages.
  virtual void Receive(uint32_t tag) = 0;
  // Takes `*message` and sends it. Returns false if the previous message is not sent yet: then
  // OnWritable is called when it is.
  virtual bool Send(uint32_t tag, std::string* message) = 0;
  // Returns the bytes of the message that Send took last; 0 if that message is sent.
  virtual size_t SendingBytes(uint32_t tag) const = 0;
  // Ends the stream with this status, after the earlier messages were sent. If `at_once`, discards
  // a message that the client does not take; the client may then not receive the status. The loop
  // has removed the stream, so that no call for this tag may follow. Called exactly once for each
  // stream, also after OnClosed, but not from the loop's destructor.
  virtual void Finish(uint32_t tag, const absl::Status& outcome, bool at_once) = 0;
};

// An item for a stream: an event that it watches.
struct EventItem {
  uint32_t tag;
  uint64_t number;
  std::shared_ptr<const Event> event;
};
// An item for the stream of a session: the number of its ephemerals, which has changed without a
// request of the session.
struct EphemeralsItem {
  uint32_t tag;
  size_t count;
};
struct LoopStream;  // a stream, with the state that its loop keeps for it

class StreamLoop : public ClientLoop<StreamLoop, NativeFrontend, Transport, LoopStream, EventItem,
                                     EphemeralsItem> {
 public:
  // The interval at which OnTimer is to be called while there are streams.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(50);

  // `frontend` and `transport` must outlive the loop. When the loop is destroyed, the front end
  // must not be called any more. All loops of a front end are created before the first stream.
  StreamLoop(NativeFrontend* frontend, Transport* transport);
  ~StreamLoop();

  // --- From the transport ------------------------------------------------------------------------
  // Called when a client calls `method`. Returns the tag of the new stream, which receives a message
  // as after Transport::Receive, or an error if the stream is refused.
  absl::StatusOr<uint32_t> Open(Method method, CallerProof proof);
  // Called when a message has arrived, once after each Receive.
  void OnMessage(uint32_t tag, std::string_view bytes);
  // Called instead of OnMessage, once, when the client will send no more messages.
  void OnHalfClosed(uint32_t tag);
  // Called when the previous message was sent, after a Send that returned false.
  void OnWritable(uint32_t tag);
  // Called when the client has disconnected or has cancelled the stream.
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
  // Returns the server's status, which is at most kTimerPeriod old.
  const ServerStatus& status();
  // Counts a request of the stream that is answered now. Records it if it was slow.
  void CountAnswered(const Stream& stream, const RequestRecord& request);
  // Counts a request that is not answered any more, if it was slow.
  void CountUnanswered(const RequestRecord& request);
  // Returns a number that is greater than those of all earlier streams of contenders.
  uint64_t NextContenderOrder() { return ++contender_order_; }
  // Makes this stream the one of the contender, and ends the one before. Fails if that is newer, by
  // `order`.
  absl::Status TakeContender(const ContenderKey& contender, uint32_t tag, uint64_t order);
  // Tells the stream of the contender, if there is one, that the contender is released.
  void EndCreation(const ContenderKey& contender);
  // Returns whether a stream may read a piece of a queue in this iteration. Together, the streams read
  // only so much in one.
  bool MayScan() const { return scanned_ < kScannedPerIteration; }
  // Counts `bytes` against the memory of replies until the result of the write comes that the stream has
  // added last, also if the stream ends before. `sequence` is the number of a numbered write, else 0.
  void Reserve(uint32_t tag, uint64_t sequence, size_t bytes);
  // As Spend, for a piece of a queue. In the next iteration, the stream has its turn after those that
  // have read nothing.
  void SpendOnScan(uint32_t tag, size_t nodes);

 private:
  using Client = LoopStream;
  friend ClientLoop;

  void BeginIteration();
  void HandleItem(Item& item);
  void OnBarrierDone(Client& client, uint64_t barrier);
  // Ends the stream with `why` once all its messages are sent.
  void Finish(Client& client, const absl::Status& why);
  void Continue(Client& client);
  void Flush(Client& client);
  void EndHeaviest();
  void MaybeReceive(Client& client);
  // Closes the stream and drops its watches, in pieces. REQUIRES: the tree is not locked.
  void Close(Client& client, const absl::Status& outcome, bool at_once);
  // Returns whether a session's stream is not read from for a reason on the side of this server.
  static bool IsHeldUp(const Client& client);
  void AddTouched(std::vector<int64_t>* sessions);

  static constexpr size_t kScannedPerIteration = 4 * kNodesPerHold;

  struct ContenderStreamId {
    uint32_t tag = 0;
    uint64_t order = 0;
  };
  void ForgetContender(const Stream& stream);

  // What a write in flight may return.
  struct Reservation {
    uint64_t sequence = 0;
    size_t bytes = 0;
  };
  // Ends the reservation for the write with this result, if there is one.
  void EndReservation(const tree::ApplyResult& result);

  // Counts a request for whoever sends the most.
  void Sample(const Stream& stream, const RequestRecord& request);
  StageTimes FindStages(const RequestRecord& request, int64_t us);

  LoopRequests* const requests_;
  bool has_begun_ = false;  // an iteration that has not ended
  StageFinder stage_finder_;
  bool inbox_may_have_items_ = false;
  std::map<ContenderKey, ContenderStreamId> contenders_;  // those that have a stream
  uint64_t contender_order_ = 0;
  // By tag, also of streams that have ended: the results that have not come, in order.
  absl::flat_hash_map<uint32_t, std::vector<Reservation>> reservations_;
  CountedBytes reserved_;           // the sum
  size_t scanned_ = 0;              // znodes of queues in this iteration
  std::vector<uint32_t> scanners_;  // the streams that have read them
  ServerStatus status_;             // status at the time status_at_
  std::optional<std::chrono::steady_clock::time_point> status_at_;
  std::chrono::steady_clock::time_point ephemerals_corrected_;
};

}  // namespace quorate::rpc::native
