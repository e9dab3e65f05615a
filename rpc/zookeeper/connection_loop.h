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

namespace quorate::rpc::zk {

// The loop's access to its clients. These functions are called from within the loop's functions;
// they must not call back into the loop, except where their comment says so.
class Sockets {
 public:
  virtual ~Sockets() = default;

  // Schedules a call of OnWake on the loop's thread. May be called from any thread.
  virtual void Wake() = 0;
  // Schedules one call of EndIteration, after everything that is ready now was handed in.
  virtual void EndIterationSoon() = 0;

  // The connection takes bytes again: the next bytes that come are to be given to OnBytes, once, or
  // the end of the stream to OnClosed.
  virtual void Receive(uint32_t tag) = 0;
  // Returns how many bytes of the client wait to be received; 0 if it has hung up. REQUIRES: the
  // connection takes no bytes.
  virtual size_t WaitingBytes(uint32_t tag) = 0;
  // Sends as much of `bytes`, which is not empty, as is possible without waiting. Returns how much
  // was sent; if not all, OnWritable is to be called when there is room again. Returns no value if
  // the client takes no more bytes; those that it sent before are still given to OnBytes, followed
  // by OnClosed.
  virtual std::optional<size_t> Send(uint32_t tag, std::string_view bytes) = 0;
  // The loop has removed the connection: no call for this tag may follow. Called exactly once for
  // each connection, also after OnClosed, but not from the loop's destructor.
  virtual void Close(uint32_t tag) = 0;
};

// Items for one connection: an event of its watches, and the end of its sync.
struct WatchEventItem {
  uint32_t tag;
  tree::EventType type;
  std::string path;
  tree::Zxid zxid;
  Readers readers;
};
struct SyncDoneItem {
  uint32_t tag;
  uint64_t sync_id;
  tree::Zxid zxid;
};

struct LoopConnection;  // a connection and what its loop keeps about it

class ConnectionLoop : public ClientLoop<ConnectionLoop, ZkFrontend, Sockets, LoopConnection,
                                         WatchEventItem, SyncDoneItem> {
 public:
  // The time until the first call of OnTimer.
  static constexpr auto kTimerPeriod = std::chrono::milliseconds(100);

  // Both must outlive the loop, and the front end must not be called any more when the loop is
  // destroyed. All loops of a front end are made before the first connection.
  ConnectionLoop(ZkFrontend* frontend, Sockets* sockets);
  ~ConnectionLoop();

  // --- From the sockets --------------------------------------------------------------------------
  // A client connected from `address`, `port`. Returns the tag of the new connection, which takes
  // bytes as after Sockets::Receive; no value if the connection is refused because there are too
  // many.
  std::optional<uint32_t> Open(std::string address, uint16_t port);
  // `bytes`, not empty, came from the client. Called once after each Receive.
  void OnBytes(uint32_t tag, std::string_view bytes);
  // There is room again, after a Send that did not take everything.
  void OnWritable(uint32_t tag);
  // The client has gone.
  void OnClosed(uint32_t tag);
  // Called after each Sockets::Wake.
  void OnWake();
  // Called after each Sockets::EndIterationSoon.
  void EndIteration();
  // Checks time-outs and sends touches to the leader. Returns after how long it is to be called
  // again.
  std::chrono::milliseconds OnTimer();

  // Ends all connections without sending anything or calling Sockets: the last call. The service
  // may be destroyed before the loop.
  void Stop();
  // The statistics of the loop, for its connections.
  LoopStatistics& statistics() { return *statistics_; }

  // The connection was touched, for the first time since its last TakeTouched.
  void RecordTouched(uint32_t tag) { touched_.push_back(tag); }

 private:
  using Client = LoopConnection;
  friend ClientLoop;

  void MaybeReceive(Client& client);
  // Whether nothing more should be received from clients that wait for answers.
  bool IsCongested() const;
  // Updates the statistics with what the connection did since the last call.
  void UpdateStatistics(Client& client);
  void Flush(Client& client);
  // Gives a connection with an empty out() a spare buffer for a large answer, if there is one.
  void LendBuffer(Client& client);
  void TakeBufferBack(std::string& out);
  // Makes the next OnTimer check the connection.
  void Attend(Client& client);
  static bool NeedsAttention(const Client& client);
  void CheckTime(Client& client, int64_t leader_contact_age_ms);
  // Counts a client as alive if bytes of it wait here: that they are not received is not its
  // silence.
  void HearWaiting(Client& client);
  void Finish(Client& client, const absl::Status& why);
  void LogClosing(const Connection& connection, const absl::Status& why);
  void Close(Client& client);
  void BeginIteration();
  void Continue(Client& client);
  void DeliverApplied();
  void HandleItem(Item& item);
  void AddTouched(std::vector<int64_t>* sessions);
  // These close connections when memory is short (rpc/frontend/memory_budget.h).
  void CloseStalled();
  void CloseHeaviest();
  void CloseForMemory(Client& client, size_t unsent);

  LoopStatistics* const statistics_;
  // Tags of the connections that OnTimer checks. While a leader is in contact, a connection that
  // has a session and is read from needs no check: of ten thousand, few are here.
  std::vector<uint32_t> attended_;
  std::vector<uint32_t> touched_;
  // Empty strings with large buffers, which large answers were sent from. Memory that is returned
  // to the system would have to be mapped again, page by page, for each large answer.
  std::vector<std::string> spare_buffers_;
  std::chrono::steady_clock::time_point refusal_logged_;
  int refusals_not_logged_ = 0;
};

}  // namespace quorate::rpc::zk
