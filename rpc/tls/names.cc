// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/names.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/subject.h"

namespace quorate::rpc::tls {
namespace {

// The limits of what an error shows of a certificate.
constexpr size_t kNamesShownMax = 8;
constexpr size_t kNameBytesShownMax = 256;

using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslDeleter<GENERAL_NAMES_free>>;

std::string Shown(absl::string_view text) {
  return absl::CHexEscape(text.substr(0, kNameBytesShownMax));
}

std::string AddressText(const ASN1_OCTET_STRING* octets) {
  char text[INET6_ADDRSTRLEN] = "";
  const int size = ASN1_STRING_length(octets);
  if (size != 4 && size != 16) return "an address that is damaged";
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(octets), text, sizeof(text));
  return text;
}

// Returns the names and addresses of the subjectAltName, for errors; empty if it has none.
std::vector<std::string> AlternativeNames(const X509* certificate) {
  std::vector<std::string> names;
  const NamesPtr all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(all.get(), i), &type);
    const auto* text = static_cast<const ASN1_STRING*>(value);
    if (type == GEN_DNS) {
      names.push_back(Shown({reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                             static_cast<size_t>(ASN1_STRING_length(text))}));
    } else if (type == GEN_IPADD) {
      names.push_back(AddressText(text));
    }
  }
  return names;
}

// Returns whether the common name of `certificate`, which has no subjectAltName, may name its host.
bool MayUseCommonName(X509* certificate) {
  // UINT32_MAX if there is no extendedKeyUsage.
  return (X509_get_extended_key_usage(certificate) & XKU_SSL_SERVER) != 0;
}

}  // namespace

bool IsAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

std::string DnsName(const std::string& host) {
  return host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
}

std::string NameProblem(const X509* certificate, const std::string& host) {
  const ErrorScope errors;
  // OpenSSL only reads the certificate, but caches what it has decoded of it.
  auto* checked = const_cast<X509*>(certificate);
  std::vector<std::string> names = AlternativeNames(certificate);
  const std::string name = DnsName(host);
  const bool is_address = IsAddress(host);
  const bool checks_subject = names.empty() && MayUseCommonName(checked);
  const unsigned flags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                         (checks_subject ? 0u : X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool fits = is_address ? X509_check_ip_asc(checked, host.c_str(), 0) == 1
                               : !name.empty() && X509_check_host(checked, name.data(), name.size(),
                                                                  flags, nullptr) == 1;
  if (fits) return "";
  const size_t count = names.size();
  if (count > kNamesShownMax) names.resize(kNamesShownMax);
  const std::string subject = Shown(SubjectOf(certificate));
  const std::string more =
      count > names.size() ? absl::StrCat(" and ", count - names.size(), " more") : "";
  return absl::StrCat("the certificate ", subject, " is not for the host ", host, ", but for ",
                      count == 0 ? "no name in its subjectAltName" : absl::StrJoin(names, ", "),
                      more);
}

}  // namespace quorate::rpc::tls
