// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/peer/peer_socket.h"

namespace quorate::rpc {
namespace {

// The most bytes that one call passes to OpenSSL. They may all be messages of TLS, such as new keys,
// which cost far more time for each byte than data: 64 KiB of them take tens of milliseconds. So
// little is passed at once while the other end may be anybody who has a certificate.
constexpr size_t kReceiveBytesBeforeBulk = 2u << 10;
constexpr size_t kReceiveBytes = 64u << 10;
// A connection whose other end takes nothing, but demands answers of TLS, is ended at this many
// bytes.
constexpr size_t kUnsentBytesMax = 1u << 20;
// New keys are made after this many records. Ciphers of TLS are safe for some ten million, which a
// connection between servers can send within hours.
constexpr uint64_t kRecordsOfOneKey = 1u << 11;
// TLS 1.2 cannot make new keys, so that a connection ends after this many records.
constexpr uint64_t kRecordsOfConnectionMax = 8u << 20;
constexpr char kBindingLabel[] = "EXPORTER-Quorate-member";
constexpr size_t kBindingBytes = 32;

bool IsTemporary(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

struct PeerStream::Tls {
  // Passes bytes of the socket to OpenSSL, at most one buffer of them.
  Progress Feed(int socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Takes over what OpenSSL has encrypted, and gives it to the socket.
  Progress Flush(int socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns whether no other connection can have the same ChannelBinding. With TLS 1.2 and no
  // extended master secret, one end can choose the secrets of two connections to be the same.
  // REQUIRES: the handshake is done.
  bool HasUniqueBinding() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return SSL_version(ssl.get()) > TLS1_2_VERSION || SSL_get_extms_support(ssl.get()) == 1;
  }
  // Encrypts `plain`, as one record, and empties it. Returns false if that failed.
  bool Seal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  Mutex mutex;
  // OpenSSL's object, and the two buffers that it reads from and writes to, which it owns.
  tls::Context::SslPtr ssl ABSL_GUARDED_BY(mutex);
  BIO* received ABSL_GUARDED_BY(mutex) = nullptr;
  BIO* sealed ABSL_GUARDED_BY(mutex) = nullptr;
  std::vector<char> buffer ABSL_GUARDED_BY(mutex);  // for bytes on their way from the socket
  std::string plain ABSL_GUARDED_BY(mutex);  // at most one record, while its parts are gathered
  // Encrypted bytes; those before `unsent_at` have been given to the socket.
  std::string unsent ABSL_GUARDED_BY(mutex);
  size_t unsent_at ABSL_GUARDED_BY(mutex) = 0;
  uint64_t records ABSL_GUARDED_BY(mutex) = 0;  // that were encrypted
  std::string failure ABSL_GUARDED_BY(mutex);
};

void PeerStream::TlsDeleter::operator()(Tls* tls) const { delete tls; }

// --- The handshake -------------------------------------------------------------------------------

void PeerStream::StartTls(tls::Context::SslPtr ssl) {
  ASSERT(tls_ == nullptr);
  tls_.reset(new Tls);
  Tls& tls = *tls_;
  MutexLock lock(&tls.mutex);
  tls.received = BIO_new(BIO_s_mem());
  tls.sealed = BIO_new(BIO_s_mem());
  if (ssl == nullptr || tls.received == nullptr || tls.sealed == nullptr) {
    BIO_free(tls.received);
    BIO_free(tls.sealed);
    ERR_clear_error();
    return;
  }
  BIO_set_mem_eof_return(tls.received, -1);  // an empty buffer is not the end
  SSL_set_bio(ssl.get(), tls.received, tls.sealed);
  tls.ssl = std::move(ssl);
  tls.buffer.resize(kReceiveBytesBeforeBulk);
}

PeerStream::Progress PeerStream::Handshake() {
  Tls& tls = *tls_;
  MutexLock lock(&tls.mutex);
  if (tls.ssl == nullptr) {
    tls.failure = "there is no memory for TLS";
    return Progress::kFailed;
  }
  for (bool is_fed = false;; is_fed = true) {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls.ssl.get());
    const int error = SSL_get_error(tls.ssl.get(), result);
    if (result != 1 && error != SSL_ERROR_WANT_READ) {
      tls.failure = tls::FailureOf(tls.ssl.get());
      tls.Flush(socket_.number());  // an alert says why, if the socket takes it
      return Progress::kFailed;
    }
    const Progress flushed = tls.Flush(socket_.number());
    if (flushed == Progress::kFailed) return flushed;
    if (result == 1) {
      if (tls.HasUniqueBinding()) return Progress::kDone;
      tls.failure =
          "the other end uses TLS 1.2 without the extended master secret (RFC 7627), so that a man "
          "in the middle could pass on what proves who it is; use TLS 1.3";
      return Progress::kFailed;
    }
    if (is_fed) return Progress::kBlocked;
    if (const Progress fed = tls.Feed(socket_.number()); fed != Progress::kDone) return fed;
  }
}

tls::CertificatePtr PeerStream::PeerCertificate() const {
  if (tls_ == nullptr) return nullptr;
  MutexLock lock(&tls_->mutex);
  return tls::CertificatePtr(SSL_get1_peer_certificate(tls_->ssl.get()));
}

std::string PeerStream::ChannelBinding() const {
  if (tls_ == nullptr) return "";
  MutexLock lock(&tls_->mutex);
  std::string binding(kBindingBytes, '\0');
  const bool is_made = SSL_export_keying_material(
                           tls_->ssl.get(), reinterpret_cast<unsigned char*>(binding.data()),
                           binding.size(), kBindingLabel, sizeof(kBindingLabel) - 1, nullptr, 0,
                           /*use_context=*/0) == 1;
  ASSERT(is_made, "the handshake is done");
  return binding;
}

// --- Receiving -----------------------------------------------------------------------------------

PeerStream::Transfer PeerStream::Receive(std::span<char> space) {
  if (tls_ != nullptr) return ReceiveTls(space);
  const ssize_t received = ::recv(socket_.number(), space.data(), space.size(), MSG_DONTWAIT);
  if (received > 0) return {Progress::kDone, static_cast<size_t>(received)};
  if (received == 0) return {Progress::kEnded};
  return {IsTemporary(errno) ? Progress::kBlocked : Progress::kFailed};
}

PeerStream::Transfer PeerStream::ReceiveTls(std::span<char> space) {
  Tls& tls = *tls_;
  MutexLock lock(&tls.mutex);
  for (bool is_fed = false;; is_fed = true) {
    size_t bytes = 0;
    int error = SSL_ERROR_NONE;
    while (bytes < space.size() && error == SSL_ERROR_NONE) {
      ERR_clear_error();
      size_t count = 0;
      const int result =
          SSL_read_ex(tls.ssl.get(), space.data() + bytes, space.size() - bytes, &count);
      bytes += count;
      if (result != 1) error = SSL_get_error(tls.ssl.get(), result);
    }
    if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN) {
      tls.failure = tls::FailureOf(tls.ssl.get());
      tls.Flush(socket_.number());
      return {Progress::kFailed};
    }
    // OpenSSL may have answered, for example with new keys.
    if (tls.Flush(socket_.number()) == Progress::kFailed) return {Progress::kFailed};
    if (bytes > 0) return {Progress::kDone, bytes};
    if (error == SSL_ERROR_ZERO_RETURN) return {Progress::kEnded};
    if (is_fed) return {Progress::kBlocked};
    if (const Progress fed = tls.Feed(socket_.number()); fed != Progress::kDone) return {fed};
  }
}

void PeerStream::ExpectBulk() {
  if (tls_ == nullptr) return;
  MutexLock lock(&tls_->mutex);
  tls_->buffer.resize(kReceiveBytes);
}

bool PeerStream::HasReceived() const {
  MutexLock lock(&tls_->mutex);
  return BIO_ctrl_pending(tls_->received) > 0 || SSL_pending(tls_->ssl.get()) > 0;
}

PeerStream::Progress PeerStream::Tls::Feed(int socket) {
  const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count == 0) return Progress::kEnded;
  if (count < 0) {
    if (IsTemporary(errno)) return Progress::kBlocked;
    failure = LastError().message();
    return Progress::kFailed;
  }
  if (BIO_write(received, buffer.data(), static_cast<int>(count)) == count) {
    return Progress::kDone;
  }
  ERR_clear_error();
  failure = "there is no memory for TLS";
  return Progress::kFailed;
}

// --- Sending -------------------------------------------------------------------------------------

PeerStream::Transfer PeerStream::Send(std::span<const std::string_view> parts) {
  if (tls_ != nullptr) return SendTls(parts);
  iovec vectors[kPartsMax];
  size_t count = 0;
  ASSERT(parts.size() <= kPartsMax);
  for (std::string_view part : parts) {
    vectors[count++] = {const_cast<char*>(part.data()), part.size()};
  }
  msghdr message{};
  message.msg_iov = vectors;
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {Progress::kDone, static_cast<size_t>(sent)};
    if (errno == EAGAIN) return {Progress::kBlocked};
    if (errno != EINTR) return {Progress::kFailed};
  }
}

