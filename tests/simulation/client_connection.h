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

// Both ends of a connection. Each end goes on its own, and learns of the other by what comes.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // What a connection carries each way before the other end has taken it.
  static constexpr size_t kWindowBytes = 64 << 10;

  ClientConnection(ClientNetwork* network, ConnectionId id, size_t member, Port port,
                   ConnectionHandler* handler)
      : network_(*network), id_(id), member_(member), port_(port), handler_(handler) {}

  void Open() {
    const size_t client = network_.network().client_host();
    up_ = std::make_shared<Pipe>(&network_.network(), client, member_, &server_end_);
    down_ = std::make_shared<Pipe>(&network_.network(), member_, client, &client_end_);
    self_ = shared_from_this();
    up_->Send("");  // opens it
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
  // It broke.
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
  std::string in;          // came, and not given to the loop
  bool receiving = false;  // the loop takes bytes
  bool ended = false;      // nothing more comes
  bool blocked = false;    // the loop waits until there is room
  uint32_t tag = 0;

  // Whether nothing more is accepted from the client until `in` is taken.
  bool is_full() const { return in.size() >= kWindowBytes; }
  // Whether the client has not received what was sent to it.
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
  // The server's machine knows no such connection.
  void Refuse() {
    up_->Abandon();
    if (refuses_) return;  // its end is on its way
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
  bool refuses_ = false;  // the server has closed it, and says so
  ServerEnd server_end_{this};
  ClientEnd client_end_{this};
  std::shared_ptr<Pipe> up_;
  std::shared_ptr<Pipe> down_;
  std::shared_ptr<ClientConnection> self_;  // while either end is open
};

}  // namespace quorate::simulation
