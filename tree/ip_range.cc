// SPDX-License-Identifier: Apache-2.0

#include "tree/ip_range.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::tree {
namespace {

// Collects the bytes of an address, or of a part of one.
class Bytes {
 public:
  // Appends a byte. Returns false if the address is already full.
  bool Add(uint32_t byte) {
    if (size_ == bytes_.size()) return false;
    bytes_[size_++] = static_cast<uint8_t>(byte);
    return true;
  }
  size_t size() const { return size_; }
  const uint8_t* begin() const { return bytes_.data(); }
  const uint8_t* end() const { return bytes_.data() + size_; }

 private:
  std::array<uint8_t, 16> bytes_ = {};
  size_t size_ = 0;
};

// Parses a number from 0 to `max`: digits, with or without a plus sign.
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

// Appends the four bytes of an address like "127.0.0.1". Returns false if it is malformed or too
// long.
bool ParseIpv4(std::string_view text, Bytes* bytes) {
  for (int part = 0; part < 4; ++part) {
    const size_t dot = part < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return false;
    const std::optional<uint32_t> number = ParseNumber(text.substr(0, dot), 255);
    if (!number) return false;
    if (!bytes->Add(*number)) return false;
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
// Returns false if they are malformed or too many.
bool ParseIpv6Groups(std::string_view text, Bytes* bytes) {
  while (!text.empty()) {
    const size_t colon = text.find(':');
    const std::string_view group = text.substr(0, colon);
    if (colon == std::string_view::npos && group.find('.') != std::string_view::npos) {
      return ParseIpv4(group, bytes);
    }
    const std::optional<uint32_t> value = ParseHexGroup(group);
    if (!value) return false;
    if (!bytes->Add(*value >> 8) || !bytes->Add(*value & 0xff)) return false;
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
    if (text.empty()) return false;
  }
  return true;
}

}  // namespace

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  Bytes head;
  Bytes tail;
  IpAddress address;
  if (text.find(':') == std::string_view::npos) {
    if (!ParseIpv4(text, &head)) return std::nullopt;
    address.size = 4;
  } else if (const size_t gap = text.find("::"); gap == std::string_view::npos) {
    if (!ParseIpv6Groups(text, &head) || head.size() != 16) return std::nullopt;
    address.size = 16;
  } else {
    const std::string_view before = text.substr(0, gap);
    if (before.find('.') != std::string_view::npos) return std::nullopt;
    if (!ParseIpv6Groups(before, &head)) return std::nullopt;
    if (!ParseIpv6Groups(text.substr(gap + 2), &tail)) return std::nullopt;
    if (head.size() + tail.size() > 14) return std::nullopt;
    address.size = 16;
  }
  std::copy(head.begin(), head.end(), address.bytes.begin());
  std::copy(tail.begin(), tail.end(), address.bytes.end() - static_cast<ptrdiff_t>(tail.size()));
  return address;
}

IpAddress FirstBits(const IpAddress& address, size_t bits) {
  ASSERT(bits <= 8 * address.size, "the address has that many bits");
  IpAddress masked{{}, address.size};
  std::copy_n(address.bytes.begin(), bits / 8, masked.bytes.begin());
  if (bits % 8 != 0) {
    const unsigned mask = 0xffu << (8 - bits % 8);
    masked.bytes[bits / 8] = static_cast<uint8_t>(address.bytes[bits / 8] & mask);
  }
  return masked;
}

bool IpRange::Contains(const IpAddress& other) const {
  return other.size == address.size && FirstBits(other, bits) == FirstBits(address, bits);
}

std::optional<IpRange> ParseIpRange(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<IpAddress> address = ParseIpAddress(text.substr(0, slash));
  if (!address) return std::nullopt;
  IpRange range{*address, address->size * 8};
  if (slash == std::string_view::npos) return range;
  const std::optional<uint32_t> bits =
      ParseNumber(text.substr(slash + 1), static_cast<uint32_t>(range.bits));
  if (!bits) return std::nullopt;
  range.bits = *bits;
  return range;
}

}  // namespace quorate::tree
