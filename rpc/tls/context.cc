// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/context.h"

#include <openssl/err.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/tls/ciphers.h"
#include "rpc/tls/names.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/revocation.h"
#include "rpc/tls/stores.h"

namespace quorate::rpc::tls {
namespace {

// The names of the CAs go into a message of at most 64 KiB. Without names a client sends the
// certificate that it has.
constexpr size_t kCaNamesBytesMax = 32u << 10;
// The certificates between a client's and the one that is trusted.
constexpr int kVerifyDepthMax = 10;
// The groups of key exchanges, each of which takes well below a millisecond. OpenSSL's default list
// has groups that take a hundred times as long, and the other end chooses.
constexpr char kGroups[] = "X25519:P-256:P-384:P-521";

absl::Status Refused(const StoreOptions& store, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      store.location, ": OpenSSL refuses the ", absl::string_view(what.data(), what.size()), " (",
      LatestReason(), "); make a new key and certificate, RSA with 2048 bits or more"));
}

absl::Status UseKeyStore(const Options& options, SSL_CTX* context,
                         std::vector<std::string>* warnings) {
  if (options.key_store.location.empty()) {
    return absl::InvalidArgumentError(
        "TLS needs a key store; set keyStore.location to the file with the server's key");
  }
  const auto store = ReadKeyStore(options.key_store);
  if (!store.ok()) return store.status();
  if (SSL_CTX_use_certificate(context, store->certificate.get()) != 1) {
    return Refused(options.key_store, "certificate");
  }
  if (SSL_CTX_use_PrivateKey(context, store->key.get()) != 1) {
    return Refused(options.key_store, "private key");
  }
  for (const CertificatePtr& certificate : store->chain) {
    if (SSL_CTX_add1_chain_cert(context, certificate.get()) != 1) {
      return Refused(options.key_store, "certificate of a CA");
    }
  }
  const X509* own = store->certificate.get();
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    warnings->push_back(absl::StrCat(options.key_store.location,
                                     ": the server's certificate has expired, and clients may "
                                     "refuse it; renew it"));
  } else if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
    warnings->push_back(absl::StrCat(options.key_store.location,
                                     ": the server's certificate is not valid yet, and clients may "
                                     "refuse it; check this machine's clock"));
  }
  return absl::OkStatus();
}

void SetCaNames(const std::vector<CertificatePtr>& certificates, SSL_CTX* context) {
  size_t bytes = 0;
  for (const CertificatePtr& certificate : certificates) {
    const int size = i2d_X509_NAME(X509_get_subject_name(certificate.get()), nullptr);
    bytes += size > 0 ? static_cast<size_t>(size) + 2 : 0;
  }
  if (bytes > kCaNamesBytesMax) return;
  for (const CertificatePtr& certificate : certificates) {
    SSL_CTX_add_client_CA(context, certificate.get());
  }
}

// Called for each certificate of a client's chain, and each error of it. Excuses the lack of a
// current revocation list for the certificate that the trust store has, as Java does: it is trusted
// as it is, and its issuer may be unknown.
int OnVerify(int is_valid, X509_STORE_CTX* verification) {
  if (is_valid == 1) return 1;
  const int error = X509_STORE_CTX_get_error(verification);
  const bool is_about_lists =
      error == X509_V_ERR_UNABLE_TO_GET_CRL || error == X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER ||
      error == X509_V_ERR_CRL_HAS_EXPIRED || error == X509_V_ERR_CRL_NOT_YET_VALID;
  const int last = sk_X509_num(X509_STORE_CTX_get0_chain(verification)) - 1;
  if (!is_about_lists || X509_STORE_CTX_get_error_depth(verification) != last) return 0;
  X509_STORE_CTX_set_error(verification, X509_V_OK);
  return 1;
}

// Adds the lists of the trust store and of the files that certificates name. REQUIRES: the key store
// is in use.
absl::Status UseRevocationLists(const Options& options, TrustStore store, SSL_CTX* context,
                                ListFiles* files) {
  std::vector<const X509*> certificates = {SSL_CTX_get0_certificate(context)};
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  for (int i = 0; i < sk_X509_num(chain); ++i) certificates.push_back(sk_X509_value(chain, i));
  for (const CertificatePtr& certificate : store.certificates) {
    certificates.push_back(certificate.get());
  }
  return AddRevocationLists(options.trust_store, std::move(store.revocation_lists), certificates,
                            SSL_CTX_get_cert_store(context), files);
}

