// SPDX-License-Identifier: Apache-2.0

// The bytes of one connection between servers, with or without TLS. Nothing here blocks: the owner
// waits for the socket (descriptor()) and calls again.
//
// Without TLS, a call is the system call and a test of one pointer. With TLS, OpenSSL works on
// buffers in memory and never on the socket: Receive passes it what the socket had, and Send
// encrypts up to kSealedBytesMax bytes, in records that are as large as TLS allows, and sends them
// with one system call.
//
// Thread-safety and ownership: two threads use a stream that has been opened, one that receives
// (the event loop's) and one that sends (PeerLink: the thread that set `is_sending`). OpenSSL's
// object belongs to neither, because each direction may write into the other's state: received
// bytes can demand an alert or a new key. It is therefore guarded by the stream's mutex_, together
// with the encrypted bytes that wait for the socket. Receive and Send hold that mutex while they
// encrypt or decrypt what one call handles (at most kSealedBytesMax bytes, some ten microseconds
// each 64 KiB), and while they give bytes to the socket, so that records leave in the order in
// which they were made. StartTls and Handshake are called by the event loop's thread before the
// first Receive, and before the first Send of bytes. Everything without TLS needs no lock: the kernel orders calls on sockets.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "rpc/poller/descriptor.h"
#include "rpc/tls/context.h"
#include "rpc/tls/openssl.h"

namespace quorate::rpc {

class PeerStream {
 public:
  // The most bytes that one call of Send encrypts, and so the limit of the encrypted bytes that
  // wait for the socket. A whole batch (rpc/peer/send_queue.h) is smaller.
  static constexpr size_t kSealedBytesMax = 192u << 10;
  // The most parts of one call of Send.
  static constexpr size_t kPartsMax = 4;

  // How a call ended.
  enum class Progress : uint8_t {
    kDone,
    kBlocked,  // again when the socket is ready: to be read, or if has_unsent(), to be written
    kEnded,    // the other end has closed the connection
    kFailed,   // Failure() says why; nothing else can be done with the stream
  };
  struct Transfer {
    Progress progress = Progress::kDone;
    size_t bytes = 0;  // that were transferred, also if the call is blocked
  };

  // The socket does not block.
  explicit PeerStream(Descriptor socket) : socket_(std::move(socket)) {}
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;

  int descriptor() const { return socket_.number(); }
  bool has_tls() const { return tls_ != nullptr; }

  // Begins TLS with a new object of a tls::Context, which may be nullptr if memory is short; the
  // handshake then fails. REQUIRES: nothing was received or sent.
  void StartTls(tls::Context::SslPtr ssl);
  // Continues the handshake with what the socket has. Fails with TLS 1.2 if the other end lacks the
  // extended master secret, because ChannelBinding needs it. REQUIRES: StartTls was called.
  Progress Handshake();
  // Returns the certificate of the other end, which is valid; nullptr if there is none.
  tls::CertificatePtr PeerCertificate() const;
  // Returns bytes that only the two ends of this TLS connection know (RFC 5705); empty without TLS.
  std::string ChannelBinding() const;

  // Receives up to space.size() bytes. Returns kDone if there were any.
  Transfer Receive(std::span<char> space);
  // Lets the following calls of Receive decrypt much at once. Until then each decrypts little, so
  // that its time is bounded whatever the other end sends. Called when the other end is known. Has
  // no effect without TLS.
  void ExpectBulk();
  // Returns whether received bytes wait in this object, so that Receive has to be called again
  // without waiting for the socket.
  bool has_received() const { return tls_ != nullptr && HasReceived(); }
  // Sends the beginning of `parts`, as much as is possible now. Bytes that are encrypted count as
  // sent; while has_unsent(), the next Send, maybe of nothing, goes on with them. Before the
  // handshake ends, only a Send of nothing is allowed.
  Transfer Send(std::span<const std::string_view> parts);
  // Called by the thread that sends, or before the stream has such a thread.
  bool has_unsent() const { return tls_ != nullptr && HasUnsent(); }

  // Returns why the last call of this thread returned kFailed. REQUIRES: no other call since.
  std::string Failure() const;

  // Ends the connection for both threads; the descriptor stays open until the object is destroyed,
  // because another thread may be about to send.
  void Shutdown();
  // Ends what this end sends, after what was sent.
  void ShutdownSending();
  // Closes the descriptor. REQUIRES: one thread alone uses the stream.
  void Close() { socket_.Close(); }

 private:
  struct Tls;
  struct TlsDeleter {
    void operator()(Tls* tls) const;
  };

  bool HasReceived() const;
  bool HasUnsent() const;
  Transfer ReceiveTls(std::span<char> space);
  Transfer SendTls(std::span<const std::string_view> parts);

  Descriptor socket_;
  std::unique_ptr<Tls, TlsDeleter> tls_;  // null: no TLS
};

}  // namespace quorate::rpc
