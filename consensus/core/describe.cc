// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/describe.h"

#include "base/assert.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {
namespace {

constexpr size_t kShownBytesMax = 40;

}  // namespace

std::string DescribePosition(Index index, Term term) {
  return Describe(index) + "@" + Describe(term);
}

std::string DescribeBytes(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : bytes.substr(0, kShownBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += '"';
  if (bytes.size() > kShownBytesMax) out += "...(" + std::to_string(bytes.size()) + " bytes)";
  return out;
}

std::string DescribeControl(const Entry& entry) {
  ASSERT(IsControl(entry.kind));
  if (entry.kind == EntryKind::kMembership) {
    const auto membership = DecodeMembership(entry.payload.view());
    return membership.ok() ? "membership " + ToString(*membership) : "malformed membership";
  }
  const auto version = DecodeVersion(entry.payload.view());
  return version.ok() ? "version " + std::to_string(*version) : "malformed version";
}

std::string DescribeEntries(std::span<const Entry> entries) {
  std::string out = "[";
  for (const Entry& entry : entries) {
    if (out.size() > 1) out += ", ";
    out += ToString(entry);
  }
  return out + "]";
}

}  // namespace quorate::consensus
