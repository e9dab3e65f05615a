// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/server_certificates.h"

#include <grpc/grpc_security.h>
#include <openssl/pem.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/thread.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/stores.h"

namespace quorate::rpc {
namespace {

constexpr auto kPeriod = std::chrono::seconds(2);

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

absl::Status NotWritable(const std::string& location) {
  return absl::InvalidArgumentError(
      absl::StrCat(location, ": OpenSSL cannot write it as PEM (", tls::LatestReason(),
                   "); make a new key and certificate, RSA with 2048 bits or more"));
}

absl::StatusOr<std::string> KeyPem(const tls::StoreOptions& options, EVP_PKEY* key) {
  const tls::ErrorScope errors;
  // Memory of this kind is cleared before it is freed.
  const tls::BioPtr bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return NotWritable(options.location);
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> CertificatesPem(const tls::StoreOptions& options,
                                            const std::vector<X509*>& certificates) {
  const tls::ErrorScope errors;
  const tls::BioPtr bio(BIO_new(BIO_s_mem()));
  for (X509* certificate : certificates) {
    if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
      return NotWritable(options.location);
    }
  }
  return TextOf(bio.get());
}

grpc_ssl_client_certificate_request_type RequestOf(tls::ClientAuth auth) {
  switch (auth) {
    case tls::ClientAuth::kNone:
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case tls::ClientAuth::kWant:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case tls::ClientAuth::kNeed:
      break;
  }
  return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

tls::Options GrpcTlsOptions(const Config& config) {
  ASSERT(config.grpc_tls);
  tls::Options options;
  options.key_store = {config.ssl_key_store, config.ssl_key_store_password,
                       config.ssl_key_store_password_file, config.ssl_key_store_type};
  options.trust_store = {config.ssl_trust_store, config.ssl_trust_store_password,
                         config.ssl_trust_store_password_file, config.ssl_trust_store_type};
  options.client_auth = config.grpc_tls_client_auth == "none"   ? tls::ClientAuth::kNone
                        : config.grpc_tls_client_auth == "want" ? tls::ClientAuth::kWant
                                                                : tls::ClientAuth::kNeed;
  return options;
}

// Credentials that fetch the key and the certificates at each handshake, if they are new. The public
// C++ interface of gRPC has no such ones for a key that is not in a file of its own.
class ServerCertificates::Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(ServerCertificates* certificates)
      : certificates_(certificates),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                RequestOf(certificates->options_.client_auth), &Credentials::Fetch, this))) {}
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  // Calls are not authenticated here, but where they are served.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* object, grpc_ssl_server_certificate_config** config) {
    auto* self = static_cast<Credentials*>(object);
    const std::shared_ptr<const Pems> pems = self->certificates_->pems();
    if (self->version_.exchange(pems->version) == pems->version) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const grpc_ssl_pem_key_cert_pair pair{pems->key.c_str(), pems->chain.c_str()};
    *config = grpc_ssl_server_certificate_config_create(pems->authorities.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  ServerCertificates* const certificates_;
  std::atomic<uint64_t> version_{0};  // of what gRPC has
  grpc_server_credentials* const credentials_;
};

absl::StatusOr<std::shared_ptr<const ServerCertificates::Pems>> ServerCertificates::Read(
    const tls::Options& options, uint64_t version) {
  // Finds what OpenSSL will refuse, whose reason gRPC does not tell.
  const auto context = tls::Context::Create(options);
  if (!context.ok()) return context.status();
  for (const std::string& warning : (*context)->warnings()) spdlog::warn("TLS: {}", warning);
  auto pems = std::make_shared<Pems>();
  pems->version = version;
  const auto keys = tls::ReadKeyStore(options.key_store);
  if (!keys.ok()) return keys.status();
  auto key = KeyPem(options.key_store, keys->key.get());
  if (!key.ok()) return key.status();
  pems->key = *std::move(key);
  std::vector<X509*> chain = {keys->certificate.get()};
  for (const tls::CertificatePtr& certificate : keys->chain) chain.push_back(certificate.get());
  auto chain_pem = CertificatesPem(options.key_store, chain);
  if (!chain_pem.ok()) return chain_pem.status();
  pems->chain = *std::move(chain_pem);
  if (options.client_auth == tls::ClientAuth::kNone) {
    // gRPC ends the process without any, and uses none of them if it asks for no certificates.
    pems->authorities = pems->chain;
    return pems;
  }
  const auto trusted = tls::ReadTrustStore(options.trust_store);
  if (!trusted.ok()) return trusted.status();
  std::vector<X509*> authorities;
  for (const tls::CertificatePtr& one : trusted->certificates) authorities.push_back(one.get());
  auto authorities_pem = CertificatesPem(options.trust_store, authorities);
  if (!authorities_pem.ok()) return authorities_pem.status();
  pems->authorities = *std::move(authorities_pem);
  return pems;
}

absl::StatusOr<std::unique_ptr<ServerCertificates>> ServerCertificates::Create(
    const tls::Options& options, bool reloads) {
  // Taken before the files are read, so that a change meanwhile is found later.
  std::vector<FileStamp> stamps = tls::Stamps(options);
  auto pems = Read(options, 1);
  if (!pems.ok()) return pems.status();
  std::unique_ptr<ServerCertificates> certificates(
      new ServerCertificates(options, std::move(stamps), *std::move(pems)));
  if (reloads) {
    certificates->thread_ =
        StartThread("grpc-tls-reload", [object = certificates.get()] { object->Run(); });
  }
  return certificates;
}

ServerCertificates::ServerCertificates(const tls::Options& options, std::vector<FileStamp> stamps,
                                       std::shared_ptr<const Pems> pems)
    : options_(options), stamps_(std::move(stamps)), pems_(std::move(pems)) {}

ServerCertificates::~ServerCertificates() {
  {
    MutexLock lock(&mutex_);
    stops_ = true;
  }
  stopping_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<grpc::ServerCredentials> ServerCertificates::NewCredentials() {
  return std::make_shared<Credentials>(this);
}

std::shared_ptr<const ServerCertificates::Pems> ServerCertificates::pems() const {
  MutexLock lock(&mutex_);
  return pems_;
}

bool ServerCertificates::Refresh() {
  std::vector<FileStamp> stamps = tls::Stamps(options_);
  // The reason why files could not be used may end without a change of theirs, for example if this
  // process was not yet allowed to read them.
  const bool has_changed = stamps != stamps_;
  if (!has_changed && problem_.ok()) return false;
  stamps_ = std::move(stamps);
  auto pems = Read(options_, this->pems()->version + 1);
  const bool is_known = pems.status() == problem_;
  problem_ = pems.status();
  if (!pems.ok()) {
    if (is_known && !has_changed) return false;
    spdlog::error(
        "the changed stores of TLS cannot be used for gRPC, and new connections get the "
        "certificate from before: {}",
        std::string(pems.status().message()));
    return false;
  }
  spdlog::info("the stores of TLS have changed: new connections of gRPC use them");
  MutexLock lock(&mutex_);
  pems_ = *std::move(pems);
  return true;
}

void ServerCertificates::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto deadline = std::chrono::steady_clock::now() + kPeriod;
      while (!stops_ && stopping_.WaitUntil(&mutex_, deadline)) {
      }
      if (stops_) return;
    }
    Refresh();
  }
}

}  // namespace quorate::rpc
