// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/escape.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace quorate::tools {
namespace {

// A character of UTF-8 text.
struct Character {
  size_t size = 0;  // 0: the bytes are not a character
  uint32_t code = 0;
};

Character FirstCharacter(std::string_view bytes) {
  const auto byte = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < size) return {};
  uint32_t code = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[size] || code > 0x10FFFF || surrogate) return {};
  return {size, code};
}

// Returns whether the character makes a terminal act, or display something other than the bytes.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || code == 0x61C;
}

// Returns `bytes` with control characters escaped. With `keeps_lines`, newlines, tabs and
// backslashes stay.
std::string Escaped(std::string_view bytes, bool keeps_lines) {
  std::string text;
  while (!bytes.empty()) {
    const Character character = FirstCharacter(bytes);
    const size_t size = character.size == 0 ? 1 : character.size;
    const bool is_layout =
        character.code == '\n' || character.code == '\t' || character.code == '\\';
    if (is_layout && !keeps_lines) {
      text += character.code == '\n' ? "\\n" : character.code == '\t' ? "\\t" : "\\\\";
    } else if (!is_layout && (character.size == 0 || IsControl(character.code))) {
      for (char c : bytes.substr(0, size)) {
        absl::StrAppendFormat(&text, "\\x%02x", static_cast<uint8_t>(c));
      }
    } else {
      text += bytes.substr(0, size);
    }
    bytes.remove_prefix(size);
  }
  return text;
}

}  // namespace

bool IsText(std::string_view bytes) {
  while (!bytes.empty()) {
    const Character character = FirstCharacter(bytes);
    if (character.size == 0) return false;
    const bool allowed = character.code == '\n' || character.code == '\t';
    if (IsControl(character.code) && !allowed) return false;
    bytes.remove_prefix(character.size);
  }
  return true;
}

std::string Escape(std::string_view bytes) { return Escaped(bytes, /*keeps_lines=*/false); }

std::string EscapeControls(std::string_view text) { return Escaped(text, /*keeps_lines=*/true); }

}  // namespace quorate::tools
