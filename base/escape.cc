// SPDX-License-Identifier: Apache-2.0

#include "base/escape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quorate {
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

// What is left as it is.
struct Kept {
  bool lines = false;  // newlines and tabs
  bool backslashes = false;
};

// Returns whether the byte is shown as it is in all cases, whatever follows.
bool IsPlain(char c) { return c >= 0x20 && c < 0x7F && c != '\\'; }

void AppendHex(std::string_view bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    *out += "\\x";
    *out += kDigits[byte >> 4];
    *out += kDigits[byte & 0xF];
  }
}

void AppendEscaped(std::string_view bytes, Kept kept, std::string* out) {
  while (!bytes.empty()) {
    const auto first = std::ranges::find_if_not(bytes, IsPlain);
    const auto plain = static_cast<size_t>(first - bytes.begin());
    *out += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    if (bytes.empty()) return;
    const Character character = FirstCharacter(bytes);
    const size_t size = character.size == 0 ? 1 : character.size;
    const bool is_layout = character.code == '\n' || character.code == '\t';
    if (character.code == '\\' && character.size != 0) {
      *out += kept.backslashes ? "\\" : "\\\\";
    } else if (is_layout && !kept.lines) {
      *out += character.code == '\n' ? "\\n" : "\\t";
    } else if (!is_layout && (character.size == 0 || IsControl(character.code))) {
      AppendHex(bytes.substr(0, size), out);
    } else {
      *out += bytes.substr(0, size);
    }
    bytes.remove_prefix(size);
  }
}

// Returns the first `bytes_max` bytes, or fewer, so that no character is cut.
std::string_view FirstWhole(std::string_view bytes, size_t bytes_max) {
  if (bytes.size() <= bytes_max) return bytes;
  size_t end = bytes_max;
  constexpr size_t kContinuationsMax = 3;
  while (end > 0 && bytes_max - end < kContinuationsMax &&
         (static_cast<uint8_t>(bytes[end]) & 0xC0u) == 0x80) {
    --end;
  }
  return bytes.substr(0, end);
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

std::string Escape(std::string_view bytes) {
  std::string text;
  AppendEscaped(bytes, Kept{}, &text);
  return text;
}

void AppendEscaped(std::string_view bytes, size_t bytes_max, std::string* out) {
  AppendEscaped(FirstWhole(bytes, bytes_max), Kept{}, out);
  if (bytes.size() > bytes_max) *out += "...(" + std::to_string(bytes.size()) + " bytes)";
}

std::string EscapeLine(std::string_view bytes) {
  std::string text;
  AppendEscaped(bytes, Kept{.backslashes = true}, &text);
  return text;
}

std::string EscapeControls(std::string_view text) {
  std::string escaped;
  AppendEscaped(text, Kept{.lines = true, .backslashes = true}, &escaped);
  return escaped;
}

bool NeedsEscapeLine(std::string_view bytes) {
  while (!bytes.empty()) {
    if (IsPlain(bytes.front()) || bytes.front() == '\\') {
      bytes.remove_prefix(1);
      continue;
    }
    const Character character = FirstCharacter(bytes);
    if (character.size == 0 || IsControl(character.code)) return true;
    bytes.remove_prefix(character.size);
  }
  return false;
}

}  // namespace quorate
