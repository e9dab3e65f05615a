// SPDX-License-Identifier: Apache-2.0

// Stores in PKCS12, of current and old versions of keytool and of openssl.
#include <openssl/pkcs12.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/tls/store_content.h"

namespace quorate::rpc::tls {
namespace {

// The attribute that keytool gives to certificates that a store trusts.
constexpr std::string_view kTrustedOid = "2.16.840.1.113894.746875.1.1";
// Bags can be nested; keytool and openssl do not do so.
constexpr int kDepthMax = 4;

void FreeBags(STACK_OF(PKCS12_SAFEBAG) * bags) {
  sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
}
void FreeParts(STACK_OF(PKCS7) * parts) { sk_PKCS7_pop_free(parts, PKCS7_free); }

using Pkcs12Ptr = std::unique_ptr<PKCS12, OpensslDeleter<PKCS12_free>>;
using BagsPtr = std::unique_ptr<STACK_OF(PKCS12_SAFEBAG), OpensslDeleter<FreeBags>>;
using PartsPtr = std::unique_ptr<STACK_OF(PKCS7), OpensslDeleter<FreeParts>>;

absl::Status Damaged() {
  return absl::InvalidArgumentError("it is damaged; copy the file again from its origin");
}

bool HasAttribute(const PKCS12_SAFEBAG* bag, std::string_view oid) {
  const STACK_OF(X509_ATTRIBUTE)* attributes = PKCS12_SAFEBAG_get0_attrs(bag);
  for (int i = 0; i < sk_X509_ATTRIBUTE_num(attributes); ++i) {
    std::array<char, 80> text{};
    OBJ_obj2txt(text.data(), text.size(),
                X509_ATTRIBUTE_get0_object(sk_X509_ATTRIBUTE_value(attributes, i)), 1);
    if (oid == text.data()) return true;
  }
  return false;
}

absl::StatusOr<Pkcs12Ptr> Decode(std::string_view bytes) {
  // The object is made first, as only so it decrypts with the ciphers of StoreLibrary().
  PKCS12* store = PKCS12_init_ex(NID_pkcs7_data, StoreLibrary(), nullptr);
  if (store == nullptr) return absl::ResourceExhaustedError("memory is short; free some");
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const bool is_read = d2i_PKCS12(&store, &at, static_cast<long>(bytes.size())) != nullptr;
  Pkcs12Ptr result(
      store);  // d2i_PKCS12 has freed the object and reset the pointer if it has failed
  if (!is_read) return Damaged();
  return result;
}

class Pkcs12Reader {
 public:
  Pkcs12Reader(std::string_view password, StoreUse use) : password_(password), use_(use) {}

  absl::StatusOr<StoreContent> Read(PKCS12* store) {
    if (absl::Status status = CheckIntegrity(store); !status.ok()) return status;
    const PartsPtr parts(PKCS12_unpack_authsafes(store));
    if (parts == nullptr) return Damaged();
    for (int i = 0; i < sk_PKCS7_num(parts.get()); ++i) {
      absl::Status status = ReadPart(sk_PKCS7_value(parts.get(), i));
      if (!status.ok()) return status;
    }
    if (use_ == StoreUse::kTrust && !has_trusted_ && !has_key_) {
      content_.trusted = std::move(unmarked_);
    }
    return std::move(content_);
  }

 private:
  absl::Status CheckIntegrity(PKCS12* store) {
    if (PKCS12_mac_present(store) == 0) return absl::OkStatus();
    const ASN1_INTEGER* iterations = nullptr;
    PKCS12_get0_mac(nullptr, nullptr, nullptr, &iterations, store);
    // Without the number, it is 1.
    if (iterations != nullptr) {
      if (absl::Status status = budget_.TakeIterations(iterations); !status.ok()) return status;
    }
    if (PKCS12_verify_mac(store, password_.data(), Size()) == 1) return absl::OkStatus();
    if (!password_.empty()) return DecryptionError();
    // Some programs write no password as nothing, others as the end of an empty text.
    password_ = {};
    return PKCS12_verify_mac(store, nullptr, 0) == 1 ? absl::OkStatus() : DecryptionError();
  }

