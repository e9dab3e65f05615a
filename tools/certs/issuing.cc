// SPDX-License-Identifier: Apache-2.0

#include "tools/certs/issuing.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace quorate::tools::certs {
namespace {

using rpc::tls::BioPtr;
using rpc::tls::ErrorScope;
using rpc::tls::OpensslDeleter;

constexpr int kSerialBits = 127;
constexpr long kBackdatedSeconds = 300;
constexpr size_t kCommonNameMax = 64;  // X.520, ub-common-name
constexpr size_t kDnsNameMax = 253;
constexpr size_t kDnsLabelMax = 63;
// OpenSSL's defaults for PKCS12: AES-256 and SHA-256.
constexpr int kPkcs12Iterations = 10'000;
// Java trusts a certificate of a PKCS12 store only if it has this attribute, of Oracle.
constexpr char kJavaTrustedAttribute[] = "2.16.840.1.113894.746875.1.1";

using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslDeleter<X509_EXTENSION_free>>;
using BignumPtr = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;
using Pkcs12Ptr = std::unique_ptr<PKCS12, OpensslDeleter<PKCS12_free>>;

struct BagsDeleter {
  void operator()(STACK_OF(PKCS12_SAFEBAG) * bags) const {
    sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
  }
};
struct SafesDeleter {
  void operator()(STACK_OF(PKCS7) * safes) const { sk_PKCS7_pop_free(safes, PKCS7_free); }
};
struct CertificatesDeleter {  // not the certificates themselves
  void operator()(STACK_OF(X509) * certificates) const { sk_X509_free(certificates); }
};

absl::Status Failed(std::string_view what) {
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", std::string(what), ": ",
                                          rpc::tls::LatestReason(),
                                          "; look at its configuration (OPENSSL_CONF)"));
}

absl::StatusOr<std::string> Contents(const BioPtr& bio, bool is_written, std::string_view what) {
  if (bio == nullptr || !is_written) return Failed(what);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

bool AddExtension(X509* certificate, const X509* issuer, int type, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, const_cast<X509*>(issuer), certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, type, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Sets a random number, by which a CA and those who revoke a certificate tell it from others.
bool SetSerial(X509* certificate) {
  const BignumPtr number(BN_new());
  return number != nullptr && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, 0) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

struct CertificateContents {
  std::string common_name;
  int days = 0;
  // (type, value), as in OpenSSL's configuration files.
  std::vector<std::pair<int, std::string>> extensions;
};

// Makes a certificate that `issuer` signs; nullptr: it signs itself.
absl::StatusOr<Identity> Make(const CertificateContents& contents, const Identity* issuer) {
  const ErrorScope errors;
  Identity made{rpc::tls::KeyPtr(EVP_EC_gen("P-256")), rpc::tls::CertificatePtr(X509_new())};
  X509* const certificate = made.certificate.get();
  if (made.key == nullptr || certificate == nullptr) return Failed("make a key");
  const X509* const issuing = issuer == nullptr ? certificate : issuer->certificate.get();
  const time_t now = std::time(nullptr);
  time_t start = now - kBackdatedSeconds;
  time_t end = now;
  X509_NAME* const name = X509_get_subject_name(certificate);
  const auto* common_name = reinterpret_cast<const unsigned char*>(contents.common_name.data());
  bool is_made =
      X509_set_version(certificate, X509_VERSION_3) == 1 && SetSerial(certificate) &&
      X509_time_adj_ex(X509_getm_notBefore(certificate), 0, 0, &start) != nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(certificate), contents.days, 0, &end) != nullptr &&
      X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, common_name,
                                 static_cast<int>(contents.common_name.size()), -1, 0) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuing)) == 1 &&
      X509_set_pubkey(certificate, made.key.get()) == 1;
  for (const auto& [type, value] : contents.extensions) {
    is_made = is_made && AddExtension(certificate, issuing, type, value);
  }
  EVP_PKEY* const signer = issuer == nullptr ? made.key.get() : issuer->key.get();
  // The digest of RSA and EC keys; keys of Ed25519 have their own.
  const bool has_digest = EVP_PKEY_get_id(signer) != EVP_PKEY_ED25519;
  if (!is_made || X509_sign(certificate, signer, has_digest ? EVP_sha256() : nullptr) <= 0) {
    return Failed("make a certificate");
  }
  if (issuer != nullptr &&
      ASN1_TIME_compare(X509_get0_notAfter(certificate), X509_get0_notAfter(issuing)) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the certificate would be valid for longer than that of its CA; choose fewer than ",
        contents.days, " --days, or make a CA in another directory"));
  }
  return made;
}

std::string HostForm(const std::string& host) {
  return absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host);
}

}  // namespace

bool IsAddress(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

absl::Status CheckHost(const std::string& text) {
  if (IsAddress(text)) return absl::OkStatus();
  const auto is_label = [](absl::string_view label) {
    return !label.empty() && label.size() <= kDnsLabelMax && label.front() != '-' &&
           label.back() != '-' && std::all_of(label.begin(), label.end(), [](char c) {
             return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
           });
  };
  absl::string_view name = text;
  absl::ConsumePrefix(&name, "*.");
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  const bool is_number = std::all_of(labels.back().begin(), labels.back().end(),
                                     [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (text.size() <= kDnsNameMax && !is_number &&
      std::all_of(labels.begin(), labels.end(), is_label)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(text),
                   "\" is neither a host name nor an IP address; write it as clients do to "
                   "connect, without a port"));
}

absl::Status CheckClientName(const std::string& name) {
  const auto is_allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '@' || c == '-';
  };
  if (!name.empty() && name.size() <= kCommonNameMax &&
      absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(), is_allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CHexEscape(name), "\" cannot be the name of a client: use 1 to ", kCommonNameMax,
      " letters, digits and ._@-, with a letter or digit at the beginning"));
}

