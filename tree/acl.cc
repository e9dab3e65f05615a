// SPDX-License-Identifier: Apache-2.0

#include "tree/acl.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "base/assert.h"
#include "tree/ip_range.h"

namespace quorate::tree {
namespace {

constexpr std::string_view kWorld = "world";
constexpr std::string_view kAnyone = "anyone";
constexpr std::string_view kAuth = "auth";
constexpr std::string_view kDigest = "digest";
constexpr std::string_view kX509 = "x509";

bool IsInRange(std::string_view id, std::string_view expression) {
  if (id == expression) return true;
  const std::optional<IpRange> range = ParseIpRange(expression);
  const std::optional<IpAddress> address = ParseIpAddress(id);
  return range && address && range->Contains(*address);
}

// Returns whether an id consists of two parts around a colon. Colons at the end do not count, as
// with Java's String.split.
bool IsValidDigestId(std::string_view id) {
  while (!id.empty() && id.back() == ':') id.remove_suffix(1);
  return std::count(id.begin(), id.end(), ':') == 1;
}

// Returns whether a name is a distinguished name: parts "type=value" between commas; a backslash
// escapes a comma.
bool IsValidDistinguishedName(std::string_view name) {
  size_t part_start = 0;
  bool has_type = false;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '\\') {
      ++i;
    } else if (name[i] == '=' && i > part_start) {
      has_type = true;
    } else if (name[i] == ',') {
      if (!has_type) return false;
      part_start = i + 1;
      has_type = false;
    }
  }
  return has_type;
}

// Returns whether a name is "user", "user@REALM" or "user/host@REALM".
bool IsValidKerberosName(std::string_view name) {
  const size_t at = name.find('@');
  if (at == std::string_view::npos) return true;
  const std::string_view realm = name.substr(at + 1);
  return std::count(name.begin(), name.begin() + static_cast<ptrdiff_t>(at), '/') <= 1 &&
         realm.find_first_of("/@") == std::string_view::npos;
}

// Returns whether the identity was authenticated, rather than derived from the client's address.
bool IsAuthenticated(const Identity& identity) {
  return identity.scheme == kDigest || identity.scheme == kX509 || identity.scheme == kSaslScheme;
}

bool Matches(const Identity& caller, const Identity& wanted) {
  if (caller.scheme != wanted.scheme) return false;
  if (wanted.scheme == kIpScheme) return IsInRange(caller.id, wanted.id);
  if (wanted.scheme == kSaslScheme && caller.id == kSuperScheme) return true;
  return caller.id == wanted.id;
}

}  // namespace

bool IsWorldAnyone(const Identity& identity) {
  return identity.scheme == kWorld && identity.id == kAnyone;
}

bool IsValidId(std::string_view scheme, std::string_view id) {
  ASSERT(scheme != kAuth, "replaced before");
  if (scheme == kDigest) return IsValidDigestId(id);
  if (scheme == kIpScheme) return ParseIpRange(id).has_value();
  if (scheme == kX509) return IsValidDistinguishedName(id);
  if (scheme == kSaslScheme) return IsValidKerberosName(id);
  return false;
}

bool ResolveAcl(std::span<const Acl> wanted, std::span<const Identity> identities,
                std::vector<Acl>* resolved) {
  ASSERT(resolved != nullptr);
  resolved->clear();
  const auto less = [](const Acl* a, const Acl* b) { return *a < *b; };
  std::set<const Acl*, decltype(less)> seen(less);
  for (const Acl& entry : wanted) {
    if (!seen.insert(&entry).second) continue;
    if (entry.identity.scheme == kAuth) {
      const size_t before = resolved->size();
      for (const Identity& identity : identities) {
        if (IsAuthenticated(identity)) resolved->push_back(Acl{entry.permissions, identity});
      }
      if (resolved->size() == before) return false;
      continue;
    }
    if (!IsWorldAnyone(entry.identity) && !IsValidId(entry.identity.scheme, entry.identity.id)) {
      return false;
    }
    resolved->push_back(entry);
  }
  return !resolved->empty();
}

bool HasSuper(std::span<const Identity> identities) {
  return std::ranges::any_of(identities,
                             [](const Identity& each) { return each.scheme == kSuperScheme; });
}

bool IsAllowed(std::span<const Acl> acl, std::span<const Identity> identities,
               int32_t permissions) {
  ASSERT(permissions != 0 && (permissions & ~permission::kAll) == 0, "known permissions");
  if (HasSuper(identities)) return true;
  for (const Acl& entry : acl) {
    if ((entry.permissions & permissions) == 0) continue;
    if (IsWorldAnyone(entry.identity)) return true;
    for (const Identity& identity : identities) {
      if (Matches(identity, entry.identity)) return true;
    }
  }
  return false;
}

std::string MaskDigestId(std::string_view id) {
  const size_t colon = id.find(':');
  if (colon == std::string_view::npos) return std::string(id);
  return std::string(id.substr(0, colon)) + ":x";
}

}  // namespace quorate::tree