absl::Status UseTrustStore(const Options& options, SSL_CTX* context,
                           std::vector<std::string>* warnings, ListFiles* files) {
  const bool is_asked_for = options.client_auth != ClientAuth::kNone;
  if (!is_asked_for && !options.connects) return absl::OkStatus();
  const bool is_needed = options.client_auth == ClientAuth::kNeed;
  if (is_asked_for) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (is_needed ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       OnVerify);
  }
  SSL_CTX_set_verify_depth(context, kVerifyDepthMax);
  if (options.trust_store.location.empty()) {
    if (options.connects) {
      return absl::InvalidArgumentError(
          "no certificate of a server can be checked without a trust store; set "
          "trustStore.location to the file with the CAs of the servers");
    }
    if (is_needed) {
      return absl::InvalidArgumentError(
          "no certificate of a client can be checked without a trust store; set "
          "trustStore.location to the file with the CAs of the clients, or clientAuth=none");
    }
    warnings->push_back(
        "there is no trust store: clients with a certificate are refused; set trustStore.location");
    return absl::OkStatus();
  }
  auto store = ReadTrustStore(options.trust_store);
  if (!store.ok()) return store.status();
  X509_STORE* trusted = SSL_CTX_get_cert_store(context);
  for (const CertificatePtr& certificate : store->certificates) {
    if (X509_STORE_add_cert(trusted, certificate.get()) != 1) {
      return Refused(options.trust_store, "certificate of a CA");
    }
  }
  // As in Java, each certificate of the store is trusted, not only those that sign themselves.
  X509_STORE_set_flags(trusted, X509_V_FLAG_PARTIAL_CHAIN);
  SetCaNames(store->certificates, context);
  if (!options.check_revocation) return absl::OkStatus();
  return UseRevocationLists(options, *std::move(store), context, files);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Context>> Context::Create(const Options& options) {
  const ErrorScope errors;
  SSL_CTX* made = SSL_CTX_new(options.connects ? TLS_method() : TLS_server_method());
  if (made == nullptr || SSL_CTX_set1_groups_list(made, kGroups) != 1) {
    SSL_CTX_free(made);
    return absl::ResourceExhaustedError(
        absl::StrCat("OpenSSL cannot be used (", LatestReason(), "); check its installation"));
  }
  const std::shared_ptr<Context> context(new Context(made, options.connects));
  SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                             SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(made, 0);
  SSL_CTX_set_dh_auto(made, 1);
  absl::Status status = SetProtocolsAndCiphers(options, made, &context->warnings_);
  if (status.ok()) status = UseKeyStore(options, made, &context->warnings_);
  ListFiles files;
  if (status.ok()) status = UseTrustStore(options, made, &context->warnings_, &files);
  if (!status.ok()) return status;
  context->list_stamps_ = std::move(files.stamps);
  std::move(files.warnings.begin(), files.warnings.end(), std::back_inserter(context->warnings_));
  return context;
}

Context::~Context() { SSL_CTX_free(context_); }

Context::SslPtr Context::NewServer() const {
  SslPtr ssl(SSL_new(context_));
  if (ssl == nullptr) {
    ERR_clear_error();
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return ssl;
}

Context::SslPtr Context::NewClient(const std::string& host) const {
  ASSERT(connects_);
  SslPtr ssl(SSL_new(context_));
  // TLS names the host of a server by a DNS name only.
  const bool is_named = ssl == nullptr || IsAddress(host) ||
                        SSL_set_tlsext_host_name(ssl.get(), DnsName(host).c_str()) == 1;
  if (ssl == nullptr || !is_named) {
    ERR_clear_error();
    return nullptr;
  }
  SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, OnVerify);
  SSL_set_connect_state(ssl.get());
  return ssl;
}

std::string FailureOf(const SSL* ssl) {
  const unsigned long error = ERR_peek_error();
  const char* reason = ERR_reason_error_string(error);
  const long verified = SSL_get_verify_result(ssl);
  const bool is_server = SSL_is_server(ssl) == 1;
  // OpenSSL adds the numbers of alerts to an offset.
  const int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
  const bool is_alert = ERR_GET_LIB(error) == ERR_LIB_SSL && alert >= 0 && alert <= UINT8_MAX;
  std::string text;
  if (is_alert && reason != nullptr) {
    text = absl::StrCat("the other end refuses the connection: ", reason);
  } else if (verified != X509_V_OK) {
    text = absl::StrCat("the ", is_server ? "client" : "server",
                        "'s certificate is refused: ", X509_verify_cert_error_string(verified));
    if (verified == X509_V_ERR_INVALID_PURPOSE) {
      absl::StrAppend(&text, " (its extendedKeyUsage lacks ",
                      is_server ? "clientAuth" : "serverAuth", ")");
    }
  } else if (error == 0) {
    text = "the connection was closed";
  } else {
    text = reason != nullptr ? reason : absl::StrCat("OpenSSL error ", error);
  }
  ERR_clear_error();
  return text;
}

std::vector<FileStamp> Stamps(const Options& options) {
  std::vector<FileStamp> stamps;
  const auto add = [&stamps](const std::string& path) {
    if (!path.empty()) stamps.push_back(StampOf(path));
  };
  add(options.key_store.location);
  add(options.key_store.password_file);
  if (options.client_auth == ClientAuth::kNone && !options.connects) return stamps;
  add(options.trust_store.location);
  add(options.trust_store.password_file);
  if (options.check_revocation && !options.trust_store.location.empty()) {
    add(RevocationFile(options.trust_store));
  }
  return stamps;
}

}  // namespace quorate::rpc::tls
