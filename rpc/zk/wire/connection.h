// A client's TCP connection: sends bytes and receives packets, never waiting for longer than it is
// told.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rpc/zk/wire/wire.h"

namespace quorate::wire {

class Connection {
 public:
  Connection() = default;
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;

  // `address` is host:port, the host a numeric IPv4 address. One that is refused, or not there
  // within the time, counts as a connection that the server has closed.
  static Connection To(const std::string& address, int timeout_ms);

  // Closes it if the bytes cannot be given to the system within the time. Another failure is told
  // by Receive.
  void Send(std::string_view bytes, int timeout_ms);
  enum class Received { kPacket, kClosed, kNothing };
  // Waits for a packet for at most `timeout_ms`. What has come before the end is given first. A
  // server that sends what cannot be a packet counts as one that closes.
  Received Receive(std::string* packet, int timeout_ms);
  bool open() const { return socket_ >= 0; }
  void Close();
  // Closes and waits until the server has closed too, each time for a packet or the end.
  void CloseAndWait(int timeout_ms);

 private:
  int socket_ = -1;
  PacketReader reader_;
};

}  // namespace quorate::wire
