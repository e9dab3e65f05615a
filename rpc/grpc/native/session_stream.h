// SPDX-License-Identifier: Apache-2.0

// The stream of a session: its opening and its pipeline of requests.
//
// Pipeline: requests are begun and answered in the order in which they arrive. Writes are submitted
// to the log as they arrive, any number of them at the same time, and barriers (of Sync and of
// linearizable reads) begin at the same time. A read is executed when all requests before it are
// answered. A later request that would change what the read returns (a write or a credential)
// begins after the read.
//
// Thread-safety: none; everything runs on the thread of the stream's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/grpc/native/list_reader.h"
#include "rpc/grpc/native/request_record.h"
#include "rpc/grpc/native/scoped_watches.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/proto/quorate/v1/session.pb.h"

namespace quorate::rpc::native {

// The watch requests at the front of a pipeline, if some of them resume from a zxid. First they are
// taken, then the history is read once for all of them, and then they are answered. This is done in
// parts, over several iterations, so that the tree is not locked for long.
struct WatchResumption {
  // The zxid of a watch that begins with its response.
  static constexpr tree::Zxid kFromNow{INT64_MAX};

  size_t requests = 0;  // requests taken, from the front of the pipeline
  bool taken = false;   // all requests were taken
  // The zxid after which each watch that is not answered yet gets events, by watch id.
  absl::btree_map<uint64_t, tree::Zxid> after;
  // The number of the next event of the history to read; nullopt if no watch resumes from a zxid.
  std::optional<uint64_t> next;
  bool history_sent = false;  // the history was read: from now on events are sent as they arrive
  size_t answered = 0;        // requests that were answered after that
  // The state of EndLostWatches. Watches that resume before this zxid are answered EVENTS_LOST; the
  // number of requests checked; the first event for the other watches.
  std::optional<tree::Zxid> lost_before;
  size_t checked = 0;
  uint64_t next_kept = 0;
};

class SessionStream final : public Stream {
 public:
  // Limits of one stream. If its pipeline has this many requests, or this many bytes of requests
  // that were not begun, no more messages are read from it. The others limit the requests in one
  // message, the watches, and the bytes of their paths.
  static constexpr size_t kPipelineRequestsMax = 4096;
  static constexpr size_t kHeldBytesMax = 8u << 20;
  // The most writes that read, of those that are begun and whose answers are not sent; their answers
  // may be long, however short the writes are. Only one if replies take too much memory.
  static constexpr size_t kReadingWritesMax = 8;
  static constexpr size_t kMessageRequestsMax = 16384;
  static constexpr size_t kWatchesMax = 100'000;
  static constexpr size_t kWatchBytesMax = 16u << 20;
  // The maximum number of watches with the same path and scope: an event lists each of them.
  static constexpr size_t kWatchesOfPathMax = 10'000;

  SessionStream(StreamLoop* loop, uint32_t tag, std::string address);
  ~SessionStream() override;

  absl::Status OnMessage(std::string_view bytes) override;
  absl::Status OnHalfClosed() override;
  absl::Status OnResult(tree::ApplyResult result) override;
  void OnEvent(uint64_t number, const Event& event) override;
  void OnBarrierDone(uint64_t barrier) override;
  absl::Status OnSessionClosed() override;
  absl::Status OnSessionAttached(tree::Zxid attach_zxid) override;
  absl::Status OnTreeReplaced() override;
  void CountUnanswered() const override;
  size_t outstanding() const override { return pipeline_.size(); }
  void CorrectEphemerals() override;
  void OnEphemerals(size_t count) override;
  size_t held_bytes() const override { return held_bytes_; }
  size_t kept_bytes() const override {
    return watch_bytes_ + (list_ == nullptr ? 0 : list_->bytes());
  }
  absl::Status Continue() override;
  void OnRoom() override;
  absl::Status CheckTime(std::chrono::steady_clock::time_point now,
                         int64_t leader_contact_age_ms) override;
  void Complete(std::string* message) override;
  bool has_watches() const override { return !watch_places_.empty(); }
  void DropWatches(size_t max) override;
  tree::SessionId session() const override { return session_; }
  bool TakeTouched() override;
  bool IsFull() const override;
  bool waits_for_log() const override { return !pipeline_.empty(); }

 private:
  enum class State {
    kNew,         // no message has arrived
    kCatchingUp,  // the client has seen a newer zxid than this member has applied
    kConfirming,  // the session is unknown here; waits for a barrier
    kOpening,     // the command of the session is submitted, not yet applied
    kAttached,    // the command is applied; `opened` is not sent yet
    kUp,
  };
  enum class Stage : uint8_t {
    kHeld,      // not begun
    kInFlight,  // a submitted command, or a barrier
    kReady,     // is executed when it is the first in the pipeline
    kDone,      // its response is sent when it is the first in the pipeline
  };
  struct Pending {
    Stage stage = Stage::kHeld;
    v1::Request::KindCase kind = v1::Request::KIND_NOT_SET;
    uint64_t id = 0;
    uint64_t barrier = 0;  // in flight: the number of the barrier; 0: a command
    // Kept until it is begun; a read, and a refused write for the audit log, until it is done.
    std::unique_ptr<v1::Request> request;
    size_t bytes = 0;  // size of the request
    AskedKinds asked;  // kinds of the operations of a write in flight
    v1::ErrorCode refused =
        v1::ERROR_CODE_UNSPECIFIED;  // error of a write in flight that was refused
    size_t ephemerals = 0;           // that a write in flight may create
    bool has_reads = false;          // a write that reads
    // A write whose answer may be long, however short it is: one that reads, or is sent again.
    bool is_long = false;
    size_t parts = 0;    // operations and compares of a write in flight
    std::string answer;  // if done: an encoded SessionResponse
    // What the statistics need, as in RequestRecord. `command` is set while a write is in flight. When its
    // result comes, a write that cannot be answered at once lets go of it and keeps the beginning of its
    // path: the command is the batch of all clients, whose memory is counted for none of them.
    RequestKind what = RequestKind::kUnknown;
    bool was_alone = false;
    bool is_in_pieces = false;
    std::chrono::steady_clock::time_point received;
    uint64_t sequence = 0;
    tree::Zxid zxid;
    std::shared_ptr<const std::string> command;
    size_t offset = 0;
    std::string path;
  };
  struct WatchPlace {
    std::string path;
    Scope scope;
  };

