// Addresses and ranges of addresses, as "ip" entries of access control lists have them.
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
  std::array<uint8_t, 16> bytes = {};  // in network order; bytes behind `size` are 0
  size_t size = 0;                     // 4 or 16
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

// Parses "127.0.0.1", "::1" or "::ffff:1.2.3.4"; nullopt if the text is none of these.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

// Returns the address with all bits behind the first `bits` set to 0. REQUIRES: bits <= 8 *
// address.size.
IpAddress FirstBits(const IpAddress& address, size_t bits);

struct IpRange {
  IpAddress address;
  size_t bits = 0;  // the length of the prefix that all addresses of the range share

  bool Contains(const IpAddress& other) const;
};

// Parses "10.0.0.0/8", or an address alone, which is a range of one; nullopt if the text is
// neither.
std::optional<IpRange> ParseIpRange(std::string_view text);

}  // namespace quorate::tree
