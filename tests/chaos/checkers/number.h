// SPDX-License-Identifier: Apache-2.0

// Data that begin with a number: "17" or "17 4.231".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quorate::chaos {

inline std::optional<int64_t> LeadingNumber(std::string_view data) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(data.data(), data.data() + data.size(), number);
  const bool ends = end == data.data() + data.size() || *end == ' ';
  if (error != std::errc() || !ends) return std::nullopt;
  return number;
}

}  // namespace quorate::chaos