absl::StatusOr<Identity> MakeAuthority(int days) {
  std::array<unsigned char, 4> random{};
  if (RAND_bytes(random.data(), random.size()) != 1) return Failed("make random bytes");
  const std::string suffix =
      absl::BytesToHexString({reinterpret_cast<const char*>(random.data()), random.size()});
  return Make({.common_name = "Quorate CA " + suffix,
               .days = days,
               .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                              {NID_key_usage, "critical,keyCertSign,cRLSign"},
                              {NID_subject_key_identifier, "hash"}}},
              nullptr);
}

absl::StatusOr<Identity> MakeMember(const Identity& authority,
                                    const std::vector<std::string>& hosts, int days) {
  std::string names;
  for (const std::string& host : hosts) {
    absl::StrAppend(&names, names.empty() ? "" : ",", HostForm(host));
  }
  // A longer name is in the list of names alone; the subject has its first part.
  const std::string& first = hosts.front();
  const bool is_long = first.size() > kCommonNameMax;
  return Make({.common_name = is_long ? first.substr(0, first.find('.')) : first,
               .days = days,
               .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                              {NID_key_usage, "critical,digitalSignature"},
                              {NID_ext_key_usage, "serverAuth,clientAuth"},
                              {NID_subject_alt_name, names},
                              {NID_subject_key_identifier, "hash"},
                              {NID_authority_key_identifier, "keyid:always"}}},
              &authority);
}

absl::StatusOr<Identity> MakeClient(const Identity& authority, const std::string& name, int days) {
  return Make({.common_name = name,
               .days = days,
               .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                              {NID_key_usage, "critical,digitalSignature"},
                              {NID_ext_key_usage, "clientAuth"},
                              {NID_subject_key_identifier, "hash"},
                              {NID_authority_key_identifier, "keyid:always"}}},
              &authority);
}

absl::StatusOr<std::string> CertificatePem(const X509* certificate) {
  const ErrorScope errors;
  const BioPtr bio(BIO_new(BIO_s_mem()));
  return Contents(bio, bio != nullptr && PEM_write_bio_X509(bio.get(), certificate) == 1,
                  "encode a certificate");
}

absl::StatusOr<std::string> KeyPem(const EVP_PKEY* key) {
  const ErrorScope errors;
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  return Contents(bio,
                  bio != nullptr && PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr,
                                                                  0, nullptr, nullptr) == 1,
                  "encode a key");
}

absl::StatusOr<std::string> KeyStorePkcs12(const Identity& identity, const X509* authority,
                                           const std::string& password) {
  const ErrorScope errors;
  const std::unique_ptr<STACK_OF(X509), CertificatesDeleter> chain(sk_X509_new_null());
  if (chain == nullptr || sk_X509_push(chain.get(), const_cast<X509*>(authority)) == 0) {
    return Failed("list certificates");
  }
  const Pkcs12Ptr store(PKCS12_create(password.c_str(), "quorate", identity.key.get(),
                                      identity.certificate.get(), chain.get(), 0, 0,
                                      kPkcs12Iterations, kPkcs12Iterations, 0));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  return Contents(bio,
                  store != nullptr && bio != nullptr && i2d_PKCS12_bio(bio.get(), store.get()) == 1,
                  "make a PKCS12 store");
}

absl::StatusOr<std::string> TrustStorePkcs12(const X509* authority, const std::string& password) {
  const ErrorScope errors;
  constexpr char kWhat[] = "make a PKCS12 store of trusted certificates";
  STACK_OF(PKCS12_SAFEBAG)* bags = nullptr;
  PKCS12_SAFEBAG* const bag = PKCS12_add_cert(&bags, const_cast<X509*>(authority));
  const std::unique_ptr<STACK_OF(PKCS12_SAFEBAG), BagsDeleter> bags_owner(bags);
  // A length of -1 makes OpenSSL take the value for an object instead of bytes.
  const auto* any_use =
      reinterpret_cast<const unsigned char*>(OBJ_nid2obj(NID_anyExtendedKeyUsage));
  if (bag == nullptr || PKCS12_add_friendlyname_utf8(bag, "quorate-ca", -1) != 1 ||
      PKCS12_add1_attr_by_txt(bag, kJavaTrustedAttribute, V_ASN1_OBJECT, any_use, -1) != 1) {
    return Failed(kWhat);
  }
  STACK_OF(PKCS7)* safes = nullptr;
  const bool is_added =
      PKCS12_add_safe(&safes, bags, NID_aes_256_cbc, kPkcs12Iterations, password.c_str()) == 1;
  const std::unique_ptr<STACK_OF(PKCS7), SafesDeleter> safes_owner(safes);
  if (!is_added) return Failed(kWhat);
  const Pkcs12Ptr store(PKCS12_add_safes(safes, 0));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  const bool is_written = store != nullptr && bio != nullptr &&
                          PKCS12_set_mac(store.get(), password.c_str(), -1, nullptr, 0,
                                         kPkcs12Iterations, EVP_sha256()) == 1 &&
                          i2d_PKCS12_bio(bio.get(), store.get()) == 1;
  return Contents(bio, is_written, kWhat);
}

}  // namespace quorate::tools::certs
