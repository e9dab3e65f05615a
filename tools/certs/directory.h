// SPDX-License-Identifier: Apache-2.0

// The directory with the keys and certificates of a cluster, which only its owner can read.
//
//   ca.key, ca.pem   the CA: its private key, which is needed only to sign, and its certificate
//   NAME.pem         a key, behind it its certificate: of a member, or of a client (client-NAME.pem)
//   NAME.p12         the same as PKCS12, and ca.p12 the CA's certificate, for Java
//   password         the password of the PKCS12 stores
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/certs/issuing.h"

namespace quorate::tools::certs {

// Makes the directory with mode 0700, or accepts one that is there if only its owner can write to
// it. Parent directories must exist.
absl::Status MakeDirectory(const std::string& path);

// Returns an error if others than the owner can write to the directory, or if it is none. NotFound if
// nothing has this name.
absl::Status CheckDirectory(const std::string& path);

// Returns whether something has this name, even a symbolic link without a target.
bool IsThere(const std::string& path);

// Writes a new file with mode 0600, durably. AlreadyExists if something has its name: no key is
// ever replaced. Removes the file if it cannot be written in whole, or not durably.
absl::Status WriteNewFile(const std::string& path, std::string_view bytes);

// Returns the content of a file of at most `bytes_max`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max);

// Returns FailedPrecondition if the directory has the certificate of a member with `name` as its subject
// or among its host names. A client with that name could be taken for the member.
absl::Status CheckNoMember(const std::string& directory, const std::string& name);

// Returns the CA of the directory. NotFound if it has neither ca.key nor ca.pem; another error if it
// has one of them, or if they do not belong together.
absl::StatusOr<Identity> ReadAuthority(const std::string& directory);

}  // namespace quorate::tools::certs
