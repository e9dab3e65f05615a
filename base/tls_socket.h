// SPDX-License-Identifier: Apache-2.0

// Connects OpenSSL to a socket without the signal SIGPIPE, for code that cannot ignore the signal, such as that of a
// library.
#pragma once

#include <openssl/ssl.h>

namespace quorate {

// Lets `ssl` read from the socket `descriptor` and write to it. Like SSL_set_fd, except that a write to a
// connection that the other side has closed fails with EPIPE and raises no SIGPIPE, which would end the program.
// The socket stays the caller's, and must outlive `ssl`. Returns false if there is no memory for it.
//
// Thread-safety: that of `ssl`.
[[nodiscard]] bool SetTlsSocket(SSL* ssl, int descriptor);

}  // namespace quorate
