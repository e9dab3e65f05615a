// One client connection: its handshake, its session and its pipeline of requests. Knows bytes, not
// sockets.
//
// Pipeline: requests of a connection are answered in their order. Writes go to the log as they
// come, any number at once. A read that follows a write which is still on its way waits until that
// write is applied here, and a write that follows a waiting read waits for the read, so that the
// read sees exactly what came before it.
//
// A client that is gone has asked for what it asked all the same: its writes, and the end of its
// session, go to the log though nobody will be answered, as at ZooKeeper. A client may close its
// session with reads before that, and not wait.
//
// Thread-safety: none; everything runs on the thread of the connection's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/server/client_identities.h"
#include "rpc/server/service.h"
#include "rpc/zk/four_letter_words.h"
#include "rpc/zk/protocol.h"
#include "rpc/zk/statistics.h"
#include "tree/tree.h"
#include "tree/watch_table.h"

namespace quorate::rpc::zk {

class ConnectionLoop;

class Connection {
 public:
  // `loop` must outlive the connection. `address` is the client's, without the port.
  Connection(ConnectionLoop* loop, uint32_t tag, std::string address,
             std::shared_ptr<ConnectionStatistics> statistics);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Takes bytes from the client. What it answers is appended to out(). An error means that the
  // connection has to be closed (after out() is sent).
  absl::Status OnBytes(std::string_view bytes);
  // The client hears nothing any more, but what it has sent is still to come: reads are not
  // answered from now on, and do not hold up what is behind them. REQUIRES: not within another
  // call.
  void StopAnswering();
  // After SetFinished, once: begins what has to go to the log of all that was received and has not
  // begun. REQUIRES: not within another call.
  void SubmitRest();

  // --- From the inbox ----------------------------------------------------------------------------
  absl::Status OnResult(tree::ApplyResult result);
  void OnSyncDone(uint64_t sync_id);
  // `readers`: an event of what a client may not read is not for it.
  void OnWatchEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                    const Readers& readers);
  // Whether there is something for Continue to do.
  bool CanContinue() const;
  // Goes on with held requests and with bytes that were received and not looked at yet: because the
  // session was not up, or because there was too much to send or to wait for. REQUIRES: the tree is
  // locked, so that everything that was applied is in out() already.
  absl::Status Continue();
  // The session ended; false if its own closeSession is under way and will be answered.
  bool OnSessionClosed();
  // The session was attached by the command of `attach_zxid`; true if that was another connection.
  bool IsOvertaken(tree::Zxid attach_zxid) const;

  // From time to time: whether the connection has to be closed, with the reason (the server has
  // lost touch with the cluster for so long that the session may be ended elsewhere; no handshake
  // came; ...).
  absl::Status CheckTime(std::chrono::steady_clock::time_point now, int64_t leader_contact_age_ms);
  // Whether CheckTime may have something to say though a leader is heard: not of a client that has
  // a session and may write.
  bool NeedsTime() const { return state_ != State::kUp || read_only_; }
  // Up to this age of the last contact with the leader, no connection is closed for it.
  static int64_t LeaderContactAgeMinMs(const Config& config);
  // A client that has seen more than this server waits in the handshake; tries again.
  absl::Status RetryHandshake();

  uint32_t tag() const { return tag_; }
  const std::string& address() const { return address_; }
  std::string& out() { return out_; }
  bool has_session() const { return state_ == State::kUp || state_ == State::kUnheard; }
  // Whether it may only read, for the server had no quorum when it came.
  bool read_only() const { return read_only_; }
  tree::SessionId session() const { return session_; }
  // Whether a packet came since the last call.
  bool TakeTouched() { return std::exchange(touched_, false); }
  // Close as soon as out() is sent.
  void SetFinished();
  bool finished() const { return state_ == State::kFinished; }
  bool waits_for_catch_up() const { return state_ == State::kCatchingUp; }
  // Whether no more should be read from the client for now.
  bool IsFull() const;
  // A client that takes what it is sent is alive, also if it is too busy to say so.
  void SetTouched();
  // Something came from the client, which may not have been looked at yet.
  void OnHeard();
  int64_t packets_received() const { return packets_received_; }
  int64_t packets_sent() const { return packets_sent_; }
  size_t queued() const { return pipeline_.size(); }
  // What the client makes the server keep, besides out(): about.
  size_t kept_bytes() const;
  // Of events in out(), which nothing holds back, unlike replies.
  size_t unsent_event_bytes() const { return unsent_event_bytes_; }
  // Tells the memory budget what is kept now.
  void CountMemory();
  // All of out() was sent.
  // So much of out() was not sent.
  void SetUnsent(size_t bytes) { unsent_event_bytes_ = std::min(unsent_event_bytes_, bytes); }
  ConnectionStatistics& statistics() { return *statistics_; }

