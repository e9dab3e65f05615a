// SPDX-License-Identifier: Apache-2.0

// A client's TCP connection, with or without TLS: sends bytes and receives packets, and never waits
// longer than the given time.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/zookeeper/wire/tls.h"
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
  // not established within the time counts as closed by the server. With `tls`, which may be
  // nullptr, the first Send makes the handshake; a handshake that fails counts as closed by the
  // server too.
  static Connection To(const std::string& address, int timeout_ms, const TlsClient* tls = nullptr);

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
  // As send and recv.
  ssize_t SendSome(std::string_view bytes);
  ssize_t ReceiveSome(char* to, size_t size);

  int socket_ = -1;
  std::unique_ptr<TlsStream> tls_;  // nullptr: without
  PacketReader reader_;
};

}  // namespace quorate::wire
