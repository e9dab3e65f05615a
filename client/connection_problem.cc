// SPDX-License-Identifier: Apache-2.0

#include "client/connection_problem.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/tls_socket.h"

namespace quorate::internal {
namespace {

using Clock = std::chrono::steady_clock;

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Deleter<SSL_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_ = -1;
};

bool WaitFor(int descriptor, short events, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd wait{descriptor, events, 0};
  return left > 0 && poll(&wait, 1, static_cast<int>(left)) == 1;
}

// Returns a connected socket that does not block; -1 if there is none in time.
int ConnectTo(const std::string& host, const std::string& port, Clock::time_point until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int connected = -1;
  for (const addrinfo* one = found; one != nullptr && connected < 0; one = one->ai_next) {
    const int descriptor = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    if (connect(descriptor, one->ai_addr, one->ai_addrlen) == 0 ||
        (errno == EINPROGRESS && WaitFor(descriptor, POLLOUT, until) &&
         getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)) {
      connected = descriptor;
    } else {
      close(descriptor);
    }
  }
  freeaddrinfo(found);
  return connected;
}

bool IsIpAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

std::string TextOf(const ASN1_TIME* time) {
  const Bio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(std::max(size, 0L)));
}

std::string TextOf(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(std::max(size, 0L)));
}

// Returns the names that a certificate is for.
std::string NamesOf(X509* certificate) {
  std::vector<std::string> names;
  auto* found = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(found); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(found, i);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(std::max(ASN1_STRING_length(name->d.dNSName), 0)));
    } else if (name->type == GEN_IPADD) {
      char text[INET6_ADDRSTRLEN] = "";
      const int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
      inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), text, sizeof(text));
      names.emplace_back(text);
    }
  }
  GENERAL_NAMES_free(found);
  if (!names.empty()) return absl::StrJoin(names, ", ");
  return TextOf(X509_get_subject_name(certificate));
}

// One attempt to connect.
class Probe {
 public:
  Probe(const std::string& address, const TlsOptions& options, std::chrono::milliseconds patience)
      : address_(address), options_(options), until_(Clock::now() + patience) {}

  std::string Run() {
    const size_t colon = address_.rfind(':');
    if (colon == std::string::npos || address_.starts_with("unix:")) return "";
    host_ = address_.substr(0, colon);
    if (host_.size() > 2 && host_.front() == '[' && host_.back() == ']') {
      host_ = host_.substr(1, host_.size() - 2);
    }
    const Socket socket(ConnectTo(host_, address_.substr(colon + 1), until_));
    if (socket.get() < 0) return "";
    ERR_clear_error();
    const Context context(SSL_CTX_new(TLS_client_method()));
    const Ssl ssl(context == nullptr ? nullptr : MakeSsl(context.get(), socket.get()));
    std::string problem = ssl == nullptr ? "" : Explain(ssl.get(), socket.get());
    ERR_clear_error();
    return problem;
  }

