// SPDX-License-Identifier: Apache-2.0

// A client's TCP connection: sends bytes and receives packets, and never waits longer than the
// given time.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rpc/zookeeper/wire/wire.h"

namespace quorate::wire {

class Connection {
 public:
  Connection() = default;
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;

  // Connects to `address`, host:port with a numeric IPv4 address. A connection that is refused or
  // not established within the time counts as closed by the server.
  static Connection To(const std::string& address, int timeout_ms);

  // Closes the connection if the system does not accept the bytes within the time. Receive reports
  // other failures.
  void Send(std::string_view bytes, int timeout_ms);
  enum class Received { kPacket, kClosed, kNothing };
  // Waits for a packet for at most `timeout_ms`. Packets that came before the end of the stream are
  // returned first. After an invalid packet, the connection counts as closed by the server.
  Received Receive(std::string* packet, int timeout_ms);
  bool open() const { return socket_ >= 0; }
  void Close();
  // Closes the sending side and waits until the server has closed too; `timeout_ms` is for each
  // packet.
  void CloseAndWait(int timeout_ms);

 private:
  int socket_ = -1;
  PacketReader reader_;
};

}  // namespace quorate::wire