 private:
  enum class State {
    kHandshake,   // nothing but bytes of a connect request (or a four-letter word) so far
    kCatchingUp,  // the client has seen more than this server has applied
    kConfirming,  // this server does not know the session, and asks the leader how far the log is
    kConnecting,  // the session's entry is on its way through the log
    kUp,
    kUnheard,        // as kUp, but nobody takes answers
    kAnsweringWord,  // a four-letter word
    kFinished,
  };
  enum class Stage : uint8_t {
    kHeld,      // waits for what is before it; `bytes` is the request's body
    kInFlight,  // on its way through the log, or a sync
    kReading,   // read in pieces; the first one of the pipeline
    kDone,      // waits for what is before it; `bytes` is the reply
  };
  struct Pending {
    Stage stage = Stage::kHeld;
    int32_t xid = 0;
    OpCode op = OpCode::kPing;
    uint64_t sync_id = 0;
    bool has_path = false;  // of a sync in flight, whose `bytes` are its path; else it was null
    std::chrono::steady_clock::time_point received;
    std::vector<OpCode> shapes;  // of a multi in flight
    std::string bytes;
  };
  enum class Progress { kAnswered, kReading, kInFlight, kMustWait };
  // A read in pieces, between which the tree is unlocked (long_reads.cc).
  class LongRead;
  class ChildrenRead;
  class MultiRead;
  class EphemeralsRead;
  class DescendantsRead;
  class WatchesSetting;

  // Whether a packet may have this length.
  bool IsLength(int32_t length) const;
  // The first packet of `bytes`, if it is whole. Returns its size with the length before it, or 0.
  size_t TakePacket(std::string_view bytes, std::string_view* packet) const;
  absl::Status OnPacket(std::string_view packet);
  absl::Status OnConnectRequest(std::string_view packet);
  absl::Status BeginSession();
  // Takes a session over, if its password is right: whatever is refused is refused here, and not by
  // an entry of the log. `confirmed`: a session that is not known here does not exist.
  void TakeSessionOver(bool confirmed);
  void RefuseSession(bool read_only);
  // The same, of a client that may read only: the server has no quorum. A new session is known here
  // alone, and ends with its connection.
  absl::Status BeginReadOnlySession();
  void BeUp(bool read_only);
  // Serves a request that a server without a quorum cannot serve; false if it can.
  bool RefuseReadOnly(const Pending& pending);
  absl::Status OnSessionResult(const tree::ApplyResult& result);
  absl::Status OnRequest(std::string_view packet);
  absl::Status OnAuth(int32_t xid, std::string_view body);
  // Whether `bytes` begin with a four-letter word, which is then answered as soon as it is whole.
  bool TakeFourLetterWord(std::string_view bytes);
  // The reply to a request was put into out(), or what is to be sent after others: `bytes` of it.
  void CountReply(const Pending& pending, size_t bytes);

