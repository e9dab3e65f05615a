// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/wire/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/tls_socket.h"

namespace quorate::wire {
namespace {

// OpenSSL asks the kernel for so many bytes at once: several records.
constexpr size_t kReadAheadBytes = 64 << 10;

std::string Reason() {
  // The last error is the most precise one, unless the system has refused something.
  unsigned long error = ERR_peek_error();
  if (!ERR_SYSTEM_ERROR(error)) error = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(error);
  if (reason != nullptr) return reason;
  // Errors of system calls have no text of their own.
  return ERR_SYSTEM_ERROR(error) ? std::strerror(ERR_GET_REASON(error)) : "unknown reason";
}

absl::Status FileError(const std::string& file, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", what, ": ", Reason(), "; it has to be PEM"));
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TlsClient>> TlsClient::Create(const TlsFiles& files) {
  ERR_clear_error();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return absl::ResourceExhaustedError("OpenSSL: " + Reason());
  std::shared_ptr<const TlsClient> client(new TlsClient(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  if (files.authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, files.authorities.c_str()) != 1) {
    return FileError(files.authorities, "the certificates of authorities cannot be read");
  }
  if (files.certificate.empty()) {
    if (files.key.empty()) return client;
    return absl::InvalidArgumentError("a key needs its certificate: --cert FILE");
  }
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return FileError(files.certificate, "the certificate cannot be read");
  }
  const std::string& key = files.key.empty() ? files.certificate : files.key;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileError(key, "the key of the certificate cannot be read");
  }
  return client;
}

std::unique_ptr<TlsStream> TlsClient::Connect(int descriptor, const std::string& host) const {
  SSL* const ssl = SSL_new(context_.get());
  if (ssl == nullptr) return nullptr;
  std::unique_ptr<TlsStream> stream(new TlsStream(ssl));
  const bool is_checked =
      IsAddress(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1
                      : SSL_set1_host(ssl, host.c_str()) == 1 &&
                            SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  if (!is_checked || !SetTlsSocket(ssl, descriptor)) return nullptr;
  SSL_set_connect_state(ssl);
  return stream;
}

ssize_t TlsStream::Receive(char* to, size_t size) {
  ERR_clear_error();
  may_have_more_ = false;
  size_t total = 0;
  while (total < size) {
    const int wanted = static_cast<int>(std::min<size_t>(size - total, INT_MAX));
    const int result = SSL_read(ssl_.get(), to + total, wanted);
    if (result > 0) {
      total += static_cast<size_t>(result);
    } else if (total > 0) {
      break;  // a failure comes again in the next call
    } else {
      return Fail(result);
    }
  }
  may_have_more_ = total == size;
  return static_cast<ssize_t>(total);
}

ssize_t TlsStream::Send(const char* from, size_t size) {
  ERR_clear_error();
  waits_for_room_ = false;
  size_t total = 0;
  while (total < size) {
    const int wanted = static_cast<int>(std::min<size_t>(size - total, INT_MAX));
    const int result = SSL_write(ssl_.get(), from + total, wanted);
    if (result > 0) {
      total += static_cast<size_t>(result);
      continue;
    }
    const ssize_t failed = Fail(result);
    waits_for_room_ = SSL_want_write(ssl_.get());
    if (failed == 0) {
      // The peer has ended the stream, so that it can take nothing more. 0 would mean that Send can
      // be called again at once.
      failure_ = "TLS: the peer has closed the connection";
      errno = EPROTO;
      return -1;
    }
    return total > 0 && errno == EAGAIN ? static_cast<ssize_t>(total) : failed;
  }
  return static_cast<ssize_t>(total);
}

ssize_t TlsStream::Fail(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return -1;
  }
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  const long verified = SSL_get_verify_result(ssl_.get());
  failure_ =
      verified == X509_V_OK
          ? absl::StrCat("TLS: ", error == SSL_ERROR_SYSCALL && ERR_peek_last_error() == 0
                                      ? std::strerror(errno)
                                      : Reason())
          : absl::StrCat("the certificate is refused: ", X509_verify_cert_error_string(verified));
  errno = EPROTO;
  return -1;
}

}  // namespace quorate::wire
