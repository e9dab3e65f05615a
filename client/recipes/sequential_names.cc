// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/sequential_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/assert.h"

namespace quorate {
namespace {

constexpr size_t kDigits = 10;

// Returns the distance, with wrap-around: positive if `number` was assigned after `origin`.
int32_t DistanceFrom(int32_t origin, int32_t number) {
  return static_cast<int32_t>(static_cast<uint32_t>(number) - static_cast<uint32_t>(origin));
}

}  // namespace

std::optional<int32_t> SequenceNumberOf(std::string_view name, std::string_view prefix) {
  ASSERT(!prefix.empty());
  const size_t found = name.rfind(prefix);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view text = name.substr(found + prefix.size());
  const bool has_ten_digits_and_sign =
      text.size() == kDigits + 1 && text[0] == '-' && text[1] != '0';
  if (text.size() != kDigits && !has_ten_digits_and_sign) return std::nullopt;
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void SortByNumber(std::vector<SequentialName>* names) {
  if (names->empty()) return;
  // All numbers are compared by their distance from the same one: comparing them pairwise would not
  // be a strict weak order if a client invented names that are far apart.
  const int32_t origin = names->front().number;
  std::sort(names->begin(), names->end(),
            [origin](const SequentialName& a, const SequentialName& b) {
              return std::pair(DistanceFrom(origin, a.number), std::string_view(a.name)) <
                     std::pair(DistanceFrom(origin, b.number), std::string_view(b.name));
            });
}

std::vector<SequentialName> SortSequentialNames(std::vector<std::string> names,
                                                const std::vector<std::string>& prefixes) {
  std::vector<SequentialName> sorted;
  sorted.reserve(names.size());
  for (std::string& name : names) {
    for (size_t prefix = 0; prefix < prefixes.size(); ++prefix) {
      const std::optional<int32_t> number = SequenceNumberOf(name, prefixes[prefix]);
      if (!number.has_value()) continue;
      sorted.push_back({std::move(name), *number, prefix});
      break;
    }
  }
  SortByNumber(&sorted);
  return sorted;
}

std::string NewProtectionPrefix() {
  std::random_device random;
  std::array<char, 16> bytes;
  for (char& byte : bytes) byte = static_cast<char>(random());
  // Version 4, variant 1 (RFC 4122).
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  const std::string hex = absl::BytesToHexString({bytes.data(), bytes.size()});
  return "_c_" + hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20) + "-";
}

}  // namespace quorate
