// A session's stream: its opening and its pipeline of requests.
//
// Pipeline: requests are begun and answered in their order. Writes go to the log as they come, any
// number at once, and barriers (of Sync and of linearizable reads) begin beside them. A read is
// done when all before it is answered; what would change what it sees (a write, a credential) waits
// for it.
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
#include "rpc/grpc/native/reads.h"
#include "rpc/grpc/native/scoped_watches.h"
#include "rpc/grpc/native/stream.h"
#include "rpc/proto/quorate/v1/session.pb.h"
#include "rpc/server/client_identities.h"

namespace quorate::rpc::native {

// Requests for watches at the front of a pipeline, of which some go on from a zxid. They are taken,
// the history is looked through once for all of them, and they are answered; a part of that in each
// iteration, so that the tree is not locked for long.
struct WatchResumption {
  // Of a watch that begins with its answer.
  static constexpr tree::Zxid kFromNow{INT64_MAX};

  size_t requests = 0;  // that were taken, from the front of the pipeline
  bool taken = false;   // all of them
  // What the watches that are not answered have seen, by id.
  absl::btree_map<uint64_t, tree::Zxid> after;
  // The event of the history that is looked at next; none: nothing goes on from a zxid.
  std::optional<uint64_t> next;
  bool told = false;    // the history was looked through: from now on events are told as they come
  size_t answered = 0;  // requests, after that
  // While watches are given up whose events the history has dropped: which, how many requests were
  // looked at, and with which event the others go on.
  std::optional<tree::Zxid> lost_before;
  size_t checked = 0;
  uint64_t next_kept = 0;
};

class SessionStream final : public Stream {
 public:
  // What one stream may have: requests in its pipeline and bytes of those that were not begun,
  // before no more is read from it; requests in one message; watches, and bytes of their paths.
  static constexpr size_t kPipelineRequestsMax = 4096;
  static constexpr size_t kHeldBytesMax = 8u << 20;
  static constexpr size_t kMessageRequestsMax = 16384;
  static constexpr size_t kWatchesMax = 100'000;
  static constexpr size_t kWatchBytesMax = 16u << 20;
  // Of the watches, those with the same path and scope: an event names each that sees it.
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
    kNew,         // nothing came
    kCatchingUp,  // the client has seen more than this member has applied
    kConfirming,  // it does not know the session, and asks the leader how far the log is
    kOpening,     // the session's entry is on its way through the log
    kAttached,    // it is applied, and the client is not told yet
    kUp,
  };
  enum class Stage : uint8_t {
    kHeld,      // not begun
    kInFlight,  // on its way through the log, or a barrier
    kReady,     // to be done when it is the first
    kDone,      // answered, when it is the first
  };
  struct Pending {
    Stage stage = Stage::kHeld;
    v1::Request::KindCase kind = v1::Request::KIND_NOT_SET;
    uint64_t id = 0;
    uint64_t barrier = 0;                  // in flight: which one; 0: the log
    std::unique_ptr<v1::Request> request;  // until it is begun, of a read until it is done
    size_t bytes = 0;                      // of it
    std::vector<tree::OpKind> asked;       // of a write in flight
    v1::ErrorCode refused = v1::OK;        // of a write in flight that only uses up its number
    std::string answer;                    // done: a SessionResponse with it
  };
  struct WatchPlace {
    std::string path;
    Scope scope;
  };

  absl::Status OnOpen(const v1::OpenSession& open);
  absl::Status BeginSession();
  absl::Status TryToBegin();
  void SendOpened();
  // Begins what can be begun.
  void Begin();
  bool CanBegin(const Pending& pending) const;
  void BeginOne(Pending* pending);
  void BeginWrite(Pending* pending);
  void AddCredential(Pending* pending);
  // Does or sends what is first, as far as it goes. Returns whether anything was.
  bool AnswerFirst();
  void DoRead(Pending* pending);
  template <class Result>
  void DoRead(const std::string& path, Result* result, v1::Response* response);
  // The next piece of a list.
  void DoList(Pending* pending);
  void AnswerRead(v1::Response response, Pending* pending);
  void DoWatches();
  // These do what one iteration has time for, and return whether all of it is done.
  bool TakeWatches();
  bool TellThePast();
  bool GiveUpWhatIsLost();
  bool AnswerWatches();
  // Whether the tree was locked for long enough in this iteration; if so, another one follows.
  bool HasSpentEnough();
  void TakeRequest(Pending* pending);
  v1::ErrorCode TakeWatch(const v1::Request::Watch& watch, v1::Response* response);
  // Whether an event that comes now is told to this watch.
  bool IsLive(uint64_t watch_id) const;
  void DropWatch(uint64_t watch_id);
  void DoUnwatch(uint64_t watch_id);
  void DoWhoAmI(v1::Response* response);
  void Answer(v1::Response response, Pending* pending);
  // The request, which is not kept any longer.
  std::unique_ptr<v1::Request> Release(Pending* pending);
  // To those of the watches that the client may hear of it by, which are left.
  void SendEvent(const Event& event, std::vector<uint64_t>* watch_ids);
  void SendIfSeen(const Event& event);
  bool HasMuchToSend();
  tree::CommandHeader Header(tree::CommandKind kind) const;

  State state_ = State::kNew;
  std::unique_ptr<ListReader> list_;  // that the first request is reading
  v1::OpenSession open_;
  std::chrono::steady_clock::time_point opened_;
  uint64_t confirm_barrier_ = 0;  // kConfirming, and behind
  tree::SessionId session_;
  tree::Zxid attach_zxid_;
  int32_t timeout_ms_ = 0;
  bool touched_ = false;
  bool half_closed_ = false;
  bool closing_ = false;  // its Close is on its way
  ClientIdentities identities_;
  uint64_t acknowledged_ = 0;

  std::deque<Pending> pipeline_;
  size_t begun_ = 0;        // of them, from the front
  size_t reads_begun_ = 0;  // and not done
  size_t held_bytes_ = 0;   // of requests that are kept
  bool paused_ = false;     // there is too much to send

  ScopedWatches watches_;  // by id
  absl::btree_map<uint64_t, WatchPlace> watch_places_;
  std::optional<WatchResumption> resumption_;
  size_t watch_bytes_ = 0;
  EventFeed feed_;
};

}  // namespace quorate::rpc::native
