// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/testing/test_certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::rpc::tls {
namespace {

BioPtr MakeBio() { return BioPtr(BIO_new(BIO_s_mem())); }

std::string Take(const BioPtr& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

void AddName(X509_NAME* name, const char* type, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, type, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

void AddExtension(X509* certificate, X509* issuer, int type, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, type, value);
  ASSERT(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

std::string Utf16(std::string_view ascii) {
  std::string result;
  for (const char c : ascii) result.append(1, '\0').append(1, c);
  return result;
}

std::string Sha1(std::string_view bytes) {
  std::string hash(SHA_DIGEST_LENGTH, '\0');
  SHA1(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
       reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// Returns the EncryptedPrivateKeyInfo of JKS.
std::string Protect(std::string_view key, const std::string& password) {
  const std::string salt(SHA_DIGEST_LENGTH, 's');
  std::string data = salt;
  std::string block = salt;
  for (size_t i = 0; i < key.size(); ++i) {
    if (i % SHA_DIGEST_LENGTH == 0) block = Sha1(password + block);
    data.push_back(static_cast<char>(key[i] ^ block[i % SHA_DIGEST_LENGTH]));
  }
  data += Sha1(password + std::string(key));
  X509_SIG* encrypted = X509_SIG_new();
  X509_ALGOR* algorithm = nullptr;
  ASN1_OCTET_STRING* octets = nullptr;
  X509_SIG_getm(encrypted, &algorithm, &octets);
  X509_ALGOR_set0(algorithm, OBJ_txt2obj("1.3.6.1.4.1.42.2.17.1.1", 1), V_ASN1_NULL, nullptr);
  ASN1_OCTET_STRING_set(octets, reinterpret_cast<const unsigned char*>(data.data()),
                        static_cast<int>(data.size()));
  const BioPtr bio = MakeBio();
  ASSERT(i2d_PKCS8_bio(bio.get(), encrypted) == 1);
  X509_SIG_free(encrypted);
  return Take(bio);
}

class JksWriter {
 public:
  explicit JksWriter(size_t count) : out_(&bytes_) {
    out_.Int(uint32_t{0xFEEDFEED});
    out_.Int(uint32_t{2});
    out_.Int(static_cast<uint32_t>(count));
  }
  void BeginEntry(uint32_t tag) {
    out_.Int(tag);
    ShortString("alias");
    out_.Int(uint64_t{1'700'000'000'000});
  }
  void Certificate(const X509* certificate) {
    ShortString("X.509");
    out_.String(ToDer(certificate));
  }
  ByteWriter<std::endian::big>& out() { return out_; }
  std::string Finish(std::string_view password) {
    return bytes_ + Sha1(Utf16(password) + "Mighty Aphrodite" + bytes_);
  }

 private:
  void ShortString(std::string_view text) {
    out_.Int(static_cast<uint16_t>(text.size()));
    out_.Raw(text);
  }

  std::string bytes_;
  ByteWriter<std::endian::big> out_;
};

}  // namespace

TestIdentity MakeIdentity(const TestIdentityOptions& options) {
  TestIdentity made;
  made.key.reset(EVP_EC_gen("P-256"));
  made.certificate.reset(X509_new());
  ASSERT(made.key != nullptr && made.certificate != nullptr);
  X509* certificate = made.certificate.get();
  X509* issuer = options.issuer == nullptr ? certificate : options.issuer->certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  uint32_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial + uint64_t{1});
  X509_gmtime_adj(X509_getm_notBefore(certificate), options.starts_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), options.ends_s);
  X509_NAME* name = X509_get_subject_name(certificate);
  AddName(name, "C", "US");
  AddName(name, "O", "Example");
  AddName(name, "CN", options.common_name);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  X509_set_pubkey(certificate, made.key.get());
  AddExtension(certificate, issuer, NID_basic_constraints,
               options.is_ca ? "critical,CA:TRUE" : "CA:FALSE");
  AddExtension(certificate, issuer, NID_subject_key_identifier, "hash");
  if (!options.names.empty()) {
    AddExtension(certificate, issuer, NID_subject_alt_name, options.names.c_str());
  }
  if (!options.usage.empty()) {
    AddExtension(certificate, issuer, NID_ext_key_usage, options.usage.c_str());
  }
  if (!options.distribution_points.empty()) {
    AddExtension(certificate, issuer, NID_crl_distribution_points,
                 options.distribution_points.c_str());
  }
  EVP_PKEY* signer = options.issuer == nullptr ? made.key.get() : options.issuer->key.get();
  ASSERT(X509_sign(certificate, signer, EVP_sha256()) > 0);
  return made;
}

CrlPtr MakeRevocationList(const TestIdentity& issuer, const std::vector<const X509*>& revoked,
                          long ends_s) {
  CrlPtr list(X509_CRL_new());
  X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer.certificate.get()));
  ASN1_TIME* time = ASN1_TIME_new();
  X509_CRL_set1_lastUpdate(list.get(), X509_gmtime_adj(time, -7200));
  X509_CRL_set1_nextUpdate(list.get(), X509_gmtime_adj(time, ends_s));
  for (const X509* certificate : revoked) {
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(
        entry, const_cast<ASN1_INTEGER*>(X509_get0_serialNumber(certificate)));  // it is copied
    X509_REVOKED_set_revocationDate(entry, X509_gmtime_adj(time, -3600));
    X509_CRL_add0_revoked(list.get(), entry);
  }
  ASN1_TIME_free(time);
  X509_CRL_sort(list.get());
  ASSERT(X509_CRL_sign(list.get(), issuer.key.get(), EVP_sha256()) > 0);
  return list;
}

std::string ToPem(const X509* certificate) {
  const BioPtr bio = MakeBio();
  ASSERT(PEM_write_bio_X509(bio.get(), certificate) == 1);
  return Take(bio);
}

std::string ToPem(const X509_CRL* list) {
  const BioPtr bio = MakeBio();
  ASSERT(PEM_write_bio_X509_CRL(bio.get(), list) == 1);
  return Take(bio);
}

std::string ToPem(const EVP_PKEY* key, const std::string& password) {
  const BioPtr bio = MakeBio();
  ASSERT(PEM_write_bio_PKCS8PrivateKey(
             bio.get(), key, password.empty() ? nullptr : EVP_aes_256_cbc(), password.data(),
             static_cast<int>(password.size()), nullptr, nullptr) == 1);
  return Take(bio);
}

std::string ToDer(const X509* certificate) {
  const BioPtr bio = MakeBio();
  ASSERT(i2d_X509_bio(bio.get(), certificate) == 1);
  return Take(bio);
}

std::string ToDer(const EVP_PKEY* key) {
  const BioPtr bio = MakeBio();
  ASSERT(i2d_PKCS8PrivateKeyInfo_bio(bio.get(), key) == 1);
  return Take(bio);
}

std::string MakePkcs12(const TestIdentity* key, const std::vector<const X509*>& others,
                       const std::string& password) {
  STACK_OF(X509)* certificates = sk_X509_new_null();
  for (const X509* certificate : others) {
    sk_X509_push(certificates, const_cast<X509*>(certificate));  // it is only read
  }
  PKCS12* store =
      PKCS12_create(password.c_str(), "alias", key ? key->key.get() : nullptr,
                    key ? key->certificate.get() : nullptr, certificates, 0, 0, 0, 0, 0);
  ASSERT(store != nullptr);
  const BioPtr bio = MakeBio();
  ASSERT(i2d_PKCS12_bio(bio.get(), store) == 1);
  PKCS12_free(store);
  sk_X509_free(certificates);
  return Take(bio);
}

std::string MakeJks(const TestIdentity* key, const std::vector<const X509*>& chain,
                    const std::vector<const X509*>& trusted, std::string_view password) {
  JksWriter writer((key != nullptr ? 1 : 0) + trusted.size());
  if (key != nullptr) {
    writer.BeginEntry(1);
    writer.out().String(Protect(ToDer(key->key.get()), Utf16(password)));
    writer.out().Int(static_cast<uint32_t>(1 + chain.size()));
    writer.Certificate(key->certificate.get());
    for (const X509* certificate : chain) writer.Certificate(certificate);
  }
  for (const X509* certificate : trusted) {
    writer.BeginEntry(2);
    writer.Certificate(certificate);
  }
  return writer.Finish(password);
}

std::string TestPath(const std::string& name) {
  const char* directory = std::getenv("TEST_TMPDIR");
  return std::string(directory == nullptr ? "/tmp" : directory) + "/" + name;
}

std::string WriteTestFile(const std::string& name, std::string_view content) {
  std::string path = TestPath(name);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  return path;
}

}  // namespace quorate::rpc::tls
