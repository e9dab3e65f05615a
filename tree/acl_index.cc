// SPDX-License-Identifier: Apache-2.0

#include "tree/acl_index.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "tree/acl.h"

namespace quorate::tree {
namespace {

// Sorts the entries, and merges entries with the same key into one with all their permissions.
template <class T, class Key>
void SortAndMerge(std::vector<T>* entries, Key key) {
  std::ranges::sort(*entries, {}, key);
  size_t kept = 0;
  for (size_t i = 1; i < entries->size(); ++i) {
    if (key((*entries)[i]) == key((*entries)[kept])) {
      (*entries)[kept].permissions |= (*entries)[i].permissions;
    } else {
      (*entries)[++kept] = (*entries)[i];
    }
  }
  if (!entries->empty()) entries->resize(kept + 1);
}

}  // namespace

AclIndex::AclIndex(std::span<const Acl> acl) {
  for (const auto& [permissions, identity] : acl) {
    if (IsWorldAnyone(identity)) {
      anyone_ |= permissions;
      continue;
    }
    if (identity.scheme == kSaslScheme) sasl_super_ |= permissions;
    exact_.push_back({identity.scheme, identity.id, permissions});
    if (identity.scheme != kIpScheme) continue;
    if (const std::optional<IpRange> range = ParseIpRange(identity.id)) {
      ranges_.push_back({range->bits, FirstBits(range->address, range->bits), permissions});
    }
  }
  SortAndMerge(&exact_, [](const Exact& e) { return std::tuple(e.scheme, e.id); });
  SortAndMerge(&ranges_, [](const Range& r) { return std::tuple(r.bits, r.first); });
}

bool AclIndex::Allows(std::span<const Identity> identities, int32_t permissions) const {
  if ((anyone_ & permissions) != 0) return true;
  for (const Identity& identity : identities) {
    const auto key = [](const Exact& e) { return std::tuple(e.scheme, e.id); };
    const std::tuple<std::string_view, std::string_view> wanted(identity.scheme, identity.id);
    const auto found = std::ranges::lower_bound(exact_, wanted, {}, key);
    if (found != exact_.end() && key(*found) == wanted && (found->permissions & permissions) != 0) {
      return true;
    }
    if (identity.scheme == kSaslScheme && identity.id == kSuperScheme &&
        (sasl_super_ & permissions) != 0) {
      return true;
    }
    if (identity.scheme == kIpScheme && AllowsAddress(identity.id, permissions)) return true;
  }
  return false;
}

bool AclIndex::AllowsAddress(std::string_view text, int32_t permissions) const {
  if (ranges_.empty()) return false;
  const std::optional<IpAddress> address = ParseIpAddress(text);
  if (!address) return false;
  // For each length of a prefix, at most one range contains the address.
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    const size_t bits = at->bits;
    const auto end = std::upper_bound(
        at, ranges_.end(), bits, [](size_t wanted, const Range& r) { return wanted < r.bits; });
    if (bits <= 8 * address->size) {
      const IpAddress first = FirstBits(*address, bits);
      const auto found = std::lower_bound(
          at, end, first, [](const Range& r, const IpAddress& wanted) { return r.first < wanted; });
      if (found != end && found->first == first && (found->permissions & permissions) != 0) {
        return true;
      }
    }
    at = end;
  }
  return false;
}

}  // namespace quorate::tree
