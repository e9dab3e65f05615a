// SPDX-License-Identifier: Apache-2.0

// The target of an HTTP request, "/path?key=value&...", taken apart. This is the only part of HTTP
// that is not parsed by Boost.Beast.
//
// Thread-safety: functions without state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc::admin {

struct RequestTarget {
  std::string path;  // decoded; begins with / and has no segment "." or ".."
  std::vector<std::pair<std::string, std::string>> parameters;  // decoded, in their order

  // Returns the value of the first parameter with this key.
  std::optional<std::string_view> Find(std::string_view key) const;
};

// Takes `target` apart. "%XX" stands for a byte, and "+" in the parameters for a space. A parameter
// without "=" has an empty value. InvalidArgument, in words for the client: it does not begin with /,
// it is longer than kTargetBytesMax, it has more than kParametersMax parameters, a "%" has no two
// hexadecimal digits after it, or a decoded part is not UTF-8 or has control characters; or the path
// has a segment "." or "..".
inline constexpr size_t kTargetBytesMax = 8192;
inline constexpr size_t kParametersMax = 100;
absl::StatusOr<RequestTarget> ParseRequestTarget(std::string_view target);

}  // namespace quorate::rpc::admin
