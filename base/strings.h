// SPDX-License-Identifier: Apache-2.0

// Conversions between std::string_view and absl::string_view, and a hash map from std::string that
// can be searched with std::string_view. Debian builds Abseil with its own string_view type, which
// does not convert to the standard one.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace quorate {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

struct StringViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return absl::Hash<std::string_view>{}(s); }
};

// A hash map from std::string that can be searched with std::string_view without a copy.
template <typename V>
using StringMap = absl::flat_hash_map<std::string, V, StringViewHash, std::equal_to<>>;

}  // namespace quorate
