// SPDX-License-Identifier: Apache-2.0

#include "tools/certs/certificate_facts.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/subject.h"

namespace quorate::tools::certs {
namespace {

using rpc::tls::BioPtr;
using rpc::tls::ErrorScope;
using rpc::tls::OpensslDeleter;

using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslDeleter<GENERAL_NAMES_free>>;

std::string_view BytesOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string AddressText(std::string_view bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  if (bytes.size() != sizeof(in_addr) && bytes.size() != sizeof(in6_addr)) return "?";
  return inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr ? "?" : text.data();
}

std::vector<std::string> NamesOf(const X509* certificate) {
  std::vector<std::string> names;
  const NamesPtr list(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; list != nullptr && i < sk_GENERAL_NAME_num(list.get()); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(list.get(), i), &type);
    if (type == GEN_DNS) {
      names.push_back(
          absl::StrCat("DNS:", std::string(BytesOf(static_cast<const ASN1_STRING*>(value)))));
    } else if (type == GEN_IPADD) {
      names.push_back(
          absl::StrCat("IP:", AddressText(BytesOf(static_cast<const ASN1_STRING*>(value)))));
    }
  }
  return names;
}

std::vector<std::string> UsesOf(X509* certificate) {
  if (X509_check_ca(certificate) != 0) return {"CA"};
  std::vector<std::string> uses;
  if (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) == 1) uses.push_back("server");
  if (X509_check_purpose(certificate, X509_PURPOSE_SSL_CLIENT, 0) == 1) uses.push_back("client");
  return uses;
}

std::string KeyText(const X509* certificate) {
  const EVP_PKEY* key = X509_get0_pubkey(certificate);
  if (key == nullptr) return "unknown";
  std::array<char, 64> curve{};
  size_t size = 0;
  if (EVP_PKEY_get_group_name(key, curve.data(), curve.size(), &size) == 1) {
    const char* nist = EC_curve_nid2nist(OBJ_sn2nid(curve.data()));
    return absl::StrCat("EC ", nist == nullptr ? curve.data() : nist);
  }
  const char* type = EVP_PKEY_get0_type_name(key);
  return absl::StrCat(type == nullptr ? "unknown" : type, " ", EVP_PKEY_get_bits(key));
}

int64_t Seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string NameText(const X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) return "?";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string FingerprintOf(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return "?";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    absl::StrAppendFormat(&text, "%s%02X", i == 0 ? "" : ":", digest[i]);
  }
  return text;
}

}  // namespace

CertificateFacts FactsOf(const X509* certificate) {
  const ErrorScope errors;
  return {.subject = rpc::tls::SubjectOf(certificate),
          .issuer = NameText(X509_get_issuer_name(certificate)),
          .names = NamesOf(certificate),
          .uses = UsesOf(const_cast<X509*>(certificate)),
          .key = KeyText(certificate),
          .starts_s = Seconds(X509_get0_notBefore(certificate)),
          .ends_s = Seconds(X509_get0_notAfter(certificate)),
          .fingerprint = FingerprintOf(certificate)};
}

std::string TimeText(int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return "?";
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                         parts.tm_mday, parts.tm_hour, parts.tm_min);
}

}  // namespace quorate::tools::certs
