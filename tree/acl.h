// SPDX-License-Identifier: Apache-2.0

// The rules of ZooKeeper's access control lists: which lists are valid, and what they permit.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/types.h"

namespace quorate::tree {

inline constexpr std::string_view kIpScheme = "ip";
inline constexpr std::string_view kSaslScheme = "sasl";
// "super" is a scheme whose identities have all permissions. It is also an id of scheme "sasl": a
// caller with that identity matches every entry of scheme "sasl".
inline constexpr std::string_view kSuperScheme = "super";

// Returns whether an entry with this identity applies to every caller.
bool IsWorldAnyone(const Identity& identity);

// Sets `*resolved` to the list that a create or setAcl with `wanted` stores: without duplicates,
// and with "auth" entries replaced by one for each of the caller's digest, x509 and sasl
// identities. Returns false (kInvalidAcl) if the list is empty, has an "auth" entry without such an
// identity, an unknown scheme or a malformed id.
bool ResolveAcl(std::span<const Acl> wanted, std::span<const Identity> identities,
                std::vector<Acl>* resolved);

// Returns whether `acl` gives the caller any of `permissions` (bits). An identity of scheme "super"
// has all permissions.
bool IsAllowed(std::span<const Acl> acl, std::span<const Identity> identities, int32_t permissions);

// Returns whether one of the identities is of scheme "super".
bool HasSuper(std::span<const Identity> identities);

// Returns whether `id` is well-formed for an ACL entry of `scheme`, which is neither "world" nor
// "auth".
bool IsValidId(std::string_view scheme, std::string_view id);

// Returns "user:x" for "user:hash": the form in which a client that may not change the ACL sees a
// digest id.
std::string MaskDigestId(std::string_view id);

}  // namespace quorate::tree
