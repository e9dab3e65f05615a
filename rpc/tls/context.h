// SPDX-License-Identifier: Apache-2.0

// TLS of connections: the keys and rules that they share, and OpenSSL's object of each.
//
// Thread-safety: a Context does not change, and all threads may use it at once. The functions have
// no state but OpenSSL's error queue of the calling thread, which they leave empty.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_stamp.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::tls {

class Context {
 public:
  struct SslDeleter {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  using SslPtr = std::unique_ptr<SSL, SslDeleter>;

  // Reads the stores. An error names the file, the reason and what to do. Logs nothing: the caller
  // logs warnings().
  static absl::StatusOr<std::shared_ptr<const Context>> Create(const Options& options);

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // Returns an object for an accepted connection, in accept state and without a descriptor, or
  // nullptr if memory is short. It may outlive the context.
  // - Its modes are SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER and
  //   SSL_MODE_RELEASE_BUFFERS.
  // - It refuses renegotiation, resumes no session and issues no tickets, so that each connection
  //   shows its certificate.
  // - It reports the end of the stream without a close_notify as SSL_ERROR_ZERO_RETURN, as many
  //   clients send none, and each packet of ZooKeeper has its length.
  // - After a handshake, SSL_get0_peer_certificate is the client's certificate, which is valid, or
  //   nullptr if the client has sent none.
  SslPtr NewServer() const;
  // Returns an object for a connection to `host` that this process opens, in connect state and with
  // the same modes, or nullptr if memory is short. After a handshake, SSL_get0_peer_certificate is
  // the server's certificate, which is from a CA of the trust store. The caller checks the names in
  // it (rpc/tls/names.h) before it sends anything. REQUIRES: Options::connects.
  SslPtr NewClient(const std::string& host) const;

  // Returns the certificate of this process; never nullptr.
  const X509* certificate() const { return SSL_CTX_get0_certificate(context_); }

  // Sentences about settings that have no effect, such as unknown cipher suites, and about
  // certificates that are out of date; for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The stamps of the files with revocation lists that certificates name, each taken before the file
  // was read. Options alone do not name them, so that Stamps() has them not.
  const std::vector<FileStamp>& list_stamps() const { return list_stamps_; }

 private:
  Context(SSL_CTX* context, bool connects) : context_(context), connects_(connects) {}

  SSL_CTX* const context_;  // owned
  const bool connects_;     // Options::connects
  std::vector<std::string> warnings_;
  std::vector<FileStamp> list_stamps_;
};

// Returns why a call on `ssl` has just failed on this thread, for the log, and empties the error
// queue; for a certificate of the other end that was refused, the reason; if the other end refused
// the connection, the reason that it sent.
std::string FailureOf(const SSL* ssl);

// Returns the stamps of the files that these options name. A caller that
// finds them, or those of Context::list_stamps(), changed makes a new Context; it takes the stamps before it calls Create, so that no
// change in between is missed.
std::vector<FileStamp> Stamps(const Options& options);

}  // namespace quorate::rpc::tls
