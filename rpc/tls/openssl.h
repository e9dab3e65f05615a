// SPDX-License-Identifier: Apache-2.0

// Owners of OpenSSL's objects, and the errors of its calls.
//
// Thread-safety: functions of the calling thread's error queue.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace quorate::rpc::tls {

template <auto kFree>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using CrlPtr = std::unique_ptr<X509_CRL, OpensslDeleter<X509_CRL_free>>;

// Removes the errors of earlier calls, which could be mistaken for those of the next call.
class ErrorScope {
 public:
  ErrorScope();
  // Leaves the queue empty, as SSL_get_error requires.
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;
};

// Returns the reason of the latest error of this thread; "unknown reason" if there is none.
std::string LatestReason();

}  // namespace quorate::rpc::tls
