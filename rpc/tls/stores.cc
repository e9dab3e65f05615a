// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/stores.h"

#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/tls/store_content.h"

namespace quorate::rpc::tls {
namespace {

// A server sends at most this many certificates of CAs.
constexpr size_t kChainLengthMax = 16;

absl::Status CannotRead(const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot read ", path, ": ", strerror(error),
                                        "; check the name and who may read the file");
  return error == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t bytes_max) {
  // O_NONBLOCK: the opening of a named pipe would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CannotRead(path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat facts {};
  if (fstat(file, &facts) != 0) return CannotRead(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is not a regular file; set the name of a file"));
  }
  std::string bytes;
  char piece[16384];
  while (true) {
    const ssize_t size = read(file, piece, sizeof(piece));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return CannotRead(path, errno);
    if (size == 0) return bytes;
    bytes.append(piece, static_cast<size_t>(size));
    if (bytes.size() > bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": it is larger than ",
                                                     bytes_max,
                                                     " bytes; set the name of another file"));
    }
  }
}

std::string ConvertCommand(std::string_view name, std::string_view type) {
  return absl::StrCat("keytool -importkeystore -srckeystore ", ToAbsl(name), " -srcstoretype ",
                      ToAbsl(type), " -destkeystore ", ToAbsl(name), ".p12 -deststoretype PKCS12");
}

absl::Status NotSupported(std::string_view name, std::string_view type) {
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(name), ": stores of the type ", ToAbsl(type),
                   " are not supported; convert it: ", ConvertCommand(name, type)));
}

absl::Status CheckType(const StoreOptions& options) {
  const std::string type = absl::AsciiStrToUpper(options.type);
  const bool is_bcfks =
      type == "BCFKS" || (type.empty() && absl::EndsWith(options.location, ".bcfks"));
  if (is_bcfks) return NotSupported(options.location, "BCFKS");
  if (type.empty() || type == "JKS" || type == "PEM" || type == "PKCS12") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.location, ": \"", options.type,
                   "\" is no type of a store; set JKS, PEM or PKCS12, or no type"));
}

// Returns whether `bytes` begin as a PKCS12 file does: a sequence whose first element is the
// integer 3.
bool LooksLikePkcs12(std::string_view bytes) {
  if (bytes.size() < 5 || bytes[0] != '\x30') return false;
  const auto length = static_cast<unsigned char>(bytes[1]);
  const size_t at = 2 + (length >= 0x80 ? length - 0x80 : 0);
  return at <= 6 && at <= bytes.size() &&
         bytes.substr(at, 3) == std::string_view("\x02\x01\x03", 3);
}

absl::StatusOr<StoreContent> ReadContent(std::string_view name, std::string_view bytes,
                                         std::string_view password, StoreUse use) {
  const std::string_view magic = bytes.substr(0, 4);
  if (magic == "\xCE\xCE\xCE\xCE") return NotSupported(name, "JCEKS");
  absl::StatusOr<StoreContent> content;
  if (magic == "\xFE\xED\xFE\xED") {
    content = ReadJks(bytes, password, use);
  } else if (LooksLikePkcs12(bytes)) {
    content = ReadPkcs12(bytes, password, use);
  } else if (bytes.find("-----BEGIN ") != std::string_view::npos) {
    content = ReadPem(bytes, password, use);
  } else {
    content = absl::InvalidArgumentError(
        absl::StrCat(bytes.empty() ? "the file is empty" : "it is neither PEM nor PKCS12 nor JKS",
                     "; set a file of one of these types. BCFKS can be converted: ",
                     ConvertCommand(name, "BCFKS")));
  }
  if (content.ok()) return content;
  return absl::Status(content.status().code(),
                      absl::StrCat(ToAbsl(name), ": ", content.status().message()));
}

absl::StatusOr<std::pair<std::string, std::string>> ReadBytesAndPassword(
    const StoreOptions& options) {
  if (absl::Status status = CheckType(options); !status.ok()) return status;
  auto password = PasswordOf(options);
  if (!password.ok()) return password.status();
  auto bytes = ReadSmallFile(options.location, kStoreBytesMax);
  if (!bytes.ok()) return bytes.status();
  return std::pair(*std::move(bytes), *std::move(password));
}

