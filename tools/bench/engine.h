// SPDX-License-Identifier: Apache-2.0

// Connections to servers that speak the ZooKeeper protocol. One thread handles thousands of them,
// with little processor time: requests are encoded directly into the send buffer, everything that
// one receive returns is handled before one send, and the clock is read once for each of those
// batches.
//
// A connection connects by itself, keeps its session alive, moves the session to another server if
// the connection breaks, and opens a new session if it has expired.
//
// Thread-safety: an engine and all that belongs to it are used by one thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/zookeeper/wire/tls.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tree/types.h"

namespace quorate::tools::bench {

// Returns the time of a monotonic clock, in nanoseconds.
int64_t NowNs();
inline constexpr int64_t kNsInUs = 1000;
inline constexpr int64_t kNsInMs = 1000 * kNsInUs;
inline constexpr int64_t kNsInSecond = 1000 * kNsInMs;

struct Endpoint {
  std::string text;  // host:port, as given
  std::string host;  // without brackets
  sockaddr_storage address{};
  socklen_t address_size = 0;
  std::shared_ptr<const wire::TlsClient> tls;  // nullptr: connections have no TLS
};
// Resolves "host:port,host:port"; connections have TLS if `tls` is not nullptr. InvalidArgument for any other form, Unavailable if a name has no
// address.
absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& servers,
                                              std::shared_ptr<const wire::TlsClient> tls);

// An outstanding request. The sender chooses the meaning of `kind` and `key`.
struct Request {
  int32_t xid = 0;
  int32_t kind = 0;
  uint32_t key = 0;
  int64_t start_ns = 0;
};

class Connection;

// The callbacks of connections. They are called within Engine::RunUntil, and may send, close and
// connect.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // Called when a session is up: a new session, or the old one on another connection.
  virtual void OnUp(Connection&, int64_t /*now_ns*/) {}
  // Called when the request was answered. `body` is valid until the call returns.
  virtual void OnReply(Connection& connection, const Request& request, tree::ErrorCode error,
                       std::string_view body, int64_t now_ns) = 0;
  virtual void OnEvent(Connection&, std::string_view /*path*/, int64_t /*now_ns*/) {}
  // Called when the connection broke before the request was answered.
  virtual void OnLost(Connection&, const Request&, int64_t /*now_ns*/) {}
  // Called when Engine::Close has closed the session.
  virtual void OnClosed(Connection&, int64_t /*now_ns*/) {}
  // Called in each iteration of the engine; the next call comes at NextTurnNs at the latest.
  virtual void OnTurn(int64_t /*now_ns*/) {}
  virtual int64_t NextTurnNs(int64_t /*now_ns*/) const { return INT64_MAX; }
};

class Connection {
 public:
  // Returns the index among the connections that were added together.
  size_t number() const { return number_; }
  bool is_up() const { return state_ == State::kUp; }
  // Returns the number of outstanding requests.
  size_t pending() const { return pending_.size(); }
  // Returns the time at which the connection began to connect, as NowNs.
  int64_t connect_start_ns() const { return connect_start_ns_; }

 private:
  friend class Engine;
  enum class State { kParked, kDown, kConnecting, kHandshake, kUp };

  size_t number_ = 0;
  ConnectionHandler* handler_ = nullptr;
  const std::vector<Endpoint>* servers_ = nullptr;
  size_t server_ = 0;  // the index in servers_
  State state_ = State::kParked;
  int socket_ = -1;
  std::unique_ptr<wire::TlsStream> tls_;  // nullptr without TLS, and before the socket is connected
  int64_t session_ = 0;
  std::string password_;
  int32_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  int32_t next_xid_ = 1;
  int32_t close_xid_ = 0;  // the xid of the request to close; 0 if there is none
  bool ping_pending_ = false;
  bool waits_for_room_ = false;  // until the socket's buffer has free space
  bool is_dirty_ = false;        // there are bytes to send
  std::deque<Request> pending_;
  std::string received_;  // the beginning of an incomplete packet
  std::string to_send_;   // the bytes before sent_ have been sent
  size_t sent_ = 0;
  int64_t retry_ns_ = 0;
  int64_t connect_start_ns_ = 0;
  int64_t last_sent_ns_ = 0;
  int64_t last_received_ns_ = 0;
};

