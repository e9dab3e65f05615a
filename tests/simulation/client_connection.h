// SPDX-License-Identifier: Apache-2.0

// A connection between a simulated client and a port of a simulated server.
//
// Thread-safety: none.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/simulation/client_network.h"
#include "tests/simulation/network.h"
#include "tests/simulation/sim_environment.h"

namespace quorate::simulation {

// Both ends of a connection. Each end keeps its own state, and learns about the other end only from
// the packets that arrive.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // How many bytes a connection carries in each direction before the receiver has taken them.
  static constexpr size_t kWindowBytes = 64 << 10;

  ClientConnection(ClientNetwork* network, ConnectionId id, size_t member, Port port,
                   ConnectionHandler* handler)
      : network_(*network), id_(id), member_(member), port_(port), handler_(handler) {}

  void Open() {
    const size_t client = network_.network().client_host();
    up_ = std::make_shared<Pipe>(&network_.network(), client, member_, &server_end_);
    down_ = std::make_shared<Pipe>(&network_.network(), member_, client, &client_end_);
    self_ = shared_from_this();
    up_->Send("");  // the first, empty packet opens the connection
    ScheduleKeepalive(false, false);
  }

  // --- The client's end --------------------------------------------------------------------------
  void SendUp(std::string bytes) { up_->Send(std::move(bytes)); }
  void CloseClient() {
    handler_ = nullptr;
    up_->SendEnd();
    down_->Abandon();
    MaybeForget();
  }
  // The connection broke: drops the client's end and reports that to its handler.
  void FailClient() {
    ConnectionHandler* handler = std::exchange(handler_, nullptr);
    if (handler == nullptr) return;
    const auto keep = shared_from_this();
    network_.connections_.erase(id_);
    up_->SendEnd();
    down_->Abandon();
    MaybeForget();
    network_.network().simulation().trace().Count("clients: connection broken");
    handler->OnClosed(id_);
  }
  size_t member() const { return member_; }

  // --- The server's end --------------------------------------------------------------------------
  std::string in;          // received, and not yet given to the loop
  bool receiving = false;  // the loop accepts bytes
  bool ended = false;      // the server's end receives nothing more
  bool blocked = false;    // the loop waits until it can send again
  uint32_t tag = 0;

  // Whether the server's end accepts no more bytes until the loop has taken those in `in`.
  bool is_full() const { return in.size() >= kWindowBytes; }
  // Whether more than a window of the bytes sent to the client is not delivered yet.
  bool is_congested() const { return down_->bytes() > kWindowBytes; }
  Pipe& down() { return *down_; }
  void CloseServer(bool silent) {
    server_ = nullptr;
    in.clear();
    if (!silent) {
      down_->SendEnd();
      up_->Abandon();
      refuses_ = true;
    }
    MaybeForget();
  }

 private:
  static constexpr int64_t kKeepaliveUs = 3'000'000;

  class ServerEnd : public PipeEnd {
   public:
    explicit ServerEnd(ClientConnection* c) : connection(*c) {}
    bool CanReceive() const override { return connection.ServerCanReceive(); }
    void OnPacket(std::string packet) override { connection.OnServerPacket(std::move(packet)); }
    void OnEnd() override { connection.OnServerEnd(); }
    ClientConnection& connection;
  };
  class ClientEnd : public PipeEnd {
   public:
    explicit ClientEnd(ClientConnection* c) : connection(*c) {}
    bool CanReceive() const override { return true; }
    void OnPacket(std::string packet) override { connection.OnClientPacket(std::move(packet)); }
    void OnEnd() override { connection.FailClient(); }
    ClientConnection& connection;
  };

