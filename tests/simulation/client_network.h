// SPDX-License-Identifier: Apache-2.0

// The connections between simulated clients and servers: bytes in order, both ways, over the
// simulated network. A server has a port for each protocol: the connections of the ZooKeeper port
// are the sockets of its connection loop; those of the native port carry streams (native_server.h).
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/zookeeper/connection_loop.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process_lifetime.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

class ClientConnection;

enum class Port : uint8_t { kZooKeeper, kNative };
inline constexpr size_t kPorts = 2;

// The port of a process that accepts connections, as its connections see the port.
class ServerPort {
 public:
  virtual ~ServerPort() = default;
  virtual bool paused() const = 0;
  // A client connects. Returns the tag by which the port knows the connection; nullopt if the port
  // refuses the connection. If the port accepts it, the connection calls AfterCall next.
  virtual std::optional<uint32_t> Open(const std::shared_ptr<ClientConnection>& connection,
                                       const std::string& address, uint16_t port) = 0;
  virtual void AfterCall() = 0;
  // Runs `task` as a piece of work of the process.
  virtual void Soon(Scheduler::Task task) = 0;
  // Bytes, or the end of the stream, have arrived on the connection: schedules their delivery.
  virtual void DeliverSoon(uint32_t tag) = 0;
  // A connection that was blocked can be written to again.
  virtual void OnWritable(uint32_t tag) = 0;
};

class ClientNetwork : public Endpoint {
 public:
  ClientNetwork(Network* network, size_t members);
  ~ClientNetwork() override;

  ConnectionId Connect(size_t member, ConnectionHandler* handler) override;
  void Send(ConnectionId connection, std::string bytes) override;
  void Close(ConnectionId connection) override;

  // The endpoint that connects to the native ports. Send and Close of either endpoint take the
  // connections of both.
  Endpoint& native() { return native_; }

  struct Host {
    // The port of the process that runs there; nullptr if connections are refused.
    ServerPort*& port(Port number) { return ports[static_cast<size_t>(number)]; }
    ServerPort* port(Port number) const { return ports[static_cast<size_t>(number)]; }
    std::array<ServerPort*, kPorts> ports = {};
    bool on = false;  // whether the machine has power
  };
  Host& host(size_t member) { return hosts_[member]; }
  Network& network() { return network_; }
  // Breaks one of the open connections, chosen at random.
  void BreakOne();

 private:
  friend class ClientConnection;

  class NativeEndpoint : public Endpoint {
   public:
    explicit NativeEndpoint(ClientNetwork* network) : network_(*network) {}
    ConnectionId Connect(size_t member, ConnectionHandler* handler) override {
      return network_.ConnectTo(member, Port::kNative, handler);
    }
    void Send(ConnectionId connection, std::string bytes) override {
      network_.Send(connection, std::move(bytes));
    }
    void Close(ConnectionId connection) override { network_.Close(connection); }

   private:
    ClientNetwork& network_;
  };

  ConnectionId ConnectTo(size_t member, Port port, ConnectionHandler* handler);

  Network& network_;
  std::vector<Host> hosts_;
  NativeEndpoint native_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, std::shared_ptr<ClientConnection>> connections_;  // open client's ends
};

// The sockets of one process.
class ServerSockets : public rpc::zk::Sockets, public ServerPort {
 public:
  ServerSockets(ClientNetwork* network, size_t member, std::shared_ptr<ProcessLifetime> lifetime);
  ~ServerSockets() override;

  // Lets clients connect from now on. `after_call` runs after each call of the loop.
  void Start(rpc::zk::ConnectionLoop* loop, Scheduler::Task after_call);
  // Closes all connections, because the process has ended. With `silent`, the machine is off, too,
  // and no client is notified.
  void CloseAll(bool silent);

  void Wake() override;
  void EndIterationSoon() override;
  void Receive(uint32_t tag) override;
  size_t WaitingBytes(uint32_t tag) override;
  bool HasHungUp(uint32_t tag) override;
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override;
  void Close(uint32_t tag) override;

  // ServerPort
  bool paused() const override { return lifetime_->paused(); }
  std::optional<uint32_t> Open(const std::shared_ptr<ClientConnection>& connection,
                               const std::string& address, uint16_t port) override;
  void AfterCall() override { after_call_(); }
  void Soon(Scheduler::Task task) override;
  void DeliverSoon(uint32_t tag) override;
  void OnWritable(uint32_t tag) override;

 private:
  void ScheduleTimer(std::chrono::milliseconds period);
  void Deliver(uint32_t tag);

  ClientNetwork& network_;
  Simulation& simulation_;
  Random& random_;
  const size_t member_;
  const std::shared_ptr<ProcessLifetime> lifetime_;
  rpc::zk::ConnectionLoop* loop_ = nullptr;
  Scheduler::Task after_call_;
  std::map<uint32_t, std::shared_ptr<ClientConnection>> connections_;
};

}  // namespace quorate::simulation
