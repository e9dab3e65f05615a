// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/printing.h"

#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace quorate::tools {
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
