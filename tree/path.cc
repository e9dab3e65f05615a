// SPDX-License-Identifier: Apache-2.0

#include "tree/path.h"

#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace quorate::tree {
namespace {

constexpr uint32_t kIllegalCharacter = 0;

uint8_t Byte(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<uint8_t>(bytes[at]) : 0;
}

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Returns the character at `*at` of a UTF-8 text, and moves `*at` behind it. Returns
// kIllegalCharacter for malformed text, which ZooKeeper reads as U+FFFD, and for characters of four
// bytes, which ZooKeeper reads as surrogates: it allows neither in a path.
uint32_t NextCharacter(std::string_view text, size_t* at) {
  const uint8_t first = Byte(text, *at);
  if (first < 0x80) {
    *at += 1;
    return first;
  }
  const uint8_t second = Byte(text, *at + 1);
  if (first >= 0xC2 && first <= 0xDF && IsContinuation(second)) {
    *at += 2;
    return (first & 0x1Fu) << 6 | (second & 0x3Fu);
  }
  const uint8_t third = Byte(text, *at + 2);
  if ((first & 0xF0) == 0xE0 && IsContinuation(second) && IsContinuation(third)) {
    *at += 3;
    const uint32_t character = (first & 0x0Fu) << 12 | (second & 0x3Fu) << 6 | (third & 0x3Fu);
    return character >= 0x800 ? character : kIllegalCharacter;
  }
  return kIllegalCharacter;
}

bool IsLegalCharacter(uint32_t character) {
  return character > 0x1F && !(character >= 0x7F && character <= 0x9F) &&
         !(character >= 0xD800 && character <= 0xF8FF) &&
         !(character >= 0xFFF0 && character <= 0xFFFF);
}

bool IsDots(std::string_view segment) { return segment == "." || segment == ".."; }

}  // namespace

bool IsValidPath(std::string_view path, bool sequential) {
  if (path.empty() || path.front() != '/') return false;
  size_t segment_start = 1;
  for (size_t at = 1; at < path.size();) {
    if (path[at] == '/') {
      const std::string_view segment = path.substr(segment_start, at - segment_start);
      if (segment.empty() || IsDots(segment)) return false;
      segment_start = ++at;
      continue;
    }
    if (!IsLegalCharacter(NextCharacter(path, &at))) return false;
  }
  if (sequential) return true;
  const std::string_view last = path.substr(segment_start);
  return path.size() == 1 || (!last.empty() && !IsDots(last));
}

std::string_view ParentPath(std::string_view path) {
  ASSERT(path.size() > 1 && path.front() == '/', "only the root has no parent");
  const size_t slash = path.rfind('/');
  ASSERT(slash + 1 < path.size(), "a legal path does not end in a slash");
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string_view LastSegment(std::string_view path) {
  ASSERT(!path.empty() && path.front() == '/', "a path starts with a slash");
  return path.substr(path.rfind('/') + 1);
}

}  // namespace quorate::tree
