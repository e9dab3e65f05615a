// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/text.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/escape.h"

namespace quorate::tools {

std::string Hex(uint64_t number) { return absl::StrCat("0x", absl::Hex(number)); }

std::string HexBytes(std::string_view bytes) {
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

std::string Bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  auto size = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; size >= 1000 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return absl::StrFormat("%.*f %s", size < 10 ? 1 : 0, size, kUnits[unit]);
}

std::string Duration(int64_t ms) {
  const int64_t seconds = ms / 1000;
  if (seconds < 60) return absl::StrCat(seconds, " s");
  const int64_t minutes = seconds / 60;
  if (minutes < 60) return absl::StrCat(minutes, " min ", seconds % 60, " s");
  const int64_t hours = minutes / 60;
  if (hours < 24) return absl::StrCat(hours, " h ", minutes % 60, " min");
  return absl::StrCat(hours / 24, " d ", hours % 24, " h");
}

std::string Table(const std::vector<std::vector<std::string>>& cells) {
  // A cell may come from a server.
  std::vector<std::vector<std::string>> rows = cells;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = EscapeLine(cell);
  }
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace quorate::tools
