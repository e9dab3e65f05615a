#include "tests/simulation/client_network.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::simulation {
namespace {

// What a connection carries each way before the other end has taken it.
constexpr size_t kWindowBytes = 64 << 10;
constexpr int64_t kKeepaliveUs = 3'000'000;

}  // namespace

// Both ends of a connection. Each end goes on its own, and learns of the other by what comes.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  ClientConnection(ClientNetwork* network, ConnectionId id, size_t member,
                   ConnectionHandler* handler)
      : network_(*network), id_(id), member_(member), handler_(handler) {}

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
    if (server_ == nullptr) return host.sockets == nullptr || !host.sockets->life_->paused();
    return !server_->life_->paused() && in.size() < kWindowBytes;
  }
  void OnServerPacket(std::string packet) {
    const auto keep = shared_from_this();
    if (packet.empty() && !was_open_) {
      was_open_ = true;
      ServerSockets* sockets = network_.host(member_).sockets;
      if (sockets == nullptr) return Refuse();
      const std::optional<uint32_t> opened = sockets->loop_->Open(
          fmt::format("10.0.0.{}", id_ % 200), static_cast<uint16_t>(10'000 + id_ % 50'000));
      if (!opened.has_value()) return Refuse();
      server_ = sockets;
      tag = *opened;
      receiving = true;
      sockets->connections_[tag] = keep;
      down_->OnDelivered([this] { OnRoom(); });
      down_->Send("");
      sockets->after_call_();
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
      if (server_ != nullptr) server_->loop_->OnWritable(tag);
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
    const bool server_misses = server_ != nullptr && !server_->life_->paused() && !Answers();
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
  ConnectionHandler* handler_;
  ServerSockets* server_ = nullptr;
  bool was_open_ = false;
  bool refuses_ = false;  // the server has closed it, and says so
  ServerEnd server_end_{this};
  ClientEnd client_end_{this};
  std::shared_ptr<Pipe> up_;
  std::shared_ptr<Pipe> down_;
  std::shared_ptr<ClientConnection> self_;  // while either end is open
};

// --- ClientNetwork -------------------------------------------------------------------------------

ClientNetwork::ClientNetwork(Network* network, size_t members)
    : network_(*network), hosts_(members) {}
ClientNetwork::~ClientNetwork() = default;

ConnectionId ClientNetwork::Connect(size_t member, ConnectionHandler* handler) {
  ASSERT(member < hosts_.size());
  const ConnectionId id = next_id_++;
  auto connection = std::make_shared<ClientConnection>(this, id, member, handler);
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

ServerSockets::ServerSockets(ClientNetwork* network, size_t member, std::shared_ptr<Life> life)
    : network_(*network),
      simulation_(network->network().simulation()),
      random_(simulation_.random("sockets")),
      member_(member),
      life_(std::move(life)) {}

ServerSockets::~ServerSockets() { ASSERT(network_.host(member_).sockets != this, "closed before"); }

void ServerSockets::Start(rpc::zk::ConnectionLoop* loop, Scheduler::Task after_call) {
  loop_ = loop;
  after_call_ = std::move(after_call);
  network_.host(member_).sockets = this;
  ScheduleTimer(rpc::zk::ConnectionLoop::kTimerPeriod);
}

void ServerSockets::CloseAll(bool silent) {
  if (network_.host(member_).sockets == this) network_.host(member_).sockets = nullptr;
  for (const auto& [tag, connection] : std::exchange(connections_, {})) {
    connection->CloseServer(silent);
  }
}

void ServerSockets::ScheduleTimer(std::chrono::milliseconds period) {
  life_->After(std::chrono::microseconds(period).count(), [this] {
    const std::chrono::milliseconds next = loop_->OnTimer();
    after_call_();
    ScheduleTimer(next);
  });
}

void ServerSockets::Soon(Scheduler::Task task) {
  life_->After(random_.Between(0, simulation_.options().member.work_us),
               [this, task = std::move(task)] {
                 task();
                 after_call_();
               });
}

void ServerSockets::Wake() {
  Soon([this] { loop_->OnWake(); });
}

void ServerSockets::EndTurnSoon() {
  Soon([this] { loop_->EndTurn(); });
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

void ServerSockets::DeliverSoon(uint32_t tag) {
  Soon([this, tag] { Deliver(tag); });
}

void ServerSockets::Deliver(uint32_t tag) {
  auto found = connections_.find(tag);
  if (found == connections_.end() || !found->second->receiving) return;
  const std::shared_ptr<ClientConnection> connection = found->second;
  if (!connection->in.empty()) {
    connection->receiving = false;
    const bool was_full = connection->in.size() >= kWindowBytes;
    // Bytes come as the network cuts them, which is anywhere.
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
  const size_t size = std::min(bytes.size(), kWindowBytes - std::min(kWindowBytes, waiting));
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
