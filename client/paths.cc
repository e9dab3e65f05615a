// SPDX-License-Identifier: Apache-2.0

#include "client/paths.h"

#include <google/protobuf/stubs/common.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace quorate::internal {
namespace {

std::string Quoted(std::string_view text) {
  // Text that is not UTF-8 must not go into a message.
  return IsUtf8(text) ? "\"" + std::string(text) + "\"" : "a path that is not UTF-8";
}

bool IsAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view digits = text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data(),
                                                             static_cast<int>(text.size()));
}

absl::StatusOr<Servers> ParseServers(std::string_view text) {
  Servers servers;
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view chroot = text.substr(slash);
    if (absl::Status s = CheckPath(chroot); !s.ok()) {
      return absl::InvalidArgumentError("servers: the chroot: " + std::string(s.message()));
    }
    if (chroot != "/") servers.chroot = chroot;
    text = text.substr(0, slash);
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view member = text.substr(at, comma - at);
    if (!IsAddress(member)) {
      return absl::InvalidArgumentError("servers: \"" + std::string(member) +
                                        "\" is not host:port");
    }
    servers.members.emplace_back(member);
    at = comma + 1;
  }
  return servers;
}

absl::Status CheckPath(std::string_view path, bool is_sequential) {
  const auto wrong = [path](const char* why) {
    return absl::InvalidArgumentError(Quoted(path) + ": " + why);
  };
  if (path.empty() || path.front() != '/') return wrong("a path must begin with \"/\"");
  if (!IsUtf8(path)) return wrong("a path must be valid UTF-8");
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
    return wrong("a path must not contain control characters");
  }
  if (path == "/") return absl::OkStatus();
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    const bool may_be_empty = is_sequential && end == path.size();
    if (name.empty() && !may_be_empty) return wrong("a name in a path must not be empty");
    if (name == "." || name == "..") return wrong("\".\" and \"..\" are not valid names");
    at = end + 1;
  }
  return absl::OkStatus();
}

std::string AddChroot(std::string_view chroot, std::string_view path) {
  if (chroot.empty()) return std::string(path);
  if (path == "/") return std::string(chroot);
  return std::string(chroot).append(path);
}

std::string StripChroot(std::string_view chroot, std::string_view path) {
  if (chroot.empty() || !path.starts_with(chroot)) return std::string(path);
  if (path.size() == chroot.size()) return "/";
  if (path[chroot.size()] != '/') return std::string(path);
  return std::string(path.substr(chroot.size()));
}

}  // namespace quorate::internal
