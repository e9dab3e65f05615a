// SPDX-License-Identifier: Apache-2.0

// The connections of one I/O thread of the ZooKeeper front end, without the thread and without
// sockets: their inbox, their loop iterations, the batch of their writes and their periodic work.
// The loop handles bytes and tags. IoThread drives it from sockets; a simulation drives it by hand.
//
// An iteration begins with an input (OnBytes, OnWritable, OnWake, OnTimer) and ends with
// EndIteration, after all inputs that were ready together: the writes of all connections then go to
// the log as one batch, and each connection sends all its ready replies at once.
//
// Thread-safety: Push and Wake may be called from any thread. Everything else runs on one thread,
// including the calls of Sockets, except for Sockets::Wake. Apart from locks, nothing here waits
// for another thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/client_loop.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/handshakes.h"

namespace quorate::rpc::zk {

// The loop's access to its clients. These functions are called from within the loop's functions;
// they must not call back into the loop, except where their comment says so.
class Sockets {
 public:
  virtual ~Sockets() = default;

  // Schedules a call of OnWake on the loop's thread. May be called from any thread.
  virtual void Wake() = 0;
  // Schedules one call of EndIteration, after all inputs that are ready now.
  virtual void EndIterationSoon() = 0;

  // Asks for the client's next bytes. They are given to OnBytes, once; at the end of the stream,
  // OnClosed is called instead.
  virtual void Receive(uint32_t tag) = 0;
  // Returns how many bytes of the client wait to be received; 0 if it has hung up. While a Receive is
  // pending, there are such bytes only for the time until this thread gives them to OnBytes.
  virtual size_t WaitingBytes(uint32_t tag) = 0;
  // Returns whether the client has disconnected, possibly behind bytes that wait to be received.
  virtual bool HasHungUp(uint32_t tag) = 0;
  // Sends as much of `bytes`, which is not empty, as is possible without waiting. Returns how much
  // was sent. If that is not all, OnWritable is called when more can be sent. Returns no value if
  // the client takes no more bytes; bytes that it sent before are still given to OnBytes, and then
  // OnClosed is called.
  virtual std::optional<size_t> Send(uint32_t tag, std::string_view bytes) = 0;
  // Called exactly once for each connection, when the loop has removed it, also after OnClosed, but
  // not from the loop's destructor. No call for this tag may follow.
  virtual void Close(uint32_t tag) = 0;
};

// An item for one connection: an event of its watches.
struct WatchEventItem {
  uint32_t tag;
  tree::EventType type;
  std::string path;
  tree::Zxid zxid;
  Readers readers;
};

// An item for one connection: an administrator has changed whether the reads of its session are
// linearizable.
struct LinearizableItem {
  uint32_t tag;
  bool is_linearizable;
};

// An item for one connection: the outcome of its reconfig.
struct ReconfiguredItem {
  uint32_t tag;
  ReconfigurationOutcome outcome;
};

// An item for one connection: nothing was received from the client of its local session for the
// session's timeout, except maybe bytes that the thread has not read yet.
struct LocalSessionDueItem {
  uint32_t tag;
};

struct LoopConnection;  // a connection and what its loop keeps about it

class ConnectionLoop
    : public ClientLoop<ConnectionLoop, ZkFrontend, Sockets, LoopConnection, WatchEventItem,
                        LinearizableItem, ReconfiguredItem, LocalSessionDueItem> {
 public:
  // The time until the first call of OnTimer.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(100);

  // Both must outlive the loop, and the front end must not be called any more when the loop is
  // destroyed. All loops of a front end are made before the first connection.
  ConnectionLoop(ZkFrontend* frontend, Sockets* sockets);
  ~ConnectionLoop();

  // --- From the sockets --------------------------------------------------------------------------
  // Called when a client has connected from `address`, `port`. Returns the tag of the new
  // connection, for which OnBytes may be called as after Sockets::Receive. Returns no value if the
  // connection is refused because there are too many.
  std::optional<uint32_t> Open(std::string address, uint16_t port);
  // Opens a connection that ZkFrontend::AdmitOrRefuse has admitted already, whose client has proved
  // to have the certificate with this subject; empty: it has none. Returns its tag.
  uint32_t OpenAdmitted(std::string address, uint16_t port, const std::string& subject,
                        bool is_secure = false);
  // Called with `bytes` from the client, which are not empty, once after each Receive.
  void OnBytes(uint32_t tag, std::string_view bytes);
  // Called when the client takes bytes again, after a Send that did not send everything.
  void OnWritable(uint32_t tag);
  // Called when the client has disconnected.
  void OnClosed(uint32_t tag);
  // Called after each Sockets::Wake.
  void OnWake();
  // Called after each Sockets::EndIterationSoon.
  void EndIteration();
  // Checks time-outs and sends touches to the leader. Returns after how long it is to be called
  // again.
  std::chrono::milliseconds OnTimer();

  // Ends all connections without sending anything or calling Sockets. This is the last call. The
  // service may be destroyed before the loop.
  void Stop();
  // Returns how many clients have asked for nothing yet.
  size_t newcomers() const { return newcomers_; }
  bool IsNewcomer(uint32_t tag);
  // Closes the connection if its client has asked for nothing yet, and returns whether it has. Counts
  // it as one that makes room for a newer one.
  bool CloseNewcomer(uint32_t tag);
  Handshakes& handshakes() { return handshakes_; }
  // Takes note that a handshake has ended, so that the next one may begin.
  void EndHandshake(uint32_t tag);
  // Finds where the time of writes went that are answered in this iteration.
  StageFinder& stage_finder() { return stage_finder_; }
  // Returns the statistics of the loop, to which its connections add.
  LoopStatistics& statistics() { return *statistics_; }
  LoopRequests& requests() { return *requests_; }

  // Counts that a client has set its persistent watches again and may have missed events, which the
  // history no longer has: the client has seen those up to `since`, and the history has those after
  // `oldest`. Logs that, at a limited rate.
  void CountLostEvents(const Connection& connection, tree::Zxid since, tree::Zxid oldest);
  // Logs that a multi or multiRead of `length` bytes is refused, at a limited rate: because it is
  // above `bytes_max` or, if it is not, because requests take too much memory.
  void LogRefusedMulti(const Connection& connection, int32_t length, int32_t bytes_max);
  // Logs that a client could not authenticate by SASL, at a limited rate.
  void LogFailedSasl(const Connection& connection, const std::string& reason);
  // Records that the connection was touched, for the first time since its last TakeTouched.
  void RecordTouched(uint32_t tag) { touched_.push_back(tag); }

 private:
  using Client = LoopConnection;
  friend ClientLoop;

  void MaybeReceive(Client& client);
  // Returns whether nothing more should be received from clients that wait for replies.
  bool IsCongested() const;
  // Begins waiting handshakes, as many as may be under way.
  void AdmitWaiting();
  // Updates the statistics with what the connection did since the last call.
  void UpdateStatistics(Client& client);
  void Flush(Client& client);
  // Gives a connection with an empty out() a spare buffer for a large answer, if there is one.
  void LendBuffer(Client& client);
  void TakeBufferBack(std::string& out);
  // Counts the client as a newcomer no longer, if it has asked for something or is closed.
  void CountNewcomer(Client& client);
  // Corrects, from time to time, what the connections count for their tenants.
  void CorrectCounts();
  // Makes the next OnTimer check the connection.
  void Attend(Client& client);
  static bool NeedsAttention(const Client& client);
  void CheckTime(Client& client, int64_t leader_contact_age_ms);
  // Counts a write of a local session as applied, if the result is that of one.
  void CountLocalResult(const tree::ApplyResult& result);
  // Ends the client's local session, unless bytes of the client wait to be received.
  void EndSilentLocalSession(Client& client);
  // Counts a client as alive if bytes of it wait to be received: then this server delays them, and
  // the client is not silent.
  void HearWaiting(Client& client);
  void Finish(Client& client, const absl::Status& why);
  void LogClosing(const Connection& connection, const absl::Status& why);
  void Close(Client& client);
  void BeginIteration();
  void Continue(Client& client);
  void DeliverApplied();
  void HandleItem(Item& item);
  void OnBarrierDone(Client& client, uint64_t barrier);
  void AddTouched(std::vector<int64_t>* sessions);
  // These close connections when memory is short (rpc/frontend/memory_budget.h).
  void CloseStalled();
  void CloseHeaviest();
  void CloseForMemory(Client& client, size_t unsent);

  Handshakes handshakes_;
  LoopStatistics* const statistics_;
  LoopRequests* const requests_;
  bool has_begun_ = false;  // an iteration that has not ended
  StageFinder stage_finder_;
  // Tags of the connections that OnTimer checks. While a leader is in contact, a connection that
  // has a session and is read from needs no check, so that few of ten thousand connections are
  // here.
  std::vector<uint32_t> attended_;
  std::vector<uint32_t> touched_;
  // Empty strings with large buffers, from which large replies were sent. If that memory were
  // returned to the system, it would have to be mapped again, page by page, for each large reply.
  std::vector<std::string> spare_buffers_;
  std::chrono::steady_clock::time_point refusal_logged_;
  std::chrono::steady_clock::time_point multi_refusal_logged_;
  std::chrono::steady_clock::time_point lost_events_logged_;
  std::chrono::steady_clock::time_point failed_sasl_logged_;
  int refusals_not_logged_ = 0;
  size_t newcomers_ = 0;
  std::chrono::steady_clock::time_point counts_corrected_;
};

}  // namespace quorate::rpc::zk
