// Connections to servers that speak the ZooKeeper protocol, thousands on one thread, with little
// processor time of their own: requests are encoded where they are sent from, all that one receive
// has brought is handled before one send, and the clock is read once for each of those batches.
//
// A connection connects by itself, keeps its session alive, takes it to another server if the
// connection breaks, and opens a new one if it has expired.
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
#include "rpc/zk/wire/wire.h"
#include "tree/types.h"

namespace quorate::tools::bench {

// Nanoseconds of a clock that never goes back.
int64_t NowNs();
inline constexpr int64_t kNsInUs = 1000;
inline constexpr int64_t kNsInMs = 1000 * kNsInUs;
inline constexpr int64_t kNsInSecond = 1000 * kNsInMs;

struct Endpoint {
  std::string text;  // host:port, as it was given
  sockaddr_storage address{};
  socklen_t address_size = 0;
};
// "host:port,host:port". InvalidArgument if it has another form, Unavailable if a name has no
// address.
absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& servers);

// A request that is under way. `kind` and `key` mean what the sender wants.
struct Request {
  int32_t xid = 0;
  int32_t kind = 0;
  uint32_t key = 0;
  int64_t start_ns = 0;
};

class Connection;

// What is done with connections. Called from within Engine::RunUntil; may send, close and connect.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // There is a session: a new one, or the old one on another connection.
  virtual void OnUp(Connection&, int64_t /*now_ns*/) {}
  // Valid until it returns: `body`.
  virtual void OnReply(Connection& connection, const Request& request, tree::ErrorCode error,
                       std::string_view body, int64_t now_ns) = 0;
  virtual void OnEvent(Connection&, std::string_view /*path*/, int64_t /*now_ns*/) {}
  // The connection broke before the answer came.
  virtual void OnLost(Connection&, const Request&, int64_t /*now_ns*/) {}
  // The session was closed, as asked for by Engine::Close.
  virtual void OnClosed(Connection&, int64_t /*now_ns*/) {}
  // Once in each turn of the engine; the next one comes at NextTurnNs at the latest.
  virtual void OnTurn(int64_t /*now_ns*/) {}
  virtual int64_t NextTurnNs(int64_t /*now_ns*/) const { return INT64_MAX; }
};

class Connection {
 public:
  // From 0, within those that were made together.
  size_t number() const { return number_; }
  bool is_up() const { return state_ == State::kUp; }
  // Requests that are under way.
  size_t pending() const { return pending_.size(); }
  // When it began to connect.
  int64_t connect_start_ns() const { return connect_start_ns_; }

 private:
  friend class Engine;
  enum class State { kParked, kDown, kConnecting, kHandshake, kUp };

  size_t number_ = 0;
  ConnectionHandler* handler_ = nullptr;
  const std::vector<Endpoint>* servers_ = nullptr;
  size_t server_ = 0;  // its place among servers_
  State state_ = State::kParked;
  int socket_ = -1;
  int64_t session_ = 0;
  std::string password_;
  int32_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  int32_t next_xid_ = 1;
  int32_t close_xid_ = 0;  // of the request to close, 0 if there is none
  bool ping_pending_ = false;
  bool waits_for_room_ = false;  // in the socket's buffer
  bool is_dirty_ = false;        // there is something to send
  std::deque<Request> pending_;
  std::string received_;  // the beginning of a packet
  std::string to_send_;   // sent up to sent_
  size_t sent_ = 0;
  int64_t retry_ns_ = 0;
  int64_t connect_start_ns_ = 0;
  int64_t last_sent_ns_ = 0;
  int64_t last_received_ns_ = 0;
};

// Connections that were made together: of one workload, to one cluster.
using Connections = std::vector<std::unique_ptr<Connection>>;

class Engine {
 public:
  explicit Engine(int session_timeout_ms);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // `count` connections, each to the next of the servers. They connect unless `parked`. `servers`
  // and `handler` must outlive them.
  Connections* Add(size_t count, const std::vector<Endpoint>& servers, ConnectionHandler* handler,
                   bool parked = false);
  // Ends them, and their sessions; waits for the servers' word for three seconds at most.
  void Remove(Connections* connections);

  // Begins a request: the caller puts the body into what is returned, and lets go of it before
  // anything else. REQUIRES: connection.is_up().
  wire::RequestWriter Send(Connection& connection, wire::OpCode op, int32_t kind, uint32_t key,
                           int64_t start_ns);
  // Connects a parked connection.
  void Connect(Connection& connection);
  // Closes the session behind what was sent before; the connection is parked then.
  // REQUIRES: connection.is_up().
  void Close(Connection& connection);

  // Lets all connections do their work until `done` returns true (asked after each turn), and at
  // most until `deadline_ns`. Returns whether `done` did.
  bool RunUntil(int64_t deadline_ns, absl::FunctionRef<bool()> done);

  // Called now and then while it runs, to show how far it has come.
  void SetProgress(std::function<void()> progress) { progress_ = std::move(progress); }

  int session_timeout_ms() const { return session_timeout_ms_; }
  // Connections that broke or were closed by servers since the start.
  uint64_t dropped() const { return dropped_; }
  // Sessions that were found expired.
  uint64_t expired() const { return expired_; }
  // Why the last attempt to connect failed; empty if none did.
  const std::string& last_failure() const { return last_failure_; }

 private:
  void Wait(int64_t timeout_ns);
  // Connects what is due, sends pings, drops what has been silent for too long.
  void Sweep(int64_t now_ns);
  void SweepOne(Connection& connection, int64_t now_ns);
  void StartConnect(Connection& connection, int64_t now_ns);
  void FinishConnect(Connection& connection);
  void Receive(Connection& connection);
  // False if the connection is not up any more.
  bool HandlePacket(Connection& connection, std::string_view packet, int64_t now_ns);
  bool HandleHandshake(Connection& connection, std::string_view packet, int64_t now_ns);
  void Flush(Connection& connection, int64_t now_ns);
  void FlushDirty();
  void MarkDirty(Connection& connection);
  void Disconnect(Connection& connection, const std::string& why, int64_t now_ns);
  void Parked(Connection& connection, int64_t now_ns);
  // Closes the socket and forgets what belonged to it, but not the session.
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
