// SPDX-License-Identifier: Apache-2.0

// IP addresses and ranges of them, as in "ip" entries of access control lists.
//
// Thread-safety: values.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quorate::tree {

struct IpAddress {
  std::array<uint8_t, 16> bytes = {};  // in network order; bytes beyond `size` are 0
  size_t size = 0;                     // 4 or 16
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

// Parses an address such as "127.0.0.1", "::1" or "::ffff:1.2.3.4". Returns nullopt if the text is
// not an address.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

// Returns the address with all bits after the first `bits` set to 0. REQUIRES: bits <= 8 *
// address.size.
IpAddress FirstBits(const IpAddress& address, size_t bits);

struct IpRange {
  IpAddress address;
  size_t bits = 0;  // the length of the prefix that all addresses of the range share

  bool Contains(const IpAddress& other) const;
};

// Parses a range such as "10.0.0.0/8", or a single address, which is a range of one address.
// Returns nullopt if the text is neither.
std::optional<IpRange> ParseIpRange(std::string_view text);

}  // namespace quorate::tree
