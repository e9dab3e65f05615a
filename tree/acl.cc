#include "tree/acl.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "base/assert.h"

namespace quorate::tree {
namespace {

constexpr std::string_view kWorld = "world";
constexpr std::string_view kAnyone = "anyone";
constexpr std::string_view kAuth = "auth";
constexpr std::string_view kDigest = "digest";
constexpr std::string_view kIp = "ip";
constexpr std::string_view kX509 = "x509";
constexpr std::string_view kSasl = "sasl";
constexpr std::string_view kSuper = "super";

struct Address {
  std::array<uint8_t, 16> bytes = {};
  size_t size = 0;  // 4 or 16
};

// A number from 0 to `max`, written as digits, with a plus sign or without.
std::optional<uint32_t> ParseNumber(std::string_view text, uint32_t max) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  uint32_t value = 0;
  for (char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(digit - '0');
    if (value > max) return std::nullopt;
  }
  return value;
}

// Appends the four numbers of "127.0.0.1". False if it is no such address.
bool ParseIpv4(std::string_view text, std::vector<uint8_t>* bytes) {
  for (int part = 0; part < 4; ++part) {
    const size_t dot = part < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return false;
    const std::optional<uint32_t> number = ParseNumber(text.substr(0, dot), 255);
    if (!number) return false;
    bytes->push_back(static_cast<uint8_t>(*number));
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return true;
}

std::optional<uint32_t> ParseHexGroup(std::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  uint32_t value = 0;
  for (char digit : text) {
    const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit;
    if (lower >= '0' && lower <= '9') {
      value = value * 16 + static_cast<uint32_t>(lower - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<uint32_t>(lower - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// Appends the bytes of groups like "fe80:0:1" or, at the end of an address, "ffff:1.2.3.4".
bool ParseIpv6Groups(std::string_view text, std::vector<uint8_t>* bytes) {
  while (!text.empty()) {
    const size_t colon = text.find(':');
    const std::string_view group = text.substr(0, colon);
    if (colon == std::string_view::npos && group.find('.') != std::string_view::npos) {
      return ParseIpv4(group, bytes);
    }
    const std::optional<uint32_t> value = ParseHexGroup(group);
    if (!value) return false;
    bytes->push_back(static_cast<uint8_t>(*value >> 8));
    bytes->push_back(static_cast<uint8_t>(*value));
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
    if (text.empty()) return false;
  }
  return true;
}

std::optional<Address> ParseAddress(std::string_view text) {
  std::vector<uint8_t> head;
  std::vector<uint8_t> tail;
  if (text.find(':') == std::string_view::npos) {
    if (!ParseIpv4(text, &head)) return std::nullopt;
  } else if (const size_t gap = text.find("::"); gap == std::string_view::npos) {
    if (!ParseIpv6Groups(text, &head) || head.size() != 16) return std::nullopt;
  } else {
    const std::string_view before = text.substr(0, gap);
    if (before.find('.') != std::string_view::npos) return std::nullopt;
    if (!ParseIpv6Groups(before, &head)) return std::nullopt;
    if (!ParseIpv6Groups(text.substr(gap + 2), &tail)) return std::nullopt;
    if (head.size() + tail.size() > 14) return std::nullopt;
    head.resize(16 - tail.size());
  }
  head.insert(head.end(), tail.begin(), tail.end());
  Address address;
  ASSERT(head.size() == 4 || head.size() == 16, "an IPv4 or IPv6 address");
  address.size = head.size();
  std::copy(head.begin(), head.end(), address.bytes.begin());
  return address;
}

struct AddressRange {
  Address address;
  size_t bits = 0;
};

// "10.0.0.0/8", or an address alone, which is a range of one.
std::optional<AddressRange> ParseRange(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Address> address = ParseAddress(text.substr(0, slash));
  if (!address) return std::nullopt;
  AddressRange range{*address, address->size * 8};
  if (slash == std::string_view::npos) return range;
  const std::optional<uint32_t> bits =
      ParseNumber(text.substr(slash + 1), static_cast<uint32_t>(range.bits));
  if (!bits) return std::nullopt;
  range.bits = *bits;
  return range;
}

bool IsInRange(std::string_view id, std::string_view expression) {
  if (id == expression) return true;
  const std::optional<AddressRange> range = ParseRange(expression);
  const std::optional<Address> address = ParseAddress(id);
  if (!range || !address || address->size != range->address.size) return false;
  for (size_t bit = 0; bit < range->bits; ++bit) {
    const int difference = address->bytes[bit / 8] ^ range->address.bytes[bit / 8];
    if ((difference >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

// Two parts around a colon; colons at the end do not count, as with Java's String.split.
bool IsValidDigestId(std::string_view id) {
  while (!id.empty() && id.back() == ':') id.remove_suffix(1);
  return std::count(id.begin(), id.end(), ':') == 1;
}

// A distinguished name: parts "type=value" between commas; a backslash takes a comma's meaning.
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

// "user", "user@REALM" or "user/host@REALM".
bool IsValidKerberosName(std::string_view name) {
  const size_t at = name.find('@');
  if (at == std::string_view::npos) return true;
  const std::string_view realm = name.substr(at + 1);
  return std::count(name.begin(), name.begin() + static_cast<ptrdiff_t>(at), '/') <= 1 &&
         realm.find_first_of("/@") == std::string_view::npos;
}

bool IsWorldAnyone(const Identity& identity) {
  return identity.scheme == kWorld && identity.id == kAnyone;
}

// Whether an authentication, not a mere circumstance like the address, gave this identity.
bool IsAuthenticated(const Identity& identity) {
  return identity.scheme == kDigest || identity.scheme == kX509 || identity.scheme == kSasl;
}

bool Matches(const Identity& caller, const Identity& wanted) {
  if (caller.scheme != wanted.scheme) return false;
  if (wanted.scheme == kIp) return IsInRange(caller.id, wanted.id);
  if (wanted.scheme == kSasl && caller.id == kSuper) return true;
  return caller.id == wanted.id;
}

}  // namespace

bool IsValidId(std::string_view scheme, std::string_view id) {
  ASSERT(scheme != kAuth, "replaced before");
  if (scheme == kDigest) return IsValidDigestId(id);
  if (scheme == kIp) return ParseRange(id).has_value();
  if (scheme == kX509) return IsValidDistinguishedName(id);
  if (scheme == kSasl) return IsValidKerberosName(id);
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

bool IsAllowed(std::span<const Acl> acl, std::span<const Identity> identities,
               int32_t permissions) {
  ASSERT(permissions != 0 && (permissions & ~permission::kAll) == 0, "known permissions");
  for (const Identity& identity : identities) {
    if (identity.scheme == kSuper) return true;
  }
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