// Moves the issuer of `certificate`, its issuer and so on from `others` to the result.
std::vector<CertificatePtr> TakeChain(X509* certificate, std::vector<CertificatePtr>* others) {
  std::vector<CertificatePtr> chain;
  while (chain.size() < kChainLengthMax &&
         X509_check_issued(certificate, certificate) != X509_V_OK) {
    const auto issuer = std::find_if(others->begin(), others->end(), [&](const auto& other) {
      return X509_check_issued(other.get(), certificate) == X509_V_OK;
    });
    if (issuer == others->end()) break;
    chain.push_back(std::move(*issuer));
    others->erase(issuer);
    certificate = chain.back().get();
  }
  return chain;
}

}  // namespace

absl::StatusOr<std::string> PasswordOf(const StoreOptions& options) {
  if (options.password_file.empty()) return options.password;
  auto password = ReadSmallFile(options.password_file, kPasswordBytesMax);
  if (password.ok() && absl::EndsWith(*password, "\n")) password->pop_back();
  return password;
}

absl::StatusOr<KeyStore> ParseKeyStore(std::string_view name, std::string_view bytes,
                                       std::string_view password) {
  const ErrorScope errors;
  auto content = ReadContent(name, bytes, password, StoreUse::kKey);
  if (!content.ok()) return content.status();
  if (content->key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToAbsl(name), ": it has no private key; set a key store, which has the server's key"));
  }
  auto& certificates = content->key_certificates;
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(name), ": it has no certificate; add the certificate of its key"));
  }
  const auto own = std::find_if(certificates.begin(), certificates.end(), [&](const auto& each) {
    return X509_check_private_key(each.get(), content->key.get()) == 1;
  });
  if (own == certificates.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(name),
                     ": none of its certificates belongs to its first private key; put the key and "
                     "its certificate into the file"));
  }
  KeyStore store;
  store.key = std::move(content->key);
  store.certificate = std::move(*own);
  certificates.erase(own);
  store.chain = TakeChain(store.certificate.get(), &certificates);
  return store;
}

absl::StatusOr<TrustStore> ParseTrustStore(std::string_view name, std::string_view bytes,
                                           std::string_view password) {
  const ErrorScope errors;
  auto content = ReadContent(name, bytes, password, StoreUse::kTrust);
  if (!content.ok()) return content.status();
  if (content->trusted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(name),
                     ": it has no certificate that is trusted; import the CA's certificate (for "
                     "PKCS12 and JKS: keytool -importcert -file CA.pem -keystore ",
                     ToAbsl(name), ")"));
  }
  return TrustStore{std::move(content->trusted), std::move(content->revocation_lists)};
}

absl::StatusOr<KeyStore> ReadKeyStore(const StoreOptions& options) {
  auto read = ReadBytesAndPassword(options);
  if (!read.ok()) return read.status();
  return ParseKeyStore(options.location, read->first, read->second);
}

absl::StatusOr<TrustStore> ReadTrustStore(const StoreOptions& options) {
  auto read = ReadBytesAndPassword(options);
  if (!read.ok()) return read.status();
  return ParseTrustStore(options.location, read->first, read->second);
}

absl::StatusOr<std::vector<CrlPtr>> ReadRevocationLists(const std::string& path) {
  const ErrorScope errors;
  auto bytes = ReadSmallFile(path, kStoreBytesMax);
  if (!bytes.ok()) return bytes.status();
  std::vector<CrlPtr> lists;
  const auto* at = reinterpret_cast<const unsigned char*>(bytes->data());
  if (CrlPtr list(d2i_X509_CRL(nullptr, &at, static_cast<long>(bytes->size()))); list != nullptr) {
    lists.push_back(std::move(list));
    return lists;
  }
  auto content = ReadPem(*bytes, "", StoreUse::kTrust);
  if (content.ok() && content->revocation_lists.empty()) {
    content = absl::InvalidArgumentError(
        "it has no certificate revocation list, in PEM or DER; fetch the list of the CA");
  }
  if (content.ok()) return std::move(content->revocation_lists);
  return absl::Status(content.status().code(),
                      absl::StrCat(path, ": ", content.status().message()));
}

}  // namespace quorate::rpc::tls
