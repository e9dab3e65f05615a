#include "tools/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quorate::tools {
namespace {

// How many letters have to be put in, taken out or replaced to make one of the other.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

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

std::string Table(const std::vector<std::vector<std::string>>& rows) {
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

std::vector<std::string> SimilarNames(const std::string& name,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> similar;
  for (const std::string& other : names) {
    if (EditDistance(name, other) <= 2 || absl::EqualsIgnoreCase(name, other) ||
        (name.size() >= 3 && absl::StartsWith(other, name))) {
      similar.push_back(other);
    }
  }
  return similar;
}

}  // namespace quorate::tools
