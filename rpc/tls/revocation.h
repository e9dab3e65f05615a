// SPDX-License-Identifier: Apache-2.0

// The certificate revocation lists (CRLs) of a trust store: where they are, and how they are read.
//
// A certificate can name places of the list that it may be on, its distribution points (RFC 5280,
// 4.2.1.13). Those that are files of this machine are read; nothing is fetched. Only the operator's
// own files are asked, the trust store and the key store: a certificate of a client names its points
// before anyone knows whether a CA has signed it, and would choose which files the server opens.
//
// Thread-safety: functions without state.
#pragma once

#include <openssl/x509.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file_stamp.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::tls {

// The most files that distribution points can name; further ones are skipped with a warning.
inline constexpr size_t kListFilesMax = 64;

// Returns the file with lists that belongs to the trust store: its name, and ".crl" after it.
std::string RevocationFile(const StoreOptions& trust_store);

// Returns the paths of the files that the certificates name as distribution points, each once, in
// the order of the certificates: URLs such as file:///etc/pki/ca.crl, without a host other than
// localhost. Warns of URLs of files that are not understood, and of too many.
std::vector<std::string> ListFilesOf(const std::vector<const X509*>& certificates,
                                     std::vector<std::string>* warnings);

// What AddRevocationLists has read beyond the files that StoreOptions name.
struct ListFiles {
  // Of the files that distribution points name, each taken before the file was read.
  std::vector<FileStamp> stamps;
  std::vector<std::string> warnings;
};

// Adds lists to `trusted`, and lets it refuse certificates without a current list of their issuer:
// `lists`, which are those of the trust store, those of RevocationFile(trust_store), and those of the
// files that `certificates` name. A file that a certificate names and that is not there is a warning,
// and any other problem of a file an error. InvalidArgument or NotFound if there is no list at all.
absl::Status AddRevocationLists(const StoreOptions& trust_store, std::vector<CrlPtr> lists,
                                const std::vector<const X509*>& certificates, X509_STORE* trusted,
                                ListFiles* files);

}  // namespace quorate::rpc::tls
