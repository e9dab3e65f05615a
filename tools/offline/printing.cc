#include "tools/offline/printing.h"

#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace quorate::tools {
namespace {

// A character of UTF-8 text.
struct Character {
  size_t size = 0;  // 0: the bytes are none
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

// What makes a terminal do something, or show something else than is there.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || code == 0x61C;
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
  while (!bytes.empty()) {
    const Character character = FirstCharacter(bytes);
    const size_t size = character.size == 0 ? 1 : character.size;
    if (character.code == '\n') {
      text += "\\n";
    } else if (character.code == '\t') {
      text += "\\t";
    } else if (character.code == '\\') {
      text += "\\\\";
    } else if (character.size == 0 || IsControl(character.code)) {
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

std::string Count(uint64_t count, std::string_view word) {
  return absl::StrCat(count, " ", ToAbsl(word), count == 1 ? "" : "s");
}

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

std::string TextOrHex(std::string_view bytes) {
  if (!IsText(bytes)) return "hex:" + Hex(bytes);
  std::string text = "\"";
  for (char c : Escape(bytes)) {
    if (c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string HexNumber(uint64_t number) { return absl::StrCat("0x", absl::Hex(number)); }

std::string TimeText(int64_t time_ms) {
  constexpr int64_t kYear10000Seconds = 253402300800;
  const int64_t ms = (time_ms % 1000 + 1000) % 1000;
  const auto seconds = static_cast<std::time_t>((time_ms - ms) / 1000);
  std::tm parts{};
  if (seconds < 0 || seconds >= kYear10000Seconds || gmtime_r(&seconds, &parts) == nullptr) {
    return absl::StrCat(time_ms, " ms");
  }
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d:%02d.%03d UTC", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         ms);
}

void SetText(std::string_view name, std::string_view bytes, nlohmann::ordered_json* object) {
  if (IsText(bytes)) {
    (*object)[std::string(name)] = std::string(bytes);
  } else {
    (*object)[std::string(name) + "_hex"] = Hex(bytes);
  }
}

}  // namespace quorate::tools