PeerStream::Transfer PeerStream::SendTls(std::span<const std::string_view> parts) {
  Tls& tls = *tls_;
  MutexLock lock(&tls.mutex);
  if (const Progress flushed = tls.Flush(socket_.number()); flushed != Progress::kDone)
    return {flushed};
  size_t taken = 0;
  for (std::string_view part : parts) {
    part = part.substr(0, kSealedBytesMax - taken);
    taken += part.size();
    while (!part.empty()) {
      const std::string_view piece = part.substr(0, SSL3_RT_MAX_PLAIN_LENGTH - tls.plain.size());
      tls.plain += piece;
      part.remove_prefix(piece.size());
      const bool is_full = tls.plain.size() == SSL3_RT_MAX_PLAIN_LENGTH;
      if (is_full && !tls.Seal()) return {Progress::kFailed};
    }
  }
  if (!tls.plain.empty() && !tls.Seal()) return {Progress::kFailed};
  return {tls.Flush(socket_.number()), taken};
}

bool PeerStream::Tls::Seal() {
  ERR_clear_error();
  ++records;
  if (SSL_version(ssl.get()) <= TLS1_2_VERSION) {
    if (records > kRecordsOfConnectionMax) {
      failure =
          "the keys of TLS 1.2 have been used for too many records; connect again for new ones";
      return false;
    }
  } else if (records % kRecordsOfOneKey == 0) {
    SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  size_t count = 0;
  if (SSL_write_ex(ssl.get(), plain.data(), plain.size(), &count) == 1 && count == plain.size()) {
    plain.clear();
    return true;
  }
  failure = tls::FailureOf(ssl.get());
  return false;
}

bool PeerStream::HasUnsent() const {
  MutexLock lock(&tls_->mutex);
  return tls_->unsent_at < tls_->unsent.size();
}

PeerStream::Progress PeerStream::Tls::Flush(int socket) {
  if (const size_t count = BIO_ctrl_pending(sealed); count > 0) {
    // An other end that takes some bytes, but never all, would otherwise keep all in memory.
    if (unsent_at > kSealedBytesMax) {
      unsent.erase(0, unsent_at);
      unsent_at = 0;
    }
    const size_t before = unsent.size();
    if (before - unsent_at + count > kUnsentBytesMax) {
      failure = "it does not take what is sent";
      return Progress::kFailed;
    }
    unsent.resize(before + count);
    BIO_read(sealed, unsent.data() + before, static_cast<int>(count));
  }
  while (unsent_at < unsent.size()) {
    const ssize_t sent = ::send(socket, unsent.data() + unsent_at, unsent.size() - unsent_at,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      unsent_at += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      return Progress::kBlocked;
    } else if (errno != EINTR) {
      failure = LastError().message();
      return Progress::kFailed;
    }
  }
  unsent.clear();
  unsent_at = 0;
  return Progress::kDone;
}

// --- The end -------------------------------------------------------------------------------------

std::string PeerStream::Failure() const {
  if (tls_ == nullptr) return LastError().message();
  MutexLock lock(&tls_->mutex);
  return tls_->failure;
}

void PeerStream::Shutdown() {
  if (socket_.is_open()) ::shutdown(socket_.number(), SHUT_RDWR);
}

void PeerStream::ShutdownSending() { ::shutdown(socket_.number(), SHUT_WR); }

}  // namespace quorate::rpc
