// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/revocation.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rpc/tls/stores.h"

namespace quorate::rpc::tls {
namespace {

using PointsPtr = std::unique_ptr<CRL_DIST_POINTS, OpensslDeleter<CRL_DIST_POINTS_free>>;

// Returns the URLs of the distribution points of a certificate.
std::vector<std::string> PointsOf(const X509* certificate) {
  std::vector<std::string> urls;
  const PointsPtr points(static_cast<CRL_DIST_POINTS*>(
      X509_get_ext_d2i(certificate, NID_crl_distribution_points, nullptr, nullptr)));
  for (int i = 0; i < sk_DIST_POINT_num(points.get()); ++i) {
    const DIST_POINT_NAME* name = sk_DIST_POINT_value(points.get(), i)->distpoint;
    if (name == nullptr || name->type != 0) continue;  // 1: relative to the issuer
    for (int j = 0; j < sk_GENERAL_NAME_num(name->name.fullname); ++j) {
      int type = 0;
      const auto* value = static_cast<const ASN1_STRING*>(
          GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(name->name.fullname, j), &type));
      if (type != GEN_URI) continue;
      urls.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                        static_cast<size_t>(ASN1_STRING_length(value)));
    }
  }
  return urls;
}

// Returns the path of a URL of a file, which has the scheme; empty if it is not understood.
std::string PathOf(absl::string_view url) {
  url.remove_prefix(absl::string_view("file:").size());
  if (absl::ConsumePrefix(&url, "//")) absl::ConsumePrefix(&url, "localhost");
  const bool is_path = absl::StartsWith(url, "/") && !absl::StartsWith(url, "//");
  const bool is_plain = url.find_first_of(absl::string_view("%?#\0", 4)) == absl::string_view::npos;
  return is_path && is_plain ? std::string(url) : "";
}

// Reads the lists of the files that distribution points name into `lists`.
absl::Status ReadListFiles(const std::vector<const X509*>& certificates, ListFiles* files,
                           std::vector<CrlPtr>* lists) {
  for (const std::string& path : ListFilesOf(certificates, &files->warnings)) {
    files->stamps.push_back(StampOf(path));
    auto read = ReadRevocationLists(path);
    if (absl::IsNotFound(read.status())) {
      files->warnings.push_back(
          absl::StrCat(path,
                       ": a certificate names this file for the list of revoked certificates, and "
                       "there is no such file; put the list there"));
      continue;
    }
    if (!read.ok()) return read.status();
    std::move(read->begin(), read->end(), std::back_inserter(*lists));
  }
  return absl::OkStatus();
}

}  // namespace

std::string RevocationFile(const StoreOptions& trust_store) {
  return trust_store.location + ".crl";
}

std::vector<std::string> ListFilesOf(const std::vector<const X509*>& certificates,
                                     std::vector<std::string>* warnings) {
  const ErrorScope errors;
  std::vector<std::string> paths;
  for (const X509* certificate : certificates) {
    for (const std::string& url : PointsOf(certificate)) {
      if (!absl::StartsWithIgnoreCase(url, "file:")) continue;
      std::string path = PathOf(url);
      if (path.empty()) {
        warnings->push_back(absl::StrCat(
            "a certificate names a list of revoked certificates at ", absl::CHexEscape(url),
            ", which is not read: only URLs such as file:///etc/pki/ca.crl are, without escapes"));
      } else if (std::find(paths.begin(), paths.end(), path) == paths.end()) {
        paths.push_back(std::move(path));
      }
    }
  }
  if (paths.size() > kListFilesMax) {
    warnings->push_back(
        absl::StrCat("certificates name ", paths.size(),
                     " files for lists of revoked certificates, of which the first ", kListFilesMax,
                     " are read; put the others into one file"));
    paths.resize(kListFilesMax);
  }
  return paths;
}

absl::Status AddRevocationLists(const StoreOptions& trust_store, std::vector<CrlPtr> lists,
                                const std::vector<const X509*>& certificates, X509_STORE* trusted,
                                ListFiles* files) {
  absl::Status read = ReadListFiles(certificates, files, &lists);
  if (read.ok()) {
    auto beside = ReadRevocationLists(RevocationFile(trust_store));
    if (beside.ok()) {
      std::move(beside->begin(), beside->end(), std::back_inserter(lists));
    } else if (lists.empty() || !absl::IsNotFound(beside.status())) {
      read = beside.status();
    }
  }
  if (!read.ok()) {
    return absl::Status(
        read.code(),
        absl::StrCat("certificates cannot be checked for revocation: ", read.message(),
                     ". The lists of the CAs have to be in ", RevocationFile(trust_store),
                     ", in the trust store in PEM, or in files that its certificates name"));
  }
  for (const CrlPtr& list : lists) {
    if (X509_STORE_add_crl(trusted, list.get()) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(trust_store.location, ": OpenSSL refuses a certificate revocation list (",
                       LatestReason(), "); fetch the list again"));
    }
  }
  X509_STORE_set_flags(trusted, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return absl::OkStatus();
}

}  // namespace quorate::rpc::tls
