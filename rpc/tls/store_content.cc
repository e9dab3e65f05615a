// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/store_content.h"

#include <openssl/err.h>
#include <openssl/provider.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"

namespace quorate::rpc::tls {
namespace {

template <typename T, typename Free>
auto Owned(T* object, Free free) {
  return std::unique_ptr<T, Free>(object, free);
}

const unsigned char* Data(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Returns the value of `number`, or the largest value if it is negative, absent or too large.
uint64_t ValueOf(const ASN1_INTEGER* number) {
  uint64_t value = 0;
  if (number == nullptr || ASN1_INTEGER_get_uint64(&value, number) != 1) {
    return std::numeric_limits<uint64_t>::max();
  }
  return value;
}

absl::Status DamagedParameters() {
  return absl::InvalidArgumentError(
      "the parameters of its encryption are damaged or not supported; make the file again");
}

}  // namespace

absl::Status DerivationBudget::TakeIterations(const ASN1_INTEGER* iterations) {
  const uint64_t count = ValueOf(iterations);
  if (count > left_) {
    return absl::InvalidArgumentError(
        "its encryption asks for too many iterations; make the file again with fewer than a "
        "million");
  }
  left_ -= count;
  return absl::OkStatus();
}

absl::Status DerivationBudget::Take(const X509_ALGOR* algorithm) {
  if (algorithm == nullptr || algorithm->parameter == nullptr) return DamagedParameters();
  if (OBJ_obj2nid(algorithm->algorithm) != NID_pbes2) {
    const auto parameters = Owned(static_cast<PBEPARAM*>(ASN1_TYPE_unpack_sequence(
                                      ASN1_ITEM_rptr(PBEPARAM), algorithm->parameter)),
                                  PBEPARAM_free);
    return parameters == nullptr ? DamagedParameters() : TakeIterations(parameters->iter);
  }
  const auto scheme = Owned(static_cast<PBE2PARAM*>(ASN1_TYPE_unpack_sequence(
                                ASN1_ITEM_rptr(PBE2PARAM), algorithm->parameter)),
                            PBE2PARAM_free);
  if (scheme == nullptr || scheme->keyfunc == nullptr || scheme->keyfunc->parameter == nullptr) {
    return DamagedParameters();
  }
  if (OBJ_obj2nid(scheme->keyfunc->algorithm) == NID_id_pbkdf2) {
    const auto parameters = Owned(static_cast<PBKDF2PARAM*>(ASN1_TYPE_unpack_sequence(
                                      ASN1_ITEM_rptr(PBKDF2PARAM), scheme->keyfunc->parameter)),
                                  PBKDF2PARAM_free);
    return parameters == nullptr ? DamagedParameters() : TakeIterations(parameters->iter);
  }
  // The only other function is scrypt, which keytool does not use.
  return DamagedParameters();
}

OSSL_LIB_CTX* StoreLibrary() {
  static OSSL_LIB_CTX* const library = [] {
    OSSL_LIB_CTX* made = OSSL_LIB_CTX_new();
    if (made == nullptr) return made;
    OSSL_PROVIDER_load(made, "default");
    // A file of the package of libssl, which may be absent: then DecryptionError says so.
    OSSL_PROVIDER_load(made, "legacy");
    return made;
  }();
  return library;
}

absl::Status DecryptionError() {
  while (const unsigned long error = ERR_get_error()) {
    const int reason = ERR_GET_REASON(error);
    const int library = ERR_GET_LIB(error);
    if (reason == ERR_R_UNSUPPORTED ||
        (library == ERR_LIB_EVP &&
         (reason == EVP_R_UNSUPPORTED_ALGORITHM || reason == EVP_R_UNKNOWN_CIPHER ||
          reason == EVP_R_UNKNOWN_PBE_ALGORITHM || reason == EVP_R_UNSUPPORTED_CIPHER))) {
      return absl::FailedPreconditionError(
          "it is encrypted with a cipher that this machine's OpenSSL does not have; install "
          "OpenSSL's module \"legacy\", or make the file again with a current keytool or openssl");
    }
  }
  return absl::InvalidArgumentError(
      "the password is wrong, or the file is damaged; check the password with keytool or openssl");
}

absl::StatusOr<KeyPtr> ParsePrivateKeyInfo(std::string_view der) {
  const unsigned char* at = Data(der);
  const auto info = Owned(d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(der.size())),
                          PKCS8_PRIV_KEY_INFO_free);
  KeyPtr key(info == nullptr ? nullptr : EVP_PKCS82PKEY(info.get()));
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("its private key cannot be read (",
                                                   LatestReason(),
                                                   "); use an RSA, EC or DSA key in PKCS#8"));
  }
  return key;
}

absl::StatusOr<KeyPtr> DecryptKey(const X509_SIG* encrypted, std::string_view password,
                                  DerivationBudget* budget) {
  const X509_ALGOR* algorithm = nullptr;
  X509_SIG_get0(encrypted, &algorithm, nullptr);
  if (absl::Status status = budget->Take(algorithm); !status.ok()) return status;
  const auto info =
      Owned(PKCS8_decrypt_ex(encrypted, password.data(), static_cast<int>(password.size()),
                             StoreLibrary(), nullptr),
            PKCS8_PRIV_KEY_INFO_free);
  if (info == nullptr) return DecryptionError();
  // The key is encoded and read again, so that it belongs to the library that makes connections.
  unsigned char* der = nullptr;
  const int size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &der);
  if (size <= 0) return DecryptionError();
  auto key = ParsePrivateKeyInfo({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_clear_free(der, static_cast<size_t>(size));
  return key;
}

absl::StatusOr<CertificatePtr> ParseCertificate(std::string_view der) {
  const unsigned char* at = Data(der);
  CertificatePtr certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (certificate == nullptr || at != Data(der) + der.size()) {
    return absl::InvalidArgumentError(absl::StrCat("one of its certificates cannot be read (",
                                                   LatestReason(),
                                                   "); export that certificate again"));
  }
  return certificate;
}

}  // namespace quorate::rpc::tls
