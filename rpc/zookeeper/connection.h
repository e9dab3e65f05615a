// SPDX-License-Identifier: Apache-2.0

// One client connection: its handshake, its session and its pipeline of requests. Works on bytes
// and has no access to sockets.
//
// Pipeline: the requests of a connection are answered in the order in which they came. Writes are
// submitted to the log as they come, any number at once. A read that follows a write in flight
// waits until that write is applied here. A write that follows a waiting read waits for the read.
// So each read sees exactly the requests before it. A reconfig waits for all requests before it, and
// all requests after it wait for its outcome. A linearizable read waits for a barrier besides,
// which all reads of the loop's iteration share.
//
// Requests that were received before a disconnect are executed after it if they go to the log
// (writes and closeSession); their replies are dropped, as in ZooKeeper. So a client may send reads
// and then closeSession, and disconnect without waiting for replies. Only if a local session has to be
// made global for one of them, neither that one nor the writes behind it are executed after a
// disconnect.
//
// A local session (local_sessions.h) sends its writes to the log without having an entry there
// itself. Before its first ephemeral is created, it is made global if the configuration allows that:
// its createSession follows the writes that are under way, and all requests from that one on are held
// until the createSession is applied, because the tree then knows the session by its zxid.
//
// Thread-safety: none; everything runs on the thread of the connection's loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/zookeeper/client_paths.h"
#include "rpc/zookeeper/four_letter_words.h"
#include "rpc/zookeeper/protocol.h"
#include "rpc/zookeeper/sasl_exchange.h"
#include "rpc/zookeeper/statistics.h"
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

  // Handles bytes from the client. Replies are appended to out(). An error means that the
  // connection has to be closed (after out() is sent).
  absl::Status OnBytes(std::string_view bytes);
  // Called when the client takes no more bytes, although bytes that it has sent may still come.
  // After this call, reads are not answered and do not delay the requests after them. REQUIRES: not
  // within another call.
  void StopAnswering();
  // Called once after SetFinished. Submits those received requests that go to the log and were not
  // submitted yet. REQUIRES: not within another call.
  void SubmitRest();

  // Adds the identity of the client's certificate. Returns an error if the connection has to be
  // closed, because the identity has too many. REQUIRES: called before OnBytes.
  absl::Status AddCertificate(const std::string& subject);

  // --- From the inbox ----------------------------------------------------------------------------
  absl::Status OnResult(tree::ApplyResult result);
  // Sets whether an administrator has made the reads of the session linearizable. Counts for
  // requests that are parsed from now on.
  void SetLinearizable(bool is_linearizable) { session_is_linearizable_ = is_linearizable; }
  // Called when a barrier that the connection joined has ended, and with it all earlier ones.
  void OnBarrierDone(uint64_t barrier);
  // Called with the outcome of this connection's reconfig. Continue sends the reply.
  void OnReconfigured(const ReconfigurationOutcome& outcome);
  // Sends the event, unless `readers` does not allow this client to read the znode.
  void OnWatchEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                    const Readers& readers);
  // Returns whether Continue has work to do.
  bool CanContinue() const;
  // Continues with held requests, and with received bytes that were not parsed yet because the
  // session was not up, or because too much was unsent or unanswered. REQUIRES: the tree is locked,
  // so that out() already has the results and events of everything applied.
  absl::Status Continue();
  // Called when the session has ended. Returns false if this connection's own closeSession is in
  // the pipeline, and will be answered.
  bool OnSessionClosed();
  // Called when the command with `attach_zxid` has attached the session to a connection. Returns
  // whether that is another connection than this one.
  bool IsOvertaken(tree::Zxid attach_zxid) const;

  // Called periodically. Returns an error, with the reason, if the connection has to be closed. For
  // example, no handshake came, or the server has had no contact with the leader for so long that
  // the session may have ended elsewhere.
  absl::Status CheckTime(std::chrono::steady_clock::time_point now, int64_t leader_contact_age_ms);
  // Returns whether CheckTime has to be called even while the leader is in contact. It need not be
  // for a client that has a session and may write.
  bool NeedsTime() const { return state_ != State::kUp || read_only_ || is_slowed_; }
  // Returns the age of the last contact with the leader, in milliseconds, up to which no connection
  // is closed for a lost leader.
  static int64_t LeaderContactAgeMinMs(const Config& config);
  // Retries the handshake of a client that has seen a newer zxid than this server has applied, or
  // whose tenant has opened too many sessions. REQUIRES: waits_for_retry().
  absl::Status RetryHandshake();

  // Serves the connect request, whose turn it is. REQUIRES: the loop's Handshakes count it as under
  // way.
  absl::Status Admit();
  bool is_queued() const { return state_ == State::kQueued; }

  uint32_t tag() const { return tag_; }
  const std::string& address() const { return address_; }
  std::string& out() { return out_; }
  bool has_session() const { return state_ == State::kUp || state_ == State::kUnheard; }
  // Returns whether the client has proved to have the session, which lives while the client does.
  bool keeps_session_alive() const {
    return has_session() || (is_queued() && session_ != tree::kNoSession);
  }
  // Returns whether the client may only read: the server had no quorum when the client connected.
  bool read_only() const { return read_only_; }
  // Returns whether the session is known only to this server, and can outlive this connection.
  bool is_local() const { return is_local_; }
  tree::SessionId session() const { return session_; }
  // Returns whether the client was counted as alive since the last call.
  bool TakeTouched() { return std::exchange(touched_, false); }
  // Marks the connection as finished: it is closed as soon as out() is sent.
  void SetFinished();
  bool finished() const { return state_ == State::kFinished; }
  bool waits_for_retry() const { return state_ == State::kCatchingUp || state_ == State::kDelayed; }
  // Returns whether nothing more should be received from the client for now.
  bool IsFull() const;
  // Counts the client as alive. Also called when it takes bytes, as it may be too busy to send any.
  void SetTouched();
  // Called when bytes came from the client, even if they are not parsed yet.
  void OnHeard();
  int64_t packets_received() const { return packets_received_; }
  int64_t packets_sent() const { return packets_sent_; }
  size_t queued() const { return pipeline_.size(); }
  // Returns approximately how many bytes the server keeps for the client, besides out().
  size_t kept_bytes() const;
  // Returns the unsent bytes of events in out(). Unlike replies, events are not held back when much
  // is unsent.
  size_t unsent_event_bytes() const { return unsent_event_bytes_; }
  // Returns about how many bytes the current read keeps, if it has several pieces, with its path.
  size_t long_read_bytes() const;
  // Reports to the memory budget how much is kept now.
  void CountMemory();
  // Takes how many bytes of out() are still unsent.
  void SetUnsent(size_t bytes) { unsent_event_bytes_ = std::min(unsent_event_bytes_, bytes); }
  ConnectionStatistics& statistics() { return *statistics_; }

  // --- Local sessions (connection_local.cc) ------------------------------------------------------
  // Counts a write as applied, if the session is local.
  void CountLocalResult();
  // Ends a local session some of whose writes are not applied yet: their results will not come.
  void OnTreeReplaced();
  // Lets a local session go on without this connection, which is closed.
  void DetachLocalSession();
  // Reports that the client of the local session was heard from.
  void TouchLocalSession();
  // Ends the local session if its client was silent for its timeout. Returns whether it was. REQUIRES:
  // no bytes of the client wait to be received.
  bool ExpireLocalSession();

  // --- Limits of tenants (connection_limits.cc) --------------------------------------------------
  // Returns whether the client has asked for nothing yet: neither for a session nor for the answer to
  // a four-letter word.
  bool is_newcomer() const { return state_ == State::kHandshake; }
  bool is_slowed() const { return is_slowed_; }
  // Called when the client has disconnected behind bytes that are not received yet.
  void SetHungUp() { has_hung_up_ = true; }
  // Goes on with the requests of a client that is slowed, if its turn has come. Returns whether it
  // has; Continue is to be called then.
  bool EndSlowing();
  // Counts that the client is not read from because its tenant is at a limit of what is outstanding,
  // if it is: once until the tenant is below the limit. REQUIRES: called whenever it is decided
  // whether the client is read from.
  void CountHeldBack();
  // Corrects the counts of watches and ephemerals, some of which may have gone without a request of
  // this client. REQUIRES: the tree is locked.
  void CorrectCounts();
  // Returns whether CorrectCounts may have something to correct.
  bool has_correctable_counts() const {
    return has_fewer_watches_ || tenants_.ephemerals() > 0 || tenants_.was_slowed();
  }
  // Leaves the ephemerals that the session has in the tree counted. REQUIRES: the tree is locked, and
  // the session has no other client.
  void KeepEphemerals();

 private:
  enum class State {
    kHandshake,   // only a part of a connect request (or of a four-letter word) so far
    kCatchingUp,  // the client has seen a newer zxid than this server has applied, or an earlier
                  // connection still has its local session
    kDelayed,     // the client's tenant has opened too many sessions in this second
    kQueued,      // the connect request waits until fewer handshakes are under way
    kConfirming,  // the session is unknown here; waits for a sync with the leader
    kConnecting,  // the command of the session is submitted, not yet applied
    kUp,
    kUnheard,        // as kUp, but the client takes no more bytes
    kAnsweringWord,  // the answer to a four-letter word is being sent
    kFinished,
  };
  enum class Stage : uint8_t {
    kHeld,      // not begun: waits for the requests before it; `bytes` is its body
    kInFlight,  // a submitted command, or a sync
    kReading,   // a read in several pieces; the first one of the pipeline; `bytes` is its path
    kDone,      // waits for the replies before it; `bytes` is its reply
  };
  struct Pending {
    Stage stage = Stage::kHeld;
    bool has_path = false;   // of a sync in flight: its path, in `bytes`, is not null
    bool was_alone = false;  // when it came, all requests before it were answered
    int32_t xid = 0;
    OpCode op = OpCode::kPing;
    uint32_t ephemerals = 0;  // that a write in flight may create
    uint32_t offset = 0;      // of the command of a write, in `command`
    // The error of a multi or multiRead that is too long to be received; kOk of other requests.
    tree::ErrorCode too_long = tree::ErrorCode::kOk;
    uint64_t barrier = 0;  // that a sync in flight or a linearizable read waits for; 0: none
    // The command of a write in flight, and of one that is done its sequence number and its zxid. From
    // them it is found out where the time of a slow write went.
    std::shared_ptr<const std::string> command;
    uint64_t sequence = 0;
    tree::Zxid zxid;
    std::chrono::steady_clock::time_point received;
    std::vector<OpCode> shapes;  // of a multi in flight
    std::string bytes;
  };
  static_assert(sizeof(Pending) <= 128, "a deque allocates for each fourth request");
  enum class Progress { kAnswered, kReading, kInFlight, kMustWait };
  // A read in several pieces; the tree is unlocked between the pieces (long_reads.cc).
  class LongRead;
  class ChildrenRead;
  class MultiRead;
  class EphemeralsRead;
  class DescendantsRead;
  class DetailedChildrenRead;
  class RecursiveListRead;
  class WatchesSetting;

  // How a packet is received, according to its first bytes.
  enum class Reception : uint8_t {
    kWhole,       // it is handled when all of it is there
    kDiscarded,   // a multi or multiRead that is too long: it is discarded as it comes, and gets
                  // an error
    kUndecided,   // more bytes have to come
    kImpossible,  // its length is not allowed; the connection is closed
  };
  // Decides how the packet is received with which `bytes` begin. REQUIRES: its length is there.
  Reception ReceptionOf(std::string_view bytes) const;
  // Returns the length of the longest multi or multiRead.
  int32_t MultiBytesMax() const;
  // Answers a multi or multiRead that is too long with an error. Its bytes, which begin with
  // `bytes`, are discarded as they come.
  absl::Status DiscardMulti(std::string_view bytes);
  // Sets `*packet` to the first packet of `bytes` if it is complete. Returns the packet's size with
  // its length prefix, or 0.
  size_t TakePacket(std::string_view bytes, std::string_view* packet) const;
  absl::Status OnPacket(std::string_view packet);
  absl::Status OnConnectRequest(std::string_view packet);
  // Begins the session now, or later if very many handshakes are under way.
  absl::Status RequestSession();
  absl::Status BeginSession();
  // Attaches the client to an existing session if its password is right. Otherwise refuses the
  // client here, without an entry in the log. `confirmed`: a sync with the leader is done, so a
  // session that is unknown here does not exist.
  void TakeSessionOver(bool confirmed);
  void RefuseSession(bool read_only);
  // Returns an error if memory is too low for a new session.
  absl::Status CheckMemory();
  // Begins a new local session.
  absl::Status BeginLocalSession();
  // Continues the session of the connect request if it is local. Returns false if it is not. If an
  // earlier connection still has it, that one is closed, and the handshake is retried.
  bool TakeLocalSession(bool read_only);
  void EndLocalSession();
  // Sends the createSession of a local session to the log.
  void BeginUpgrade();
  absl::Status FinishUpgrade(const tree::ApplyResult& result);
  // Returns whether the local session has to be global before this write. Begins that, if the client
  // is still here.
  bool NeedsUpgrade(const tree::Request& request);
  // As BeginSession, for a read-only client of a server without a quorum. A new session is known
  // only to this server, and ends with its connection.
  absl::Status BeginReadOnlySession();
  void BeUp(bool read_only);
  // Answers a request that needs a quorum, at a server without one: with an error, except for the
  // closeSession of a session that only this server knows. Returns false if the request needs no
  // quorum.
  bool RefuseReadOnly(const Pending& pending);
  absl::Status OnSessionResult(const tree::ApplyResult& result);
  absl::Status OnRequest(std::string_view packet);
  absl::Status OnRequest(Pending pending, std::string_view body);
  absl::Status OnAuth(int32_t xid, std::string_view body);
  // Counts a failed authentication, and writes it to the audit log. `reason` holds no secret.
  void RecordFailedAuthentication(std::string_view reason);
  // Takes a token of SASL (sasl_exchange.cc).
  absl::Status OnSasl(int32_t xid, std::string_view body);
  absl::Status OnSaslFailure(int32_t xid, const absl::Status& why);
  void ReplySasl(int32_t xid, tree::ErrorCode error, const std::optional<std::string>& token);
  // Answers a request of a client that has not authenticated as it has to. Returns the error with
  // which the connection is closed.
  absl::Status RefuseUnauthenticated(int32_t xid);
  // Returns whether `bytes` begin with a four-letter word. A complete one is answered.
  bool TakeFourLetterWord(std::string_view bytes);
  // These are about statistics (connection_slow.cc). Counts the reply to a request. The reply has `bytes`
  // bytes. `body`: that of the request, if the caller has it.
  void CountReply(const Pending& pending, size_t bytes, std::string_view body = {});
  // Sets which zxid the last reply had, and when it was made.
  void RecordLastReply();
  // Returns how long the stages took of a request that is answered now, `us` microseconds after it came.
  StageTimes FindStages(const Pending& pending, int64_t us);
  // Counts and records a request that was slow.
  void RecordSlow(const Pending& pending, std::string_view body, int64_t us,
                  const StageTimes& stages);
  // Counts the slow ones of the requests in the pipeline, which are not answered any more.
  void CountUnanswered();
  // Counts a request for whoever sends the most.
  void Sample(const Pending& pending, std::string_view body);
  // Returns the path in the tree of a request that is answered now; empty: it has none, or it is not known.
  std::string_view PathOf(const Pending& pending, std::string_view body) const;
  // Returns the path in the tree with which the body of a read begins; empty for requests whose body does
  // not begin with a path.
  std::string_view PathOfRead(OpCode op, std::string_view body) const;

  // Returns whether the client has to authenticate before this request.
  bool IsRefused(OpCode op) const;
  // Returns whether the request is a read that has to show everything that was committed before it
  // came.
  bool IsLinearizable(OpCode op) const;
  // Begins to serve a request. `alone`: all requests before it are answered, so that it may be
  // answered at once; otherwise only a sync or a command for the log may begin. Sets the fields of
  // `*pending` that a request in flight needs.
  absl::StatusOr<Progress> Start(std::string_view body, bool alone, Pending* pending);
  // As Start, but does not record a write that is refused in the audit log.
  absl::StatusOr<Progress> TryToStart(std::string_view body, bool alone, Pending* pending);
  // Records a write that is refused in the audit log. REQUIRES: there is an audit log.
  void AuditRefusal(OpCode op, std::string_view body);
  absl::StatusOr<Progress> StartWrite(std::string_view body, bool alone, Pending* pending);
  absl::StatusOr<Progress> AnswerNow(int32_t xid, OpCode op, std::string_view body);
  // Hands the request to the leader. The requests after it are held until its outcome is known,
  // because it does not have its place in the log yet. (connection_reconfig.cc)
  Progress StartReconfig(std::string_view body, bool alone, const Pending& pending);
  // Replies to the reconfig whose outcome is known. Returns an error if the connection has to be
  // closed, because the members may or may not have changed.
  absl::Status FinishReconfig();
  // Keeps the command that begins at `offset` of the batch.
  void KeepCommand(size_t offset, Pending* pending) const;
  void Hold(Pending pending, std::string_view body);
  // Discards received requests that have not begun.
  void DropRest();
  // Submits the received requests that go to the log. Stops, and returns false, at a request after
  // which no other may have an effect, such as a closeSession.
  bool SubmitReceived();
  // As SubmitReceived, for one request.
  bool SubmitUnanswered(std::string_view packet);
  bool SubmitUnanswered(Pending* pending, std::string_view body);
  Progress Read(int32_t xid, OpCode op, std::string_view body);
  Progress ReadChildren(int32_t xid, OpCode op, const ReadRequest& request);
  // Replies with a list of names, and sets a watch if `watch`. `finish` returns the list, which may
  // take long.
  template <class Finish>
  void ReplyChildren(int32_t xid, OpCode op, bool watch, std::string_view path, tree::Stat* stat,
                     Finish finish);
  // Does the first piece of a read. Returns kReading if there are more.
  Progress Begin(std::unique_ptr<LongRead> read);
  // Does the next piece of the current read. Returns false if there are more.
  bool ContinueReading();
  // These begin reads that may take several pieces.
  Progress ReadMany(int32_t xid, std::string_view body);
  Progress GetEphemerals(int32_t xid, std::string_view body);
  Progress GetAllChildrenNumber(int32_t xid, std::string_view body);
  Progress ReadFilteredList(int32_t xid, OpCode op, std::string_view body);
  Progress ListRecursive(int32_t xid, std::string_view body);
  Progress SetWatches(int32_t xid, OpCode op, std::string_view body);
  // Returns whether the extensions of ClickHouse Keeper are served: they are configured, and all
  // members know their commands.
  bool ServesKeeper() const;
  // Returns whether `path` is a virtual znode of these extensions (keeper_nodes.h).
  bool IsVirtual(std::string_view path) const;
  // Answers a read of a virtual znode.
  void ReplyVirtual(int32_t xid, OpCode op, std::string_view path, const ListDetails& details);
  size_t ReplyBytesMax() const;
  void WhoAmI(int32_t xid);
  void AddWatch(int32_t xid, std::string_view body);
  void CheckOrRemoveWatches(int32_t xid, OpCode op, std::string_view body);
  void Watch(std::string_view path, tree::WatchKind kind);
  void ReplyError(int32_t xid, tree::ErrorCode error);
  // Appends an event to out(), with the path as the client knows it.
  void AppendEvent(tree::EventType type, std::string_view path, tree::Zxid zxid);
  absl::Status OnRequestResult(tree::ApplyResult& result);
  // Begins held requests that need not wait any longer.
  absl::Status StartHeld();
  // Returns the zxid of a reply without a zxid of its own: not older than what the client has seen.
  // (The loop's seen_zxid may be older than an event of the same change that was already sent.)
  tree::Zxid SeenZxid() const;
  // Returns whether the oldest request that waits sets the watches of a client that has connected
  // again (set_watches.cc).
  bool IsSettingWatches() const;
  // Returns the newest zxid that the client had seen when it connected.
  tree::Zxid NamedZxid() const { return tree::Zxid(connect_.last_zxid_seen); }
  // Returns whether so much is unsent that no more requests are answered for now.
  bool HasMuchToSend() const;
  // Returns whether no request is begun now because of the tenant's limits.
  bool IsHeldBack() const {
    return is_slowed_ || (!pipeline_.empty() && tenants_.IsAtOutstanding(pipeline_.size()));
  }
  // Takes a token for the request in `packet`. If there is none, the client is slowed: returns false
  // until EndSlowing.
  bool TakeToken(std::string_view packet);
  // Makes the client count for the first identity that it has proved. Returns an error if that has
  // too many connections.
  absl::Status JoinIdentity();
  // Shows administrators the session, once all members know it.
  void ShowSession();
  // Lets the connect request wait until the tenant may open a session. Returns an error if it has
  // waited for too long.
  absl::Status DelaySession();
  // Returns an error if the tenant's incomplete requests take too much memory. REQUIRES: in_ is not
  // empty.
  absl::Status CheckIncomplete();
  // Returns whether a client that asks for a watch gets one. If not, replies with an error.
  bool MayWatch(int32_t xid);
  // Returns an error if a client that has connected again has to be closed, because of its watches.
  absl::Status CheckRestoredWatches();
  // Returns whether `request` creates no more ephemerals than the tenant may have, and takes their
  // number to the counts if it does.
  bool TakeEphemerals(const tree::Request& request, Pending* pending);
  // Takes the result of a write to the counts.
  void CountEphemerals(Pending* pending, const tree::ApplyResult& result);

  // Writes the reply to a sync in flight.
  void FinishSync(Pending& sync);
  // Moves the finished replies at the front of the pipeline to out(). `sent` bytes of the first one
  // are in out() already.
  void SendDone(size_t sent);
  tree::CommandHeader Header(tree::CommandKind kind) const;

  ConnectionLoop* const loop_;
  const uint32_t tag_;
  const std::string address_;
  const std::chrono::steady_clock::time_point opened_;
  const std::shared_ptr<ConnectionStatistics> statistics_;

  State state_ = State::kHandshake;
  std::string in_;  // an incomplete packet
  // If in_ begins with a multi or multiRead above jute.maxbuffer: its length; otherwise 0.
  size_t admitted_bytes_ = 0;
  // How many bytes of a multi or multiRead that is too long are still to be discarded.
  size_t discard_bytes_ = 0;
  std::string out_;  // not yet sent
  ConnectRequest connect_;
  tree::SessionId session_;
  tree::Zxid attach_zxid_;
  tree::Zxid event_zxid_;  // of the last event that was sent
  int32_t timeout_ms_ = 0;
  bool touched_ = false;
  bool read_only_ = false;
  bool session_is_linearizable_ = false;
  bool is_of_connection_ = false;  // the session is read-only and ends with this connection
  bool is_local_ = false;
  bool awaits_upgrade_ = false;   // the createSession of the local session is in flight
  bool drops_writes_ = false;     // received writes that are not submitted yet are not executed
  uint32_t local_in_flight_ = 0;  // writes of the local session that are not applied yet
  // The client has read a virtual znode of ClickHouse Keeper's extensions: it is ClickHouse, and
  // expects Keeper's form where that differs from ZooKeeper's.
  bool expects_keeper_ = false;
  std::chrono::steady_clock::time_point heard_;
  bool unread_ = false;    // in_ may hold whole packets
  bool has_rest_ = false;  // SubmitRest has to submit received requests
  ClientIdentities identities_;
  std::unique_ptr<SaslExchange> sasl_;  // null before the first token
  ClientPaths paths_;
  FourLetterWords::Pieces word_pieces_;  // kAnsweringWord: makes the rest of the answer
  size_t unsent_event_bytes_ = 0;
  int64_t counted_requests_ = 0;  // in the memory budget
  int64_t counted_reads_ = 0;
  std::deque<Pending> pipeline_;
  std::unique_ptr<LongRead> long_read_;  // of the first request of the pipeline
  size_t held_count_ = 0;
  size_t held_bytes_ = 0;
  bool awaits_reconfig_ = false;  // the first request of the pipeline is a reconfig in flight
  std::optional<ReconfigurationOutcome> reconfig_outcome_;
  bool held_paused_ = false;      // requests are held only because much was unsent
  uint64_t confirm_barrier_ = 0;  // the barrier of kConfirming
  bool confirmed_ = false;        // the barrier of kConfirming has ended
  int64_t packets_received_ = 0;
  int64_t packets_sent_ = 0;
  TenantShare tenants_;
  bool is_slowed_ = false;  // waits for a token for the next request in in_
  bool has_hung_up_ = false;
  bool is_held_back_ = false;  // CountHeldBack has counted
  bool has_fewer_watches_ = false;
  size_t ephemerals_in_flight_ = 0;
  std::chrono::steady_clock::time_point delayed_since_;
};

}  // namespace quorate::rpc::zk
