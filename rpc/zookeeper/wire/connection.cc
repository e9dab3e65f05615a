// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/wire/connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/assert.h"

namespace quorate::wire {
namespace {

bool WaitFor(int socket, int16_t event, int timeout_ms) {
  pollfd waited{socket, event, 0};
  return poll(&waited, 1, timeout_ms) > 0;
}

}  // namespace

Connection::~Connection() { Close(); }

Connection& Connection::operator=(Connection&& other) noexcept {
  Close();
  socket_ = std::exchange(other.socket_, -1);
  tls_ = std::move(other.tls_);
  reader_ = std::exchange(other.reader_, {});
  return *this;
}

Connection Connection::To(const std::string& address, int timeout_ms, const TlsClient* tls) {
  const size_t colon = address.rfind(':');
  ASSERT(colon != std::string::npos, "an address is host:port");
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int parsed = inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  ASSERT(parsed == 1, "the host of an address is numeric");
  Connection connection;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ASSERT(fd >= 0, "there are descriptors left");
  connection.socket_ = fd;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) error = errno;
  if (error == EINPROGRESS && WaitFor(fd, POLLOUT, timeout_ms)) {
    socklen_t size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) connection.Close();
  if (tls != nullptr && connection.open()) {
    connection.tls_ = tls->Connect(fd, address.substr(0, colon));
    ASSERT(connection.tls_ != nullptr, "there is memory left");
  }
  return connection;
}

ssize_t Connection::SendSome(std::string_view bytes) {
  return tls_ != nullptr ? tls_->Send(bytes.data(), bytes.size())
                         : send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

ssize_t Connection::ReceiveSome(char* to, size_t size) {
  return tls_ != nullptr ? tls_->Receive(to, size) : recv(socket_, to, size, 0);
}

void Connection::Send(std::string_view bytes, int timeout_ms) {
  while (!bytes.empty() && socket_ >= 0) {
    const ssize_t sent = SendSome(bytes);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN) return;
    // A handshake waits for bytes of the server.
    const bool waits_for_room = tls_ == nullptr || tls_->waits_for_room();
    if (!WaitFor(socket_, waits_for_room ? POLLOUT : POLLIN, timeout_ms)) Close();
  }
}

Connection::Received Connection::Receive(std::string* packet, int timeout_ms) {
  while (!reader_.Next(packet)) {
    if (reader_.bad()) Close();
    if (socket_ < 0) return Received::kClosed;
    char bytes[64 << 10];
    // Received bytes may wait inside of TLS, for which the socket does not become readable.
    const ssize_t size = ReceiveSome(bytes, sizeof(bytes));
    if (size < 0 && errno == EAGAIN) {
      if (!WaitFor(socket_, POLLIN, timeout_ms)) return Received::kNothing;
      continue;
    }
    if (size <= 0) {
      Close();
      return Received::kClosed;
    }
    reader_.Add({bytes, static_cast<size_t>(size)});
  }
  return Received::kPacket;
}

void Connection::Close() {
  tls_.reset();
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

void Connection::CloseAndWait(int timeout_ms) {
  if (socket_ >= 0) shutdown(socket_, SHUT_WR);
  std::string ignored;
  while (Receive(&ignored, timeout_ms) == Received::kPacket) continue;
  Close();
}

}  // namespace quorate::wire