// Connections that were added together: those of one workload to one cluster.
using Connections = std::vector<std::unique_ptr<Connection>>;

class Engine {
 public:
  explicit Engine(int session_timeout_ms);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Adds `count` connections, which use the servers in turn. They connect at once unless `parked`.
  // `servers` and `handler` must outlive them.
  Connections* Add(size_t count, const std::vector<Endpoint>& servers, ConnectionHandler* handler,
                   bool parked = false);
  // Closes the connections and their sessions. Waits at most three seconds for the servers'
  // answers.
  void Remove(Connections* connections);

  // Begins a request: the caller writes the body to the returned writer, and destroys the writer
  // before any other call. REQUIRES: connection.is_up().
  wire::RequestWriter Send(Connection& connection, wire::OpCode op, int32_t kind, uint32_t key,
                           int64_t start_ns);
  // Begins to connect a parked connection.
  void Connect(Connection& connection);
  // Closes the session after the requests that were sent before, and then parks the connection.
  // REQUIRES: connection.is_up().
  void Close(Connection& connection);

  // Runs all connections until `done` returns true (called after each iteration), or until
  // `deadline_ns`. Returns whether `done` returned true.
  bool RunUntil(int64_t deadline_ns, absl::FunctionRef<bool()> done);

  // Sets the function that is called from time to time while the engine runs.
  void SetProgress(std::function<void()> progress) { progress_ = std::move(progress); }

  int session_timeout_ms() const { return session_timeout_ms_; }
  // Returns the number of connections that broke, or that servers closed, since the start.
  uint64_t dropped() const { return dropped_; }
  // Returns the number of sessions that servers reported as expired.
  uint64_t expired() const { return expired_; }
  // Returns why the last failed attempt to connect failed; empty if none has failed.
  const std::string& last_failure() const { return last_failure_; }

 private:
  void Wait(int64_t timeout_ns);
  // Connects the connections that are due, sends pings, and drops connections that were silent for
  // too long.
  void Sweep(int64_t now_ns);
  void SweepOne(Connection& connection, int64_t now_ns);
  void StartConnect(Connection& connection, int64_t now_ns);
  void FinishConnect(Connection& connection);
  void Receive(Connection& connection);
  // Reads into buffer_, as recv does.
  ssize_t Read(Connection& connection);
  // Sends what is in to_send_, as send does.
  static ssize_t Write(Connection& connection);
  // Returns why Read or Write has just failed.
  static std::string FailureOf(const Connection& connection);
  // Returns false if the connection is no longer up.
  bool HandlePacket(Connection& connection, std::string_view packet, int64_t now_ns);
  bool HandleHandshake(Connection& connection, std::string_view packet, int64_t now_ns);
  void Flush(Connection& connection, int64_t now_ns);
  void FlushDirty();
  void MarkDirty(Connection& connection);
  void Disconnect(Connection& connection, const std::string& why, int64_t now_ns);
  void Parked(Connection& connection, int64_t now_ns);
  // Closes the socket and discards the connection's state, but not the session.
  void Drop(Connection& connection);
  void Watch(Connection& connection, int operation, bool for_room);
  static int32_t TakeXid(Connection& connection);

  const int session_timeout_ms_;
  const int epoll_;
  std::vector<std::unique_ptr<Connections>> groups_;
  std::vector<Connection*> dirty_;
  std::string buffer_;
  std::string joined_;
  size_t connecting_ = 0;
  int64_t next_sweep_ns_ = 0;
  int64_t next_progress_ns_ = 0;
  std::function<void()> progress_;
  uint64_t dropped_ = 0;
  uint64_t expired_ = 0;
  std::string last_failure_;
};

}  // namespace quorate::tools::bench
