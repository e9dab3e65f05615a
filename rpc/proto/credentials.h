// SPDX-License-Identifier: Apache-2.0

// Credentials as metadata of a call (quorate.v1.Credential), for clients and servers.
//
// Thread-safety: constants, and functions without state.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/proto/quorate/v1/types.pb.h"

namespace quorate::v1 {

// The key of the metadata. A call may have it several times; a proxy or library on the way may join
// such values with commas.
inline constexpr char kCredentialKey[] = "quorate-credential";
// The limits of a call: the number of credentials, and the bytes of their values together.
inline constexpr size_t kCredentialsMax = 128;
inline constexpr size_t kCredentialBytesMax = size_t{16} << 10;

// Returns whether a text has the form of a scheme: 1 to 32 lower-case letters and digits.
bool IsCredentialScheme(std::string_view scheme);

// Returns the value that shows a credential: "SCHEME BASE64". REQUIRES: IsCredentialScheme(scheme).
std::string CredentialText(std::string_view scheme, std::string_view secret);

// Returns OK if values of this number and size together are within the limits of a call, and
// AUTH_FAILED otherwise.
absl::Status CheckCredentialLimits(size_t count, size_t bytes);

// Decodes the values of the metadata of one call. AUTH_FAILED: they exceed the limits.
// BAD_ARGUMENTS: a value has another form; the message names its position and has nothing of it.
// Values that are joined with commas count one by one.
absl::StatusOr<std::vector<Credential>> ParseCredentials(std::span<const std::string_view> values);

}  // namespace quorate::v1
