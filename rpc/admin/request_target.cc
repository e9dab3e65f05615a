// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/request_target.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/escape.h"
#include "base/strings.h"

namespace quorate::rpc::admin {
namespace {

// Returns the value of a hexadecimal digit; -1 if `c` is none.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::StatusOr<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      const int high = i + 1 < text.size() ? HexValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return absl::InvalidArgumentError(
            "the target has a % without two hexadecimal digits after it");
      }
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  // Replies and logs show parts of targets, as one line.
  if (NeedsEscapeLine(decoded)) {
    return absl::InvalidArgumentError("the target has control characters, or is not UTF-8");
  }
  return decoded;
}

}  // namespace

std::optional<std::string_view> RequestTarget::Find(std::string_view key) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const auto& parameter) { return parameter.first == key; });
  if (found == parameters.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<RequestTarget> ParseRequestTarget(std::string_view target) {
  if (target.size() > kTargetBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target of the request, its path and query, is longer than ",
                     kTargetBytesMax, " bytes; shorten it"));
  }
  if (target.empty() || target.front() != '/') {
    return absl::InvalidArgumentError(
        "the target of the request does not begin with /; ask for a path, such as /commands/stat");
  }
  target = target.substr(0, target.find('#'));
  const size_t mark = std::min(target.find('?'), target.size());
  RequestTarget parsed;
  auto path = Decode(target.substr(0, mark), /*plus_is_space=*/false);
  if (!path.ok()) return path.status();
  parsed.path = *std::move(path);
  for (absl::string_view segment : absl::StrSplit(parsed.path, '/')) {
    if (segment == "." || segment == "..") {
      return absl::InvalidArgumentError("the path has a segment . or ..");
    }
  }
  if (mark == target.size()) return parsed;
  for (absl::string_view part :
       absl::StrSplit(ToAbsl(target.substr(mark + 1)), '&', absl::SkipEmpty())) {
    if (parsed.parameters.size() == kParametersMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("the target has more than ", kParametersMax, " parameters"));
    }
    const size_t equals = std::min(part.find('='), part.size());
    auto key = Decode(ToStd(part.substr(0, equals)), /*plus_is_space=*/true);
    if (!key.ok()) return key.status();
    auto value =
        Decode(ToStd(part.substr(std::min(equals + 1, part.size()))), /*plus_is_space=*/true);
    if (!value.ok()) return value.status();
    parsed.parameters.emplace_back(*std::move(key), *std::move(value));
  }
  return parsed;
}

}  // namespace quorate::rpc::admin
