// SPDX-License-Identifier: Apache-2.0

// TLS of a client's connections to servers, with OpenSSL and independent of the server's TLS.
//
// Thread-safety: a TlsClient may be used by all threads; a TlsStream by one thread at a time.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace quorate::wire {

// Files in PEM.
struct TlsFiles {
  std::string authorities;  // of the servers' certificates; empty: those of the system
  std::string certificate;  // of the client, with its chain; empty: it has none
  std::string key;          // empty: it is in the file of the certificate
};

// One connection, with the interface of recv and send on its descriptor, which must not block.
class TlsStream {
 public:
  // Receive at most `size` bytes, and send as many of `size` bytes as possible. Return a negative
  // number with errno EAGAIN if nothing is possible now, 0 at the end of the stream (Receive only),
  // and a negative number with errno EPROTO if the connection has failed; failure() says why. Both
  // make progress with the handshake. After EAGAIN, the next call of Send must begin with the same
  // bytes.
  ssize_t Receive(char* to, size_t size);
  ssize_t Send(const char* from, size_t size);
  // Returns whether the last Receive has left received bytes here, for which the descriptor does not
  // become readable.
  bool may_have_more() const { return may_have_more_; }
  // Returns whether Send waits for the descriptor to become writable. Otherwise it waits for bytes
  // from the server, of the handshake.
  bool waits_for_room() const { return waits_for_room_; }
  const std::string& failure() const { return failure_; }

 private:
  friend class TlsClient;
  struct SslDeleter {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  explicit TlsStream(SSL* ssl) : ssl_(ssl) {}
  ssize_t Fail(int result);

  const std::unique_ptr<SSL, SslDeleter> ssl_;
  bool may_have_more_ = false;
  bool waits_for_room_ = false;
  std::string failure_;
};

// The keys and rules of all connections to a cluster.
class TlsClient {
 public:
  // Reads the files. An error names the file and the reason.
  static absl::StatusOr<std::shared_ptr<const TlsClient>> Create(const TlsFiles& files);

  // Returns the TLS of a connected descriptor, which must outlive it. The server has to have a
  // certificate for `host`, a name or an address. Returns nullptr if memory is short.
  std::unique_ptr<TlsStream> Connect(int descriptor, const std::string& host) const;

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  explicit TlsClient(SSL_CTX* context) : context_(context) {}

  const std::unique_ptr<SSL_CTX, ContextDeleter> context_;
};

}  // namespace quorate::wire
