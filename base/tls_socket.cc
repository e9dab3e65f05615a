// SPDX-License-Identifier: Apache-2.0

#include "base/tls_socket.h"

#include <openssl/bio.h>
#include <sys/socket.h>

namespace quorate {
namespace {

int Write(BIO* bio, const char* from, int size) {
  const int descriptor = static_cast<int>(BIO_get_fd(bio, nullptr));
  BIO_clear_retry_flags(bio);
  const int sent =
      static_cast<int>(send(descriptor, from, static_cast<size_t>(size), MSG_NOSIGNAL));
  if (sent <= 0 && BIO_sock_should_retry(sent) != 0) BIO_set_retry_write(bio);
  return sent;
}

// Returns OpenSSL's own method for sockets with another function for writing; null if there is no memory.
const BIO_METHOD* Method() {
  static const BIO_METHOD* const method = []() -> const BIO_METHOD* {
    BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    if (made == nullptr) return nullptr;
    const BIO_METHOD* const socket = BIO_s_socket();
    BIO_meth_set_write(made, Write);
    BIO_meth_set_read(made, BIO_meth_get_read(socket));
    BIO_meth_set_puts(made, BIO_meth_get_puts(socket));
    BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(socket));
    BIO_meth_set_create(made, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(made, BIO_meth_get_destroy(socket));
    return made;
  }();
  return method;
}

}  // namespace

bool SetTlsSocket(SSL* ssl, int descriptor) {
  const BIO_METHOD* const method = Method();
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return false;
  BIO_set_fd(bio, descriptor, BIO_NOCLOSE);
  SSL_set_bio(ssl, bio, bio);
  return true;
}

}  // namespace quorate