 private:
  SSL* MakeSsl(SSL_CTX* context, int descriptor) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_cert_cb(context, OnCertificateWanted, this);
    SSL_CTX_set_app_data(context, this);
    if (options_.enabled) {
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER, OnVerify);
      if (options_.ca_file.empty()) {
        SSL_CTX_set_default_verify_paths(context);
      } else {
        SSL_CTX_load_verify_locations(context, options_.ca_file.c_str(), nullptr);
      }
      X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
      if (!options_.certificate_file.empty()) {
        SSL_CTX_use_certificate_chain_file(context, options_.certificate_file.c_str());
        SSL_CTX_use_PrivateKey_file(context, options_.key_file.c_str(), SSL_FILETYPE_PEM);
      }
    }
    SSL* ssl = SSL_new(context);
    if (ssl == nullptr) return nullptr;
    // SIGPIPE would end a program with this library that does not ignore the signal.
    if (!SetTlsSocket(ssl, descriptor)) {
      SSL_free(ssl);
      return nullptr;
    }
    const std::string& name = Name();
    if (options_.enabled && IsIpAddress(name)) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str());
    } else {
      if (options_.enabled) SSL_set1_host(ssl, name.c_str());
      SSL_set_tlsext_host_name(ssl, name.c_str());
    }
    static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    SSL_set_alpn_protos(ssl, kHttp2, sizeof(kHttp2));
    SSL_set_connect_state(ssl);
    return ssl;
  }

  const std::string& Name() const {
    return options_.server_name.empty() ? host_ : options_.server_name;
  }

  static int OnCertificateWanted(SSL*, void* self) {
    static_cast<Probe*>(self)->is_certificate_wanted_ = true;
    return 1;
  }

  // Keeps the first error of the server's chain.
  static int OnVerify(int is_valid, X509_STORE_CTX* verification) {
    if (is_valid == 1) return 1;
    const auto* ssl = static_cast<SSL*>(
        X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<Probe*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    self->verify_error_ = X509_STORE_CTX_get_error(verification);
    X509* certificate = X509_STORE_CTX_get_current_cert(verification);
    if (certificate != nullptr && X509_up_ref(certificate) == 1) {
      self->refused_.reset(certificate);
    }
    return 0;
  }

  enum class Outcome { kDone, kFailed, kClosed, kTimeout };

  template <typename Step>
  Outcome Repeat(SSL* ssl, int descriptor, Step step) {
    for (;;) {
      const int result = step();
      if (result > 0) return Outcome::kDone;
      switch (SSL_get_error(ssl, result)) {
        case SSL_ERROR_WANT_READ:
          if (!WaitFor(descriptor, POLLIN, until_)) return Outcome::kTimeout;
          break;
        case SSL_ERROR_WANT_WRITE:
          if (!WaitFor(descriptor, POLLOUT, until_)) return Outcome::kTimeout;
          break;
        case SSL_ERROR_SSL:
          // This is how OpenSSL 3 reports a connection that ends without a close_notify.
          return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                     ? Outcome::kClosed
                     : Outcome::kFailed;
        default:
          return Outcome::kClosed;
      }
    }
  }

  std::string Explain(SSL* ssl, int descriptor) {
    const Outcome handshake = Repeat(ssl, descriptor, [ssl] { return SSL_do_handshake(ssl); });
    const Certificate server(SSL_get1_peer_certificate(ssl));
    if (!options_.enabled) {
      return server == nullptr
                 ? ""
                 : absl::StrCat(address_, " takes TLS only; use TLS (quorate --tls --ca FILE)");
    }
    if (refused_ != nullptr) return ExplainServer(refused_.get());
    if (handshake == Outcome::kFailed) {
      const int reason = ERR_GET_REASON(ERR_peek_error());
      const bool is_plain = reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
                            reason == SSL_R_PACKET_LENGTH_TOO_LONG;
      return is_plain && server == nullptr ? NoTls() : ExplainOwn();
    }
    if (handshake == Outcome::kClosed) return server == nullptr ? NoTls() : ExplainOwn();
    if (handshake == Outcome::kTimeout) return "";
    // With TLS 1.3 a client learns that its certificate is refused when it reads. A server that has
    // taken the client sends its HTTP/2 settings.
    char byte = 0;
    const Outcome read = Repeat(ssl, descriptor, [&] { return SSL_read(ssl, &byte, 1); });
    return read == Outcome::kFailed || read == Outcome::kClosed ? ExplainOwn() : "";
  }

  std::string NoTls() const {
    return absl::StrCat(address_,
                        " does not take TLS; connect without it (leave --tls out), or set "
                        "grpcTls=true in the server's configuration");
  }

  std::string ExplainServer(X509* certificate) const {
    switch (verify_error_) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        return absl::StrCat("the certificate of ", address_, " or of its authority has expired (",
                            TextOf(X509_get0_notAfter(certificate)), "); renew it");
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return absl::StrCat(
            "the certificate of ", address_, " or of its authority is not valid yet (",
            TextOf(X509_get0_notBefore(certificate)), "); check the clock of this machine");
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return absl::StrCat("the certificate of ", address_, " is not for ", Name(), " but for ",
                            NamesOf(certificate),
                            "; connect to one of these names, or expect one (--server-name)");
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return absl::StrCat("the certificate of ", address_, " is of an authority that is not in ",
                            options_.ca_file.empty() ? "this machine's list" : options_.ca_file,
                            " (", TextOf(X509_get_issuer_name(certificate)),
                            "); name the file of that authority (--ca)");
      default:
        return absl::StrCat("the certificate of ", address_,
                            " is refused: ", X509_verify_cert_error_string(verify_error_));
    }
  }

  std::string ExplainOwn() const {
    if (!is_certificate_wanted_) {
      const char* reason = ERR_reason_error_string(ERR_peek_error());
      return absl::StrCat(address_, " refuses the TLS connection",
                          reason == nullptr ? "" : absl::StrCat(" (", reason, ")"),
                          "; its log says why");
    }
    if (options_.certificate_file.empty()) {
      return absl::StrCat(address_, " needs a client certificate (--cert, --key)");
    }
    const Bio file(BIO_new_file(options_.certificate_file.c_str(), "r"));
    const Certificate own(
        file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
    std::string why = "; its log says why";
    if (own != nullptr && X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0) {
      why = absl::StrCat(": it has expired (", TextOf(X509_get0_notAfter(own.get())), ")");
    } else if (own != nullptr) {
      why = absl::StrCat("; is its authority, ", TextOf(X509_get_issuer_name(own.get())),
                         ", in the server's trust store?");
    }
    return absl::StrCat(address_, " refuses this client's certificate, ", options_.certificate_file,
                        why);
  }

  const std::string address_;
  const TlsOptions options_;
  const Clock::time_point until_;
  std::string host_;
  bool is_certificate_wanted_ = false;
  int verify_error_ = X509_V_OK;
  Certificate refused_;  // the certificate of the server's chain with that error
};

}  // namespace

std::string ConnectionProblem(const std::string& address, const TlsOptions& options,
                              std::chrono::milliseconds patience) {
  return Probe(address, options, patience).Run();
}

}  // namespace quorate::internal
