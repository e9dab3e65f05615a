// SPDX-License-Identifier: Apache-2.0

// A simulated ZooKeeper client: one session after another, each on one connection after another.
// Does what client libraries do: pings when idle, moves to another server when nothing is received
// for two thirds of the timeout or the connection breaks, keeps its session there with the last
// zxid it has seen, and renews its watches. Reports all that it sends and receives to the history.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "tests/simulation/checkers/history.h"
#include "tests/simulation/clients/operation.h"
#include "tests/simulation/clients/wire.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

struct ClientSettings {
  size_t number = 0;
  int32_t timeout_ms = 4000;  // requested
  // Some libraries send setWatches with an xid of its own, others with an ordinary one.
  bool set_watches_has_own_xid = false;
  bool sends_read_only_flag = true;
  // Whether a new session sends the last zxid of the session before, so that it cannot see less.
  bool remembers_zxid = false;
};

class Client : public ConnectionHandler {
 public:
  // Called when an operation has been answered or lost.
  using Done = std::function<void(const Operation&)>;

  // The objects behind pointers must outlive the client, and the client the simulation.
  Client(SimEnvironment* environment, Endpoint* endpoint, History* history,
         const ClientSettings& settings);

  // Begins to connect.
  void Start();

  // Whether a session is up on a connection, so that operations can be sent.
  bool connected() const { return state_ == State::kUp; }
  // Whether no operation is unanswered.
  bool idle() const { return outstanding_.empty(); }
  size_t outstanding() const { return outstanding_.size(); }
  size_t number() const { return settings_.number; }
  // The requested timeout; servers may have granted another.
  int32_t timeout_ms() const { return settings_.timeout_ms; }
  // 0 if there is no session now.
  int64_t session() const { return session_; }
  // The link of the open connection. REQUIRES: connected().
  LinkId link() const { return link_; }
  // Describes the state in one line.
  std::string Describe() const;

  // Sends a request. REQUIRES: connected(); not a closeSession.
  void Submit(Request request, Done done = nullptr);
  // Reconnects to any other server; unanswered operations are lost. REQUIRES: connected().
  void Move();
  // The same for the given server; does nothing if the client is already there.
  void MoveTo(size_t member);
  // The same after `away_us`, by when the session may have ended.
  void Sleep(int64_t away_us);
  // Closes the session, and opens a new one once the close is answered or lost. REQUIRES:
  // connected().
  void CloseSession();
  // Abandons the session without closing it, and opens a new one. With `silently` the connection
  // stays open and nothing is sent on it, until the server closes it. REQUIRES: connected().
  void Abandon(bool silently);

  void OnOpen(ConnectionId connection) override;
  void OnBytes(ConnectionId connection, std::string_view bytes) override;
  void OnClosed(ConnectionId connection) override;

 private:
  enum class State {
    kWaiting,     // before the next attempt to connect
    kConnecting,  // until the answer to the handshake
    kUp,
    kClosing,  // closeSession is under way
    kSilent,   // the session is abandoned, the connection is still open
  };
  struct Outstanding {
    OperationId operation = 0;
    int32_t xid = 0;
    Done done;
  };

  void ConnectLater(int64_t delay_us);
  void Connect();
  // Drops the connection, if there is one; the session stays.
  void Disconnect();
  void Reconnect();
  void EndSession();
  void OnHandshakeReply(std::string_view packet);
  void OnPacket(std::string_view packet);
  void OnReply(const ReplyHeader& header, std::string_view body);
  void OnEvent(const ReplyHeader& header, std::string_view body);
  void SendRequest(int32_t xid, Request request, Done done);
  void SendSetWatches();
  void Send(std::string bytes);
  void KeepAlive();
  void RecordWatch(const Request& request, const Reply& reply);
  [[noreturn]] void FailProtocol(std::string_view details) const;

  SimEnvironment* const environment_;
  Endpoint* const endpoint_;
  History* const history_;
  const ClientSettings settings_;
  Random& random_;

  State state_ = State::kWaiting;
  uint64_t epoch_ = 0;  // grows with each change of state; a task scheduled before is outdated
  size_t member_ = 0;
  ConnectionId connection_ = 0;
  PacketReader reader_;
  LinkId link_ = 0;
  int64_t sent_us_ = 0;
  int64_t heard_us_ = 0;
  int32_t last_xid_ = 0;
  std::deque<Outstanding> outstanding_;

  int64_t session_ = 0;
  std::string password_;
  int32_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  int64_t last_zxid_sent_ = 0;
  // One-shot watches, by kind. Ordered, because they are sent in this order.
  std::set<std::string> data_watches_;
  std::set<std::string> exist_watches_;
  std::set<std::string> child_watches_;
};

}  // namespace quorate::simulation
