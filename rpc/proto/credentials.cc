// SPDX-License-Identifier: Apache-2.0

#include "rpc/proto/credentials.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strings.h"
#include "rpc/proto/errors.h"

namespace quorate::v1 {
namespace {

constexpr size_t kSchemeBytesMax = 32;

// Decodes one value. Returns false if it has another form.
bool Parse(std::string_view value, Credential* credential) {
  const size_t space = value.find(' ');
  if (space == std::string_view::npos || !IsCredentialScheme(value.substr(0, space))) return false;
  const std::string_view text = value.substr(space + 1);
  std::string secret;
  // Base64Unescape accepts spaces and missing padding: only the one text that encodes the secret is
  // accepted.
  if (!absl::Base64Unescape(ToAbsl(text), &secret)) return false;
  if (absl::Base64Escape(secret) != ToAbsl(text)) return false;
  credential->set_scheme(std::string(value.substr(0, space)));
  credential->set_secret(std::move(secret));
  return true;
}

}  // namespace

bool IsCredentialScheme(std::string_view scheme) {
  return !scheme.empty() && scheme.size() <= kSchemeBytesMax &&
         std::ranges::all_of(scheme, [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

std::string CredentialText(std::string_view scheme, std::string_view secret) {
  return absl::StrCat(ToAbsl(scheme), " ", absl::Base64Escape(ToAbsl(secret)));
}

absl::Status CheckCredentialLimits(size_t count, size_t bytes) {
  if (count <= kCredentialsMax && bytes <= kCredentialBytesMax) return absl::OkStatus();
  return ToStatus(ERROR_CODE_AUTH_FAILED,
                  absl::StrCat("a call may show ", kCredentialsMax, " credentials of together ",
                               kCredentialBytesMax, " bytes; show fewer"));
}

absl::StatusOr<std::vector<Credential>> ParseCredentials(std::span<const std::string_view> values) {
  size_t bytes = 0;
  for (const std::string_view value : values) bytes += value.size();
  // Before any value is looked at, so that a long one costs nothing.
  if (absl::Status s = CheckCredentialLimits(values.size(), bytes); !s.ok()) return s;
  std::vector<absl::string_view> parts;
  for (const std::string_view value : values) {
    const std::vector<absl::string_view> joined = absl::StrSplit(ToAbsl(value), ',');
    parts.push_back(joined[0]);
    for (size_t i = 1; i < joined.size(); ++i) {
      // Joining adds no other space than one after the comma.
      parts.push_back(absl::StripPrefix(joined[i], " "));
    }
  }
  if (absl::Status s = CheckCredentialLimits(parts.size(), bytes); !s.ok()) return s;
  std::vector<Credential> credentials(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (Parse(ToStd(parts[i]), &credentials[i])) continue;
    return ToStatus(ERROR_CODE_BAD_ARGUMENTS,
                    absl::StrCat("the value ", i + 1, " of the metadata ", kCredentialKey,
                                 " has to be a scheme in lower case, one space, and the secret in "
                                 "base64 with padding"));
  }
  return credentials;
}

}  // namespace quorate::v1
