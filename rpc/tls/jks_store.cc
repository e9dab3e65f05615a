// SPDX-License-Identifier: Apache-2.0

// Stores in JKS, the format of Java's keytool before Java 9. All numbers are big-endian:
//
//   u32 0xFEEDFEED, u32 version (1 or 2), u32 number of entries, then for each entry:
//     u32 tag (1: key, 2: trusted certificate), string alias, u64 milliseconds since 1970,
//     key: u32 length and EncryptedPrivateKeyInfo in DER, u32 number of certificates, these
//     trusted certificate: one certificate
//   20 bytes: SHA-1 of the password, "Mighty Aphrodite" and all before
//
// A string has a u16 length. A certificate is its type as a string (only in version 2), a u32 length
// and the DER encoding. Passwords are hashed in UTF-16.
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/secrets.h"
#include "rpc/tls/store_content.h"

namespace quorate::rpc::tls {
namespace {

constexpr uint32_t kTagKey = 1;
constexpr uint32_t kTagTrusted = 2;
constexpr size_t kHashSize = SHA_DIGEST_LENGTH;
// Sun's algorithm of encrypted keys in JKS.
constexpr std::string_view kKeyProtectorOid = "1.3.6.1.4.1.42.2.17.1.1";

absl::Status Damaged() {
  return absl::InvalidArgumentError("it is damaged; copy the file again from its origin");
}

absl::Status WrongPassword() {
  return absl::InvalidArgumentError(
      "the password is wrong, or the file is damaged; check the password with keytool -list");
}

std::string Sha1(std::string_view a, std::string_view b, std::string_view c = {}) {
  const std::unique_ptr<EVP_MD_CTX, OpensslDeleter<EVP_MD_CTX_free>> hash(EVP_MD_CTX_new());
  std::string result(kHashSize, '\0');
  if (hash == nullptr || EVP_DigestInit_ex(hash.get(), EVP_sha1(), nullptr) != 1) return result;
  for (const std::string_view piece : {a, b, c}) {
    EVP_DigestUpdate(hash.get(), piece.data(), piece.size());
  }
  EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(result.data()), nullptr);
  return result;
}

// Returns the big-endian UTF-16 form of `text`; nullopt if that is not UTF-8.
std::optional<std::string> ToUtf16(std::string_view text) {
  std::string result;
  BigEndianWriter out(&result);
  size_t at = 0;
  while (at < text.size()) {
    unsigned long code = 0;
    const int size = UTF8_getc(reinterpret_cast<const unsigned char*>(text.data()) + at,
                               static_cast<int>(text.size() - at), &code);
    if (size <= 0 || code > 0x10FFFF) return std::nullopt;
    at += static_cast<size_t>(size);
    if (code < 0x10000) {
      out.Int(static_cast<uint16_t>(code));
    } else {
      out.Int(static_cast<uint16_t>(0xD800 + ((code - 0x10000) >> 10)));
      out.Int(static_cast<uint16_t>(0xDC00 + ((code - 0x10000) & 0x3FF)));
    }
  }
  return result;
}

// Decrypts a key: `bytes` are a salt, the cipher text and a hash of the password and the key. The
// cipher text is the key, xor a stream of blocks, each of which is the hash of the password and the
// block before; the salt is the block before the first.
absl::StatusOr<KeyPtr> Unprotect(std::string_view bytes, std::string_view password) {
  if (bytes.size() < 2 * kHashSize) return Damaged();
  std::string block(bytes.substr(0, kHashSize));
  const std::string_view check = bytes.substr(bytes.size() - kHashSize);
  std::string key(bytes.substr(kHashSize, bytes.size() - 2 * kHashSize));
  for (size_t at = 0; at < key.size(); ++at) {
    if (at % kHashSize == 0) block = Sha1(password, block);
    key[at] = static_cast<char>(key[at] ^ block[at % kHashSize]);
  }
  absl::StatusOr<KeyPtr> result =
      SecretsEqual(Sha1(password, key), check) ? ParsePrivateKeyInfo(key) : WrongPassword();
  OPENSSL_cleanse(key.data(), key.size());
  return result;
}

absl::StatusOr<KeyPtr> DecryptJksKey(std::string_view der, std::string_view password) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const std::unique_ptr<X509_SIG, OpensslDeleter<X509_SIG_free>> encrypted(
      d2i_X509_SIG(nullptr, &at, static_cast<long>(der.size())));
  if (encrypted == nullptr) return Damaged();
  const X509_ALGOR* algorithm = nullptr;
  const ASN1_OCTET_STRING* data = nullptr;
  X509_SIG_get0(encrypted.get(), &algorithm, &data);
  std::array<char, 64> oid{};
  OBJ_obj2txt(oid.data(), oid.size(), algorithm->algorithm, 1);
  if (kKeyProtectorOid != oid.data()) {
    return absl::InvalidArgumentError(
        "its private key has an encryption that JKS does not have; make the file again with "
        "keytool");
  }
  return Unprotect({reinterpret_cast<const char*>(ASN1_STRING_get0_data(data)),
                    static_cast<size_t>(ASN1_STRING_length(data))},
                   password);
}

