// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/client_network.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "tests/simulation/client_connection.h"

namespace quorate::simulation {

// --- ClientNetwork -------------------------------------------------------------------------------

ClientNetwork::ClientNetwork(Network* network, size_t members)
    : network_(*network), hosts_(members), native_(this) {}
ClientNetwork::~ClientNetwork() = default;

ConnectionId ClientNetwork::Connect(size_t member, ConnectionHandler* handler) {
  return ConnectTo(member, Port::kZooKeeper, handler);
}

ConnectionId ClientNetwork::ConnectTo(size_t member, Port port, ConnectionHandler* handler) {
  ASSERT(member < hosts_.size());
  const ConnectionId id = next_id_++;
  auto connection = std::make_shared<ClientConnection>(this, id, member, port, handler);
  connections_[id] = connection;
  connection->Open();
  return id;
}

void ClientNetwork::Send(ConnectionId connection, std::string bytes) {
  auto found = connections_.find(connection);
  if (found == connections_.end() || bytes.empty()) return;
  network_.simulation().trace().Mix(bytes);
  found->second->SendUp(std::move(bytes));
}

void ClientNetwork::Close(ConnectionId connection) {
  auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const std::shared_ptr<ClientConnection> closed = found->second;
  connections_.erase(found);
  closed->CloseClient();
}

void ClientNetwork::BreakOne() {
  if (connections_.empty()) return;
  auto found = connections_.begin();
  std::advance(found, network_.simulation().random("network").Below(connections_.size()));
  const std::shared_ptr<ClientConnection> broken = found->second;
  network_.simulation().Line("net", "connection {} of a client to {} breaks", found->first,
                             broken->member() + 1);
  broken->FailClient();
}

// --- ServerSockets -------------------------------------------------------------------------------

ServerSockets::ServerSockets(ClientNetwork* network, size_t member,
                             std::shared_ptr<ProcessLifetime> lifetime)
    : network_(*network),
      simulation_(network->network().simulation()),
      random_(simulation_.random("sockets")),
      member_(member),
      lifetime_(std::move(lifetime)) {}

ServerSockets::~ServerSockets() {
  ASSERT(network_.host(member_).port(Port::kZooKeeper) != this, "closed before");
}

void ServerSockets::Start(rpc::zk::ConnectionLoop* loop, Scheduler::Task after_call) {
  loop_ = loop;
  after_call_ = std::move(after_call);
  network_.host(member_).port(Port::kZooKeeper) = this;
  ScheduleTimer(rpc::zk::ConnectionLoop::kTimerPeriod);
}

void ServerSockets::CloseAll(bool silent) {
  ServerPort*& port = network_.host(member_).port(Port::kZooKeeper);
  if (port == this) port = nullptr;
  for (const auto& [tag, connection] : std::exchange(connections_, {})) {
    connection->CloseServer(silent);
  }
}

std::optional<uint32_t> ServerSockets::Open(const std::shared_ptr<ClientConnection>& connection,
                                            const std::string& address, uint16_t port) {
  const std::optional<uint32_t> tag = loop_->Open(address, port);
  if (tag.has_value()) connections_[*tag] = connection;
  return tag;
}

void ServerSockets::OnWritable(uint32_t tag) { loop_->OnWritable(tag); }

void ServerSockets::ScheduleTimer(std::chrono::milliseconds period) {
  lifetime_->After(std::chrono::microseconds(period).count(), [this] {
    const std::chrono::milliseconds next = loop_->OnTimer();
    after_call_();
    ScheduleTimer(next);
  });
}

void ServerSockets::Soon(Scheduler::Task task) {
  lifetime_->After(random_.Between(0, simulation_.options().member.work_us),
                   [this, task = std::move(task)] {
                     task();
                     after_call_();
                   });
}

void ServerSockets::Wake() {
  Soon([this] { loop_->OnWake(); });
}

void ServerSockets::EndIterationSoon() {
  Soon([this] { loop_->EndIteration(); });
}

void ServerSockets::Receive(uint32_t tag) {
  const std::shared_ptr<ClientConnection>& connection = connections_.at(tag);
  connection->receiving = true;
  if (!connection->in.empty() || connection->ended) DeliverSoon(tag);
}

size_t ServerSockets::WaitingBytes(uint32_t tag) {
  const ClientConnection& connection = *connections_.at(tag);
  return connection.ended ? 0 : connection.in.size();
}

bool ServerSockets::HasHungUp(uint32_t tag) { return connections_.at(tag)->ended; }

void ServerSockets::DeliverSoon(uint32_t tag) {
  Soon([this, tag] { Deliver(tag); });
}

void ServerSockets::Deliver(uint32_t tag) {
  auto found = connections_.find(tag);
  if (found == connections_.end() || !found->second->receiving) return;
  const std::shared_ptr<ClientConnection> connection = found->second;
  if (!connection->in.empty()) {
    connection->receiving = false;
    const bool was_full = connection->is_full();
    // The network may cut the bytes at any place.
    std::string bytes;
    if (connection->in.size() > 1 && random_.Below(16) == 0) {
      const size_t size = 1 + random_.Below(connection->in.size());
      bytes = connection->in.substr(0, size);
      connection->in.erase(0, size);
    } else {
      bytes.swap(connection->in);
    }
    if (was_full) network_.network().Wake();
    loop_->OnBytes(tag, bytes);
  } else if (connection->ended) {
    connection->receiving = false;
    loop_->OnClosed(tag);
  }
}

std::optional<size_t> ServerSockets::Send(uint32_t tag, std::string_view bytes) {
  const std::shared_ptr<ClientConnection>& connection = connections_.at(tag);
  const size_t waiting = connection->down().bytes();
  const size_t size = std::min(bytes.size(), ClientConnection::kWindowBytes -
                                                 std::min(ClientConnection::kWindowBytes, waiting));
  if (size > 0) {
    simulation_.trace().Mix(bytes.substr(0, size));
    connection->down().Send(std::string(bytes.substr(0, size)));
  }
  connection->blocked = size < bytes.size();
  return size;
}

void ServerSockets::Close(uint32_t tag) {
  auto found = connections_.find(tag);
  const std::shared_ptr<ClientConnection> connection = found->second;
  connections_.erase(found);
  connection->CloseServer(/*silent=*/false);
}

}  // namespace quorate::simulation
