// The connections between simulated clients and servers: bytes in order, both ways, over the
// simulated network; at the server's end they are the sockets of its connection loop.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zk/connection_loop.h"
#include "tests/simulation/life.h"
#include "tests/simulation/network.h"
#include "tests/simulation/world.h"

namespace quorate::simulation {

class ClientConnection;
class ServerSockets;

class ClientNetwork : public Endpoint {
 public:
  ClientNetwork(Network* network, size_t members);
  ~ClientNetwork() override;

  ConnectionId Connect(size_t member, ConnectionHandler* handler) override;
  void Send(ConnectionId connection, std::string bytes) override;
  void Close(ConnectionId connection) override;

  struct Host {
    ServerSockets* sockets = nullptr;  // of the process that runs there
    bool on = false;                   // the machine; without a process it refuses connections
  };
  Host& host(size_t member) { return hosts_[member]; }
  Network& network() { return network_; }
  // One of the open connections breaks.
  void BreakOne();

 private:
  friend class ClientConnection;

  Network& network_;
  std::vector<Host> hosts_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, std::shared_ptr<ClientConnection>> connections_;  // the client's ends
};

// The sockets of one process.
class ServerSockets : public rpc::zk::Sockets {
 public:
  ServerSockets(ClientNetwork* network, size_t member, std::shared_ptr<Life> life);
  ~ServerSockets() override;

  // From now on clients can connect. `after_call` follows each call of the loop.
  void Start(rpc::zk::ConnectionLoop* loop, Scheduler::Task after_call);
  // The process is gone. `silent`: so is the machine, and nobody is told.
  void CloseAll(bool silent);

  void Wake() override;
  void EndTurnSoon() override;
  void Receive(uint32_t tag) override;
  size_t WaitingBytes(uint32_t tag) override;
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override;
  void Close(uint32_t tag) override;

 private:
  friend class ClientConnection;

  void ScheduleTimer(std::chrono::milliseconds period);
  // A piece of the loop's work, soon.
  void Soon(Scheduler::Task task);
  void DeliverSoon(uint32_t tag);
  void Deliver(uint32_t tag);

  ClientNetwork& network_;
  Simulation& simulation_;
  Random& random_;
  const size_t member_;
  const std::shared_ptr<Life> life_;
  rpc::zk::ConnectionLoop* loop_ = nullptr;
  Scheduler::Task after_call_;
  std::map<uint32_t, std::shared_ptr<ClientConnection>> connections_;
};

}  // namespace quorate::simulation