  // Begins to serve a request. `alone`: nothing before it is unanswered, so that it may be answered
  // at once; otherwise only what goes through the log may begin. Fills in `*pending` for what is
  // then in flight.
  absl::StatusOr<Progress> Start(std::string_view body, bool alone, Pending* pending);
  absl::StatusOr<Progress> StartWrite(std::string_view body, bool alone, Pending* pending);
  absl::StatusOr<Progress> AnswerNow(int32_t xid, OpCode op, std::string_view body);
  void Hold(Pending pending, std::string_view body);
  // Forgets what was received and has not begun.
  void DropRest();
  // Begins what has to go to the log of what was received; false if that ends with something behind
  // which nothing is to begin.
  bool SubmitReceived();
  // The same of one request.
  bool SubmitUnanswered(std::string_view packet);
  bool SubmitUnanswered(Pending* pending, std::string_view body);
  Progress Read(int32_t xid, OpCode op, std::string_view body);
  Progress ReadChildren(int32_t xid, OpCode op, const ReadRequest& request);
  // Answers with a list, and leaves a watch. `finish` makes the list of names, which may take long.
  template <class Finish>
  void ReplyChildren(int32_t xid, OpCode op, bool watch, std::string_view path, tree::Stat* stat,
                     Finish finish);
  // The first piece of a read; kReading if it takes more.
  Progress Begin(std::unique_ptr<LongRead> read);
  // The next one. False if it takes more.
  bool ContinueReading();
  // These begin what may take several pieces.
  Progress ReadMany(int32_t xid, std::string_view body);
  Progress GetEphemerals(int32_t xid, std::string_view body);
  Progress GetAllChildrenNumber(int32_t xid, std::string_view body);
  Progress SetWatches(int32_t xid, OpCode op, std::string_view body);
  size_t ReplyBytesMax() const;
  void WhoAmI(int32_t xid);
  void AddWatch(int32_t xid, std::string_view body);
  void CheckOrRemoveWatches(int32_t xid, OpCode op, std::string_view body);
  void Watch(std::string_view path, tree::WatchKind kind);
  void ReplyError(int32_t xid, tree::ErrorCode error);
  absl::Status OnRequestResult(const tree::ApplyResult& result);
  // Begins what waited and need not any more.
  absl::Status StartHeld();
  // The zxid of a reply that has none of its own: not below what the client has seen. (The loop's
  // is below that of an event while more of the same change may be in the inbox.)
  tree::Zxid SeenZxid() const;
  // Whether the client has so much to fetch that nothing more is answered for now.
  bool HasMuchToSend() const;
  // Makes the reply to a sync in flight.
  void FinishSync(Pending& sync);
  // Sends what is done at the front of the pipeline; the first `sent` bytes of it are in out().
  void SendDone(size_t sent);
  tree::CommandHeader Header(tree::CommandKind kind) const;

  ConnectionLoop* const loop_;
  const uint32_t tag_;
  const std::string address_;
  const std::chrono::steady_clock::time_point opened_;
  const std::shared_ptr<ConnectionStatistics> statistics_;

  State state_ = State::kHandshake;
  std::string in_;   // an incomplete packet
  std::string out_;  // not yet sent
  ConnectRequest connect_;
  tree::SessionId session_;
  tree::Zxid attach_zxid_;
  tree::Zxid event_zxid_;  // of the last event that was sent
  int32_t timeout_ms_ = 0;
  bool touched_ = false;
  bool read_only_ = false;
  bool local_ = false;  // the session is known to this server alone
  std::chrono::steady_clock::time_point heard_;
  bool unread_ = false;    // in_ may hold whole packets
  bool has_rest_ = false;  // it finished without SubmitRest
  ClientIdentities identities_;
  FourLetterWords::Pieces word_pieces_;  // kAnsweringWord: the rest of the answer
  size_t unsent_event_bytes_ = 0;
  int64_t counted_requests_ = 0;  // in the memory budget
  int64_t counted_reads_ = 0;
  std::deque<Pending> pipeline_;
  std::unique_ptr<LongRead> long_read_;  // of the first request of the pipeline
  size_t held_count_ = 0;
  size_t held_bytes_ = 0;
  bool held_paused_ = false;  // only because there was much to send
  uint64_t next_sync_id_ = 1;
  uint64_t confirm_sync_id_ = 0;  // kConfirming
  bool confirmed_ = false;        // that sync is done
  int64_t packets_received_ = 0;
  int64_t packets_sent_ = 0;
};

}  // namespace quorate::rpc::zk
