// SPDX-License-Identifier: Apache-2.0

#include "base/tls_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <memory>

namespace quorate {
namespace {

TEST_CASE("TLS on a socket that the other side has closed fails without a signal") {
  std::signal(SIGPIPE, SIG_DFL);  // which ends the program
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  close(sockets[1]);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  REQUIRE(SetTlsSocket(ssl.get(), sockets[0]));
  SSL_set_connect_state(ssl.get());
  errno = 0;
  const int result = SSL_do_handshake(ssl.get());
  CHECK(errno == EPIPE);
  CHECK(SSL_get_error(ssl.get(), result) == SSL_ERROR_SYSCALL);
  close(sockets[0]);
}

TEST_CASE("TLS on a full socket waits for room, and does not close the socket") {
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
  char bytes[4096] = {};
  while (write(sockets[0], bytes, sizeof(bytes)) > 0) continue;
  while (write(sockets[0], bytes, 1) > 0) continue;
  {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
    REQUIRE(SetTlsSocket(ssl.get(), sockets[0]));
    SSL_set_connect_state(ssl.get());
    int result = SSL_do_handshake(ssl.get());
    CHECK(SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_WRITE);
    while (read(sockets[1], bytes, sizeof(bytes)) > 0) continue;
    result = SSL_do_handshake(ssl.get());
    CHECK(SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ);
    CHECK(read(sockets[1], bytes, sizeof(bytes)) > 0);
    CHECK(bytes[0] == 22);  // a record of the handshake
  }
  CHECK(write(sockets[0], bytes, 1) == 1);
  close(sockets[0]);
  close(sockets[1]);
}

}  // namespace
}  // namespace quorate