  absl::Status OnOpen(const v1::OpenSession& open);
  absl::Status BeginSession();
  absl::Status TryToBegin();
  void SendOpened();
  // Returns whether the tenant has a limit of outstanding requests.
  bool IsHeldBack() const;
  // Begins the requests that can begin.
  void Begin();
  // Takes a token for a request. If there is none, the stream is slowed until a timer ends that.
  bool TakeToken(const Pending& pending);
  bool CanBegin(const Pending& pending);
  // Returns whether it is a write with a number that this stream has sent before. After a reconnection
  // each number is sent once, so that all answers together have at most the bytes that the tree keeps;
  // but a stream that sends one number again and again would get its answer as often. Therefore only
  // one such write is begun at a time.
  bool IsSentAgain(const Pending& pending) const;
  size_t LongWritesMax() const;
  void BeginOne(Pending* pending);
  void BeginWrite(Pending* pending);
  // Records a write that is refused in the audit log. REQUIRES: it has its request.
  void Audit(const Pending& pending) const;
  void DoAddCredential(Pending* pending);
  // Executes the first request of the pipeline, or sends its response, as far as that is possible.
  // Returns whether a response was sent and more may follow.
  bool AnswerFirst();
  void DoRead(Pending* pending);
  template <class Result>
  void DoRead(const std::string& path, Result* result, v1::Response* response);
  // Reads the next piece of the list of the first request.
  void DoList(Pending* pending);
  void AnswerRead(v1::Response response, Pending* pending);
  void DoWatches();
  // Each of these does a part of its work per iteration, and returns whether all of it is done.
  bool TakeWatches();
  bool SendHistory();
  bool EndLostWatches();
  bool AnswerWatches();
  // Returns whether the tree was locked for long enough in this iteration. If so, schedules another
  // iteration.
  bool HasSpentEnough();
  void TakeRequest(Pending* pending);
  v1::ErrorCode TakeWatch(const v1::Request::Watch& watch, v1::Response* response);
  // Returns whether an event that arrives now is sent for this watch.
  bool IsLive(uint64_t watch_id) const;
  void DropWatch(uint64_t watch_id);
  void DoUnwatch(uint64_t watch_id);
  void DoWhoAmI(v1::Response* response);
  void Answer(v1::Response response, Pending* pending);
  static RequestRecord RecordOf(const Pending& pending);
  // Keeps the beginning of the first path of a write that is done, in place of its command.
  static void DropCommand(Pending* pending);
  void DropCommandOfFirst();
  // Takes the request out, and no longer counts it among the held bytes.
  std::unique_ptr<v1::Request> Release(Pending* pending);
  // Sends the event for those of the watches for which the client may receive it. Removes the
  // others from `*watch_ids`.
  void SendEvent(const Event& event, std::vector<uint64_t>* watch_ids);
  void SendIfSeen(const Event& event);
  bool HasMuchToSend();
  tree::CommandHeader Header(tree::CommandKind kind) const;

  State state_ = State::kNew;
  std::unique_ptr<ListReader> list_;  // reader of the list of the first request
  v1::OpenSession open_;
  std::chrono::steady_clock::time_point opened_;
  uint64_t confirm_barrier_ = 0;  // the barrier of kConfirming; 0: none yet
  tree::SessionId session_;
  tree::Zxid attach_zxid_;
  int32_t timeout_ms_ = 0;
  bool touched_ = false;
  bool half_closed_ = false;
  bool closing_ = false;       // the client's Close is in flight
  bool is_slowed_ = false;     // waits for a token for the next request
  bool is_delayed_ = false;    // waits for a token for the new session
  bool is_held_back_ = false;  // is not read from because of outstanding requests
  size_t ephemerals_in_flight_ = 0;
  uint64_t acknowledged_ = 0;

  std::deque<Pending> pipeline_;
  size_t begun_ = 0;             // number of requests begun, from the front
  size_t reads_begun_ = 0;       // number of reads that are begun and not done
  size_t long_writes_ = 0;       // number of writes with is_long that are begun and not sent
  uint64_t begun_sequence_ = 0;  // the highest number of a write that was begun in this stream
  size_t held_bytes_ = 0;        // bytes of the requests that are kept
  bool paused_ = false;          // too many bytes are unsent

  ScopedWatches watches_;  // by watch id
  absl::btree_map<uint64_t, WatchPlace> watch_places_;
  std::optional<WatchResumption> resumption_;
  size_t watch_bytes_ = 0;
  EventFeed feed_;
  CountedBytes reserved_;  // the answers of writes with is_long that wait to be sent
};

}  // namespace quorate::rpc::native
