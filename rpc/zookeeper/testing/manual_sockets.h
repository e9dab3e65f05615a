// The clients of a ConnectionLoop, which a test drives by hand: the bytes that either side sends
// wait in a string until the other side takes them.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "rpc/zookeeper/connection_loop.h"

namespace quorate::rpc::zk {

class ManualSockets final : public Sockets {
 public:
  static constexpr size_t kNoLimit = SIZE_MAX;

  // Called before everything else. The loop must outlive the calls of Connect and RunIterations.
  void SetLoop(ConnectionLoop* loop) { loop_ = loop; }

  // --- The clients' side -------------------------------------------------------------------------
  // Returns the connection's tag; no value if it is refused.
  std::optional<uint32_t> Connect(const std::string& address = "10.0.0.1", uint16_t port = 7000) {
    const std::optional<uint32_t> tag = loop_->Open(address, port);
    if (tag.has_value()) sockets_[*tag] = {};
    return tag;
  }
  // The server gets the bytes as soon as it receives.
  void Write(uint32_t tag, std::string_view bytes) { sockets_.at(tag).to_server.append(bytes); }
  // The bytes that the server has sent; the test removes them.
  std::string& received(uint32_t tag) { return sockets_.at(tag).to_client; }
  void HangUp(uint32_t tag) { loop_->OnClosed(tag); }
  bool open(uint32_t tag) const { return sockets_.at(tag).open; }
  bool receiving(uint32_t tag) const { return sockets_.at(tag).receiving; }
  // From now on the client takes only so many more bytes.
  void SetRoom(uint32_t tag, size_t bytes) {
    Socket& socket = sockets_.at(tag);
    socket.room = bytes;
    if (bytes > 0 && std::exchange(socket.blocked, false)) loop_->OnWritable(tag);
  }
  // Simulates a broken network: the next Send fails.
  void Break(uint32_t tag) { sockets_.at(tag).broken = true; }

  // Hands the waiting bytes of this connection to the loop, outside of RunIteration. Returns false
  // if there are none, or the loop does not receive.
  bool HandIn(uint32_t tag) {
    Socket& socket = sockets_.at(tag);
    if (!socket.open || !socket.receiving || socket.to_server.empty()) return false;
    socket.receiving = false;
    loop_->OnBytes(tag, std::exchange(socket.to_server, {}));
    return true;
  }
  // Runs iterations of the loop until nothing is left to do: first the inputs, then the end of the
  // iteration.
  void RunIterations() {
    while (RunIteration()) {
    }
  }

  // Runs one iteration. Returns false if there was nothing to do.
  bool RunIteration() {
    bool moved = false;
    if (std::exchange(wake_, false)) {
      loop_->OnWake();
      moved = true;
    }
    for (const auto& [tag, socket] : sockets_) moved |= HandIn(tag);
    if (std::exchange(iteration_end_, false)) {
      loop_->EndIteration();
      moved = true;
    }
    return moved;
  }

  // --- The loop's side ---------------------------------------------------------------------------
  void Wake() override { wake_ = true; }
  void EndIterationSoon() override {
    ASSERT(!iteration_end_, "asked for once an iteration");
    iteration_end_ = true;
  }
  void Receive(uint32_t tag) override {
    Socket& socket = sockets_.at(tag);
    ASSERT(socket.open);
    ASSERT(!socket.receiving, "asked for once");
    socket.receiving = true;
  }
  size_t WaitingBytes(uint32_t tag) override {
    Socket& socket = sockets_.at(tag);
    ASSERT(!socket.receiving);
    return socket.to_server.size();
  }
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override {
    Socket& socket = sockets_.at(tag);
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
    Socket& socket = sockets_.at(tag);
    ASSERT(socket.open, "closed once");
    socket.open = false;
  }

 private:
  struct Socket {
    std::string to_server;
    std::string to_client;
    size_t room = kNoLimit;
    bool receiving = true;
    bool blocked = false;
    bool broken = false;
    bool open = true;
  };

  ConnectionLoop* loop_ = nullptr;
  std::map<uint32_t, Socket> sockets_;  // by tag, also closed ones
  bool wake_ = false;
  bool iteration_end_ = false;
};

}  // namespace quorate::rpc::zk