  absl::Status ReadPart(PKCS7* part) {
    const int type = OBJ_obj2nid(part->type);
    BagsPtr bags;
    if (type == NID_pkcs7_data) {
      bags.reset(PKCS12_unpack_p7data(part));
      if (bags == nullptr) return Damaged();
    } else if (type == NID_pkcs7_encrypted) {
      if (part->d.encrypted == nullptr || part->d.encrypted->enc_data == nullptr) return Damaged();
      absl::Status status = budget_.Take(part->d.encrypted->enc_data->algorithm);
      if (!status.ok()) return status;
      bags.reset(PKCS12_unpack_p7encdata(part, password_.data(), Size()));
      if (bags == nullptr) return DecryptionError();
    } else {
      return absl::InvalidArgumentError(
          "it is encrypted with a public key; make the file again with a password");
    }
    return ReadBags(bags.get(), 0);
  }

  absl::Status ReadBags(const STACK_OF(PKCS12_SAFEBAG) * bags, int depth) {
    if (depth > kDepthMax) return Damaged();
    for (int i = 0; i < sk_PKCS12_SAFEBAG_num(bags); ++i) {
      const PKCS12_SAFEBAG* bag = sk_PKCS12_SAFEBAG_value(bags, i);
      absl::Status status;
      switch (PKCS12_SAFEBAG_get_nid(bag)) {
        case NID_keyBag:
        case NID_pkcs8ShroudedKeyBag:
          has_key_ = true;
          if (use_ == StoreUse::kKey && content_.key == nullptr) status = ReadKey(bag);
          break;
        case NID_certBag:
          status = ReadCertificate(bag);
          break;
        case NID_safeContentsBag:
          status = ReadBags(PKCS12_SAFEBAG_get0_safes(bag), depth + 1);
          break;
        default:
          break;
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadKey(const PKCS12_SAFEBAG* bag) {
    absl::StatusOr<KeyPtr> key = Damaged();
    if (PKCS12_SAFEBAG_get_nid(bag) == NID_keyBag) {
      const PKCS8_PRIV_KEY_INFO* info = PKCS12_SAFEBAG_get0_p8inf(bag);
      unsigned char* der = nullptr;
      const int size = info == nullptr ? 0 : i2d_PKCS8_PRIV_KEY_INFO(info, &der);
      if (size > 0) {
        key = ParsePrivateKeyInfo({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
        OPENSSL_clear_free(der, static_cast<size_t>(size));
      }
    } else if (const X509_SIG* encrypted = PKCS12_SAFEBAG_get0_pkcs8(bag); encrypted != nullptr) {
      key = DecryptKey(encrypted, password_, &budget_);
    }
    if (!key.ok()) return key.status();
    content_.key = *std::move(key);
    return absl::OkStatus();
  }

  absl::Status ReadCertificate(const PKCS12_SAFEBAG* bag) {
    if (PKCS12_SAFEBAG_get_bag_nid(bag) != NID_x509Certificate) return absl::OkStatus();
    const CertificatePtr decoded(PKCS12_SAFEBAG_get1_cert(bag));
    unsigned char* der = nullptr;
    const int size = decoded == nullptr ? 0 : i2d_X509(decoded.get(), &der);
    if (size <= 0) return Damaged();
    auto certificate =
        ParseCertificate({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
    OPENSSL_free(der);
    if (!certificate.ok()) return certificate.status();
    const bool is_trusted = HasAttribute(bag, kTrustedOid);
    has_trusted_ |= is_trusted;
    if (use_ == StoreUse::kKey) {
      content_.key_certificates.push_back(*std::move(certificate));
    } else if (is_trusted || PKCS12_SAFEBAG_get0_attr(bag, NID_localKeyID) != nullptr) {
      // The certificate of a key has the number of that key.
      content_.trusted.push_back(*std::move(certificate));
    } else {
      unmarked_.push_back(*std::move(certificate));
    }
    return absl::OkStatus();
  }

  int Size() const { return static_cast<int>(password_.size()); }

  // Without data for no password at all.
  std::string_view password_;
  const StoreUse use_;
  DerivationBudget budget_;
  bool has_key_ = false;
  bool has_trusted_ = false;
  std::vector<CertificatePtr> unmarked_;
  StoreContent content_;
};

}  // namespace

absl::StatusOr<StoreContent> ReadPkcs12(std::string_view bytes, std::string_view password,
                                        StoreUse use) {
  const auto store = Decode(bytes);
  if (!store.ok()) return store.status();
  // A copy ends with a NUL, on which OpenSSL may rely.
  const std::string copy(password);
  return Pkcs12Reader(copy, use).Read(store->get());
}

}  // namespace quorate::rpc::tls
