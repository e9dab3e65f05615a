// SPDX-License-Identifier: Apache-2.0

// The clients of a ConnectionLoop, which a test drives by hand: the bytes that either side sends
// wait in a string until the other side takes them.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "rpc/frontend/testing/manual_clients.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {

// A connection as its client sees it.
struct ManualSocket : ManualClient {
  std::string to_server;
  std::string to_client;
  size_t room = SIZE_MAX;
  bool blocked = false;
  bool broken = false;
  bool has_hung_up = false;
};

class ManualSockets final
    : public ManualClients<ManualSockets, Sockets, ConnectionLoop, ManualSocket> {
 public:
  static constexpr size_t kNoLimit = SIZE_MAX;

  // --- The clients' side -------------------------------------------------------------------------
  // Returns the connection's tag; no value if it is refused.
  std::optional<uint32_t> Connect(const std::string& address = "10.0.0.1", uint16_t port = 7000) {
    const std::optional<uint32_t> tag = loop_->Open(address, port);
    if (tag.has_value()) clients_[*tag] = {};
    return tag;
  }
  // Connects a client that has proved to have the certificate with this subject.
  uint32_t ConnectWithCertificate(const std::string& subject) {
    const std::string address = "10.0.0.1";
    loop_->frontend().AdmitOrRefuse(address);
    const uint32_t tag = loop_->OpenAdmitted(address, 7000, subject);
    clients_[tag] = {};
    return tag;
  }
  // Sends bytes to the server, which gets them as soon as it receives.
  void Write(uint32_t tag, std::string_view bytes) { clients_.at(tag).to_server.append(bytes); }
  // Returns the bytes that the server has sent; the test removes them.
  std::string& received(uint32_t tag) { return clients_.at(tag).to_client; }
  void HangUp(uint32_t tag) { loop_->OnClosed(tag); }
  // Hangs up behind the bytes that wait to be received.
  void HangUpLater(uint32_t tag) { clients_.at(tag).has_hung_up = true; }
  bool open(uint32_t tag) const { return clients_.at(tag).open; }
  // Lets the client take only `bytes` more bytes from now on.
  void SetRoom(uint32_t tag, size_t bytes) {
    ManualSocket& socket = clients_.at(tag);
    socket.room = bytes;
    if (bytes > 0 && std::exchange(socket.blocked, false)) loop_->OnWritable(tag);
  }
  // Simulates a broken network: the next Send fails.
  void Break(uint32_t tag) { clients_.at(tag).broken = true; }

  // Gives the waiting bytes of this connection to the loop, outside of RunIteration. Returns false
  // if there are none, or if the loop does not receive.
  bool HandIn(uint32_t tag) {
    ManualSocket& socket = clients_.at(tag);
    if (!socket.open || !socket.receiving || socket.to_server.empty()) return false;
    socket.receiving = false;
    loop_->OnBytes(tag, std::exchange(socket.to_server, {}));
    return true;
  }

  // --- The loop's side ---------------------------------------------------------------------------
  bool HasHungUp(uint32_t tag) override { return clients_.at(tag).has_hung_up; }
  size_t WaitingBytes(uint32_t tag) override {
    ManualSocket& socket = clients_.at(tag);
    return socket.has_hung_up ? 0 : socket.to_server.size();
  }
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override {
    ManualSocket& socket = clients_.at(tag);
    ASSERT(socket.open);
    ASSERT(!socket.blocked);
    ASSERT(!bytes.empty());
    if (socket.broken) return std::nullopt;
    const size_t count = std::min(bytes.size(), socket.room);
    socket.to_client.append(bytes.substr(0, count));
    if (socket.room != kNoLimit) socket.room -= count;
    socket.blocked = count < bytes.size();
    return count;
  }
  void Close(uint32_t tag) override {
    ManualSocket& socket = clients_.at(tag);
    ASSERT(socket.open, "closed once");
    socket.open = false;
  }
};

}  // namespace quorate::rpc::zk
