// SPDX-License-Identifier: Apache-2.0

// Stores in PEM: blocks of keys, certificates and revocation lists in any order.
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/tls/store_content.h"

namespace quorate::rpc::tls {
namespace {

// A block, whose data is overwritten when it is freed, as it may be a private key.
class PemBlock {
 public:
  PemBlock() = default;
  PemBlock(const PemBlock&) = delete;
  PemBlock& operator=(const PemBlock&) = delete;
  ~PemBlock() {
    OPENSSL_free(name_);
    OPENSSL_free(header_);
    OPENSSL_clear_free(data_, static_cast<size_t>(capacity_));
  }

  // Reads the next block, at most once. Returns false at the end, and if the block is damaged.
  bool Read(BIO* from) {
    const bool is_read = PEM_read_bio(from, &name_, &header_, &data_, &size_) == 1;
    capacity_ = size_;
    return is_read;
  }
  // Decrypts the data if its header says that it is encrypted.
  bool Decrypt(std::string_view password) {
    EVP_CIPHER_INFO cipher;
    std::string copy(password);
    return PEM_get_EVP_CIPHER_INFO(header_, &cipher) == 1 &&
           PEM_do_header(&cipher, data_, &size_, CopyPassword, &copy) == 1;
  }

  std::string_view name() const { return name_; }
  bool has_header() const { return header_ != nullptr && header_[0] != '\0'; }
  std::string_view data() const {
    return {reinterpret_cast<const char*>(data_), static_cast<size_t>(size_)};
  }

 private:
  // OpenSSL asks for the password on the terminal if it has no such function.
  static int CopyPassword(char* to, int size, int, void* password) {
    const auto& from = *static_cast<const std::string*>(password);
    if (from.size() > static_cast<size_t>(size)) return -1;
    std::copy(from.begin(), from.end(), to);
    return static_cast<int>(from.size());
  }

  char* name_ = nullptr;
  char* header_ = nullptr;
  unsigned char* data_ = nullptr;
  long size_ = 0;
  long capacity_ = 0;
};

// Returns OpenSSL's type of the key in a block of the format that was usual before PKCS#8.
int TraditionalKeyType(std::string_view name) {
  if (name == PEM_STRING_RSA) return EVP_PKEY_RSA;
  if (name == PEM_STRING_ECPRIVATEKEY) return EVP_PKEY_EC;
  if (name == PEM_STRING_DSA) return EVP_PKEY_DSA;
  return EVP_PKEY_NONE;
}

bool IsKey(std::string_view name) {
  return name == PEM_STRING_PKCS8INF || name == PEM_STRING_PKCS8 ||
         TraditionalKeyType(name) != EVP_PKEY_NONE;
}

absl::StatusOr<KeyPtr> ReadKey(PemBlock* block, std::string_view password,
                               DerivationBudget* budget) {
  if (block->name() == PEM_STRING_PKCS8 || block->has_header()) {
    if (password.empty()) {
      return absl::InvalidArgumentError(
          "its private key is encrypted, and no password is set; set the password of the key "
          "store");
    }
  }
  if (block->name() == PEM_STRING_PKCS8) {
    const auto* at = reinterpret_cast<const unsigned char*>(block->data().data());
    const std::unique_ptr<X509_SIG, OpensslDeleter<X509_SIG_free>> encrypted(
        d2i_X509_SIG(nullptr, &at, static_cast<long>(block->data().size())));
    if (encrypted == nullptr) {
      return absl::InvalidArgumentError(
          "its encrypted private key is damaged; copy the file again from its origin");
    }
    return DecryptKey(encrypted.get(), password, budget);
  }
  if (block->has_header() && !block->Decrypt(password)) return DecryptionError();
  if (block->name() == PEM_STRING_PKCS8INF) return ParsePrivateKeyInfo(block->data());
  const auto* at = reinterpret_cast<const unsigned char*>(block->data().data());
  KeyPtr key(d2i_PrivateKey(TraditionalKeyType(block->name()), nullptr, &at,
                            static_cast<long>(block->data().size())));
  if (key != nullptr) return key;
  // A wrong password is not found by the decryption of this format.
  if (block->has_header()) return DecryptionError();
  return absl::InvalidArgumentError(
      absl::StrCat("its private key cannot be read (", LatestReason(), "); convert it to PKCS#8"));
}

absl::Status AddBlock(PemBlock* block, std::string_view password, StoreUse use,
                      DerivationBudget* budget, StoreContent* content) {
  if (block->name() == PEM_STRING_X509 || block->name() == PEM_STRING_X509_OLD) {
    auto certificate = ParseCertificate(block->data());
    if (!certificate.ok()) return certificate.status();
    auto& certificates = use == StoreUse::kKey ? content->key_certificates : content->trusted;
    certificates.push_back(*std::move(certificate));
  } else if (block->name() == PEM_STRING_X509_CRL && use == StoreUse::kTrust) {
    const auto* at = reinterpret_cast<const unsigned char*>(block->data().data());
    CrlPtr list(d2i_X509_CRL(nullptr, &at, static_cast<long>(block->data().size())));
    if (list == nullptr) {
      return absl::InvalidArgumentError(
          "one of its certificate revocation lists is damaged; fetch the list again");
    }
    content->revocation_lists.push_back(std::move(list));
  } else if (IsKey(block->name()) && use == StoreUse::kKey && content->key == nullptr) {
    auto key = ReadKey(block, password, budget);
    if (!key.ok()) return key.status();
    content->key = *std::move(key);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoreContent> ReadPem(std::string_view bytes, std::string_view password,
                                     StoreUse use) {
  const BioPtr from(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  if (from == nullptr) return absl::ResourceExhaustedError("memory is short; free some");
  StoreContent content;
  DerivationBudget budget;
  while (true) {
    PemBlock block;
    if (!block.Read(from.get())) {
      if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) break;
      return absl::InvalidArgumentError(
          absl::StrCat("a block between -----BEGIN and -----END is damaged (", LatestReason(),
                       "); copy the file again from its origin"));
    }
    absl::Status status = AddBlock(&block, password, use, &budget, &content);
    if (!status.ok()) return status;
  }
  ERR_clear_error();
  return content;
}

}  // namespace quorate::rpc::tls
