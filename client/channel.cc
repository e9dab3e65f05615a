// SPDX-License-Identifier: Apache-2.0

#include "client/channel.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quorate::internal {
namespace {

// The authorities that Debian and its relatives trust.
constexpr char kMachineAuthorities[] = "/etc/ssl/certs/ca-certificates.crt";

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;

absl::Status Wrong(absl::string_view what, const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("TLS: the ", what, " ", path, ": ", why));
}

absl::StatusOr<std::string> ReadFile(absl::string_view what, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Wrong(what, path, absl::StrCat("cannot be read: ", strerror(errno)));
  std::string text;
  std::array<char, 4096> part{};
  // The iterators of a stream would throw, for example if the path is that of a directory.
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return Wrong(what, path, absl::StrCat("cannot be read: ", strerror(errno)));
  return text;
}

Bio BioOf(const std::string& text) {
  return Bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX))));
}

Certificate FirstCertificate(const std::string& pem) {
  const Bio bio = BioOf(pem);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

// Asks for no password on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Status ReadOwn(const TlsOptions& options, grpc::SslCredentialsOptions* to) {
  if (options.certificate_file.empty() && options.key_file.empty()) return absl::OkStatus();
  if (options.certificate_file.empty() || options.key_file.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a client's certificate needs its private key, and a key its certificate; name both "
        "files, or neither");
  }
  auto chain = ReadFile("certificate", options.certificate_file);
  if (!chain.ok()) return chain.status();
  auto key_text = ReadFile("private key", options.key_file);
  if (!key_text.ok()) return key_text.status();
  const Certificate certificate = FirstCertificate(*chain);
  if (certificate == nullptr) {
    return Wrong("certificate", options.certificate_file, "has no certificate in PEM");
  }
  const Bio bio = BioOf(*key_text);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong("private key", options.key_file,
                 absl::StrContains(*key_text, "ENCRYPTED")
                     ? "is encrypted; write it without a password (openssl pkey -in FILE -out NEW)"
                     : "has no private key in PEM");
  }
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return Wrong("private key", options.key_file,
                 absl::StrCat("is not that of the certificate ", options.certificate_file));
  }
  to->pem_cert_chain = *std::move(chain);
  to->pem_private_key = *std::move(key_text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChannelFactory> ChannelFactory::Create(const TlsOptions& options) {
  ChannelFactory factory;
  if (!options.enabled) return factory;
  const std::string& ca_file = options.ca_file.empty() ? kMachineAuthorities : options.ca_file;
  constexpr char kWhat[] = "file of certificate authorities";
  grpc::SslCredentialsOptions ssl;
  auto authorities = ReadFile(kWhat, ca_file);
  if (!authorities.ok()) return authorities.status();
  if (FirstCertificate(*authorities) == nullptr) {
    return Wrong(kWhat, ca_file, "has no certificate in PEM");
  }
  ssl.pem_root_certs = *std::move(authorities);
  if (absl::Status s = ReadOwn(options, &ssl); !s.ok()) return s;
  factory.credentials_ = grpc::SslCredentials(ssl);
  factory.server_name_ = options.server_name;
  return factory;
}

std::shared_ptr<grpc::Channel> ChannelFactory::NewChannel(const std::string& address,
                                                          grpc::ChannelArguments arguments) const {
  if (credentials_ == nullptr || absl::StartsWith(address, "unix:")) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!server_name_.empty()) arguments.SetSslTargetNameOverride(server_name_);
  return grpc::CreateCustomChannel(address, credentials_, arguments);
}

}  // namespace quorate::internal