  bool ServerCanReceive() const {
    const ClientNetwork::Host& host = network_.host(member_);
    if (!host.on) return false;
    if (server_ == nullptr) return host.port(port_) == nullptr || !host.port(port_)->paused();
    return !server_->paused() && !is_full();
  }
  void OnServerPacket(std::string packet) {
    const auto keep = shared_from_this();
    if (packet.empty() && !was_open_) {
      was_open_ = true;
      ServerPort* port = network_.host(member_).port(port_);
      if (port == nullptr) return Refuse();
      const std::optional<uint32_t> opened = port->Open(
          keep, fmt::format("10.0.0.{}", id_ % 200), static_cast<uint16_t>(10'000 + id_ % 50'000));
      if (!opened.has_value()) return Refuse();
      server_ = port;
      tag = *opened;
      receiving = true;
      down_->OnDelivered([this] { OnRoom(); });
      down_->Send("");
      port->AfterCall();
      return;
    }
    if (server_ == nullptr) return Refuse();
    in += packet;
    if (receiving) server_->DeliverSoon(tag);
  }
  void OnServerEnd() {
    const auto keep = shared_from_this();
    ended = true;
    if (server_ != nullptr && receiving) server_->DeliverSoon(tag);
    MaybeForget();
  }
  void OnRoom() {
    if (server_ == nullptr || !blocked || down_->bytes() > kWindowBytes / 2) return;
    blocked = false;
    server_->Soon([this, keep = shared_from_this()] {
      if (server_ != nullptr) server_->OnWritable(tag);
    });
  }
  void OnClientPacket(std::string packet) {
    const auto keep = shared_from_this();
    if (handler_ == nullptr) return;
    if (packet.empty()) {
      handler_->OnOpen(id_);
    } else {
      handler_->OnBytes(id_, packet);
    }
  }
  // The server's machine does not know this connection: breaks the client's end after a delay.
  void Refuse() {
    up_->Abandon();
    if (refuses_) return;  // the end of the stream is already on its way to the client
    Network& network = network_.network();
    network.simulation().After(network.Delay(member_, network.client_host()),
                               [self = shared_from_this()] {
                                 Network& n = self->network_.network();
                                 if (n.IsOpen(self->member_, n.client_host())) self->FailClient();
                               });
  }

  bool Answers() const {
    const Network& network = network_.network();
    const size_t client = network_.network().client_host();
    return network.IsOpen(client, member_) && network.IsOpen(member_, client);
  }
  void ScheduleKeepalive(bool client_missed, bool server_missed) {
    Simulation& simulation = network_.network().simulation();
    simulation.After(simulation.random("keepalive").Between(kKeepaliveUs / 2, kKeepaliveUs),
                     [self = shared_from_this(), client_missed, server_missed] {
                       self->Keepalive(client_missed, server_missed);
                     });
  }
  void Keepalive(bool client_missed, bool server_missed) {
    const bool client_misses =
        handler_ != nullptr && (!Answers() || !network_.host(member_).on || server_ == nullptr);
    const bool server_misses = server_ != nullptr && !server_->paused() && !Answers();
    if (client_misses && client_missed) FailClient();
    if (server_misses && server_missed && !ended) {
      ended = true;
      up_->Abandon();
      if (receiving) server_->DeliverSoon(tag);
    }
    MaybeForget();
    if (self_ != nullptr) ScheduleKeepalive(client_misses, server_misses);
  }
  void MaybeForget() {
    if (handler_ != nullptr || server_ != nullptr) return;
    up_->Abandon();
    down_->Abandon();
    self_ = nullptr;
  }

  ClientNetwork& network_;
  const ConnectionId id_;
  const size_t member_;
  const Port port_;
  ConnectionHandler* handler_;
  ServerPort* server_ = nullptr;
  bool was_open_ = false;
  bool refuses_ = false;  // the server has closed the connection, and has sent the end of its
                          // stream
  ServerEnd server_end_{this};
  ClientEnd client_end_{this};
  std::shared_ptr<Pipe> up_;
  std::shared_ptr<Pipe> down_;
  std::shared_ptr<ClientConnection> self_;  // set while either end is open
};

}  // namespace quorate::simulation
