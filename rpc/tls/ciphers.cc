// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/ciphers.h"

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/tls/openssl.h"

namespace quorate::rpc::tls {
namespace {

// The default of ZooKeeper 3.9, in its order.
constexpr const char* kDefaultSuites[] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
};

struct Versions {
  bool tls12 = false;
  bool tls13 = false;
};

absl::StatusOr<Versions> ParseProtocols(const std::vector<std::string>& names,
                                        std::vector<std::string>* warnings) {
  if (names.empty()) return Versions{true, true};
  Versions versions;
  for (const std::string& name : names) {
    if (name == "TLSv1.2") {
      versions.tls12 = true;
    } else if (name == "TLSv1.3") {
      versions.tls13 = true;
    } else if (name == "TLSv1" || name == "TLSv1.1" || name == "SSLv3" || name == "SSLv2Hello") {
      warnings->push_back(absl::StrCat("the TLS protocol ", name,
                                       " is skipped: it is not secure; remove it from the list"));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" is no TLS protocol; the list may have TLSv1.2 and TLSv1.3"));
    }
  }
  if (versions.tls12 || versions.tls13) return versions;
  return absl::InvalidArgumentError(absl::StrCat("none of the TLS protocols ",
                                                 absl::StrJoin(names, ","),
                                                 " is supported; add TLSv1.2 or TLSv1.3"));
}

}  // namespace

CipherSuites ParseCipherSuites(const std::vector<std::string>& names,
                               std::vector<std::string>* warnings) {
  CipherSuites suites;
  for (const std::string& name : names) {
    const std::string_view known = OPENSSL_cipher_name(name.c_str());
    if (known == "(NONE)") {
      warnings->push_back(absl::StrCat("the cipher suite ", name,
                                       " is skipped: this machine's OpenSSL does not know it; "
                                       "remove it from the list"));
    } else if (known.substr(0, 4) == "TLS_") {
      suites.tls13.emplace_back(known);
    } else {
      suites.tls12.emplace_back(known);
    }
  }
  return suites;
}

absl::Status SetProtocolsAndCiphers(const Options& options, SSL_CTX* context,
                                    std::vector<std::string>* warnings) {
  auto versions = ParseProtocols(options.protocols, warnings);
  if (!versions.ok()) return versions.status();
  const std::vector<std::string> names =
      options.cipher_suites.empty()
          ? std::vector<std::string>(std::begin(kDefaultSuites), std::end(kDefaultSuites))
          : options.cipher_suites;
  const CipherSuites suites = ParseCipherSuites(names, warnings);
  // A version without suites is not offered, as its handshakes could only fail.
  versions->tls12 &= !suites.tls12.empty();
  versions->tls13 &= !suites.tls13.empty();
  if (!versions->tls12 && !versions->tls13) {
    return absl::InvalidArgumentError(absl::StrCat(
        "none of the cipher suites ", absl::StrJoin(names, ","),
        " can be used with the TLS protocols that are on; add a suite such as "
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (TLSv1.2) or TLS_AES_256_GCM_SHA384 (TLSv1.3)"));
  }
  const bool is_set =
      SSL_CTX_set_min_proto_version(context, versions->tls12 ? TLS1_2_VERSION : TLS1_3_VERSION) ==
          1 &&
      SSL_CTX_set_max_proto_version(context, versions->tls13 ? TLS1_3_VERSION : TLS1_2_VERSION) ==
          1 &&
      (!versions->tls12 ||
       SSL_CTX_set_cipher_list(context, absl::StrJoin(suites.tls12, ":").c_str()) == 1) &&
      (!versions->tls13 ||
       SSL_CTX_set_ciphersuites(context, absl::StrJoin(suites.tls13, ":").c_str()) == 1);
  if (is_set) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("OpenSSL refuses the TLS protocols or cipher suites (", LatestReason(),
                   "); remove those that its configuration (openssl.cnf) does not allow"));
}

}  // namespace quorate::rpc::tls