class JksReader {
 public:
  JksReader(std::string_view bytes, std::string_view password, StoreUse use)
      : in_(bytes), password_(password), use_(use) {}

  absl::StatusOr<StoreContent> Read() {
    in_.Int<uint32_t>();  // the magic number, by which the caller knows the format
    version_ = in_.Int<uint32_t>();
    const uint32_t count = in_.Int<uint32_t>();
    if (version_ != 1 && version_ != 2) return Damaged();
    for (uint32_t i = 0; i < count && in_.ok(); ++i) {
      if (absl::Status status = ReadEntry(); !status.ok()) return status;
    }
    if (!in_.ok() || !in_.empty()) return Damaged();
    return std::move(content_);
  }

 private:
  absl::Status ReadEntry() {
    const uint32_t tag = in_.Int<uint32_t>();
    in_.Raw(in_.Int<uint16_t>());  // the alias
    in_.Int<uint64_t>();
    if (tag == kTagKey) return ReadKeyEntry();
    if (tag != kTagTrusted) return Damaged();
    auto certificate = ReadCertificate();
    if (!certificate.ok()) return certificate.status();
    content_.trusted.push_back(*std::move(certificate));
    return absl::OkStatus();
  }

  absl::Status ReadKeyEntry() {
    const std::string_view encrypted = in_.String();
    const uint32_t count = in_.Int<uint32_t>();
    if (!in_.ok()) return Damaged();
    const bool is_wanted = use_ == StoreUse::kKey && content_.key == nullptr;
    if (is_wanted) {
      auto key = DecryptJksKey(encrypted, password_);
      if (!key.ok()) return key.status();
      content_.key = *std::move(key);
    }
    for (uint32_t i = 0; i < count && in_.ok(); ++i) {
      auto certificate = ReadCertificate();
      if (!certificate.ok()) return certificate.status();
      if (is_wanted) {
        content_.key_certificates.push_back(*std::move(certificate));
      } else if (i == 0 && use_ == StoreUse::kTrust) {
        content_.trusted.push_back(*std::move(certificate));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CertificatePtr> ReadCertificate() {
    if (version_ == 2 && in_.Raw(in_.Int<uint16_t>()) != "X.509") return Damaged();
    const std::string_view der = in_.String();
    if (!in_.ok()) return Damaged();
    return ParseCertificate(der);
  }

  BigEndianReader in_;
  const std::string_view password_;
  const StoreUse use_;
  uint32_t version_ = 0;
  StoreContent content_;
};

}  // namespace

absl::StatusOr<StoreContent> ReadJks(std::string_view bytes, std::string_view password,
                                     StoreUse use) {
  const std::optional<std::string> utf16 = ToUtf16(password);
  if (!utf16) {
    return absl::InvalidArgumentError(
        "the password is not UTF-8; correct it, or store it in UTF-8");
  }
  if (bytes.size() < kHashSize) return Damaged();
  const std::string_view hash = bytes.substr(bytes.size() - kHashSize);
  bytes.remove_suffix(kHashSize);
  // As in Java, a store can be read without its password, which then does not protect it.
  if (!password.empty() && !SecretsEqual(Sha1(*utf16, "Mighty Aphrodite", bytes), hash)) {
    return WrongPassword();
  }
  return JksReader(bytes, *utf16, use).Read();
}

}  // namespace quorate::rpc::tls
