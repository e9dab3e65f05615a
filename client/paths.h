// SPDX-License-Identifier: Apache-2.0

// Addresses of members, and paths of znodes below a chroot.
//
// Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::internal {

struct Servers {
  std::vector<std::string> members;  // "host:port"
  std::string chroot;                // empty: none
};

// Parses "host:port[,host:port...][/chroot]". INVALID_ARGUMENT: the message names the fault.
absl::StatusOr<Servers> ParseServers(std::string_view text);

// Returns INVALID_ARGUMENT if `path` cannot be the path of a znode. The name of a sequential znode
// may be empty, because the servers append digits to it.
absl::Status CheckPath(std::string_view path, bool is_sequential = false);

bool IsUtf8(std::string_view text);

// REQUIRES: CheckPath(path).
std::string AddChroot(std::string_view chroot, std::string_view path);
// Returns `path` without the chroot; unchanged if it is not below the chroot.
std::string StripChroot(std::string_view chroot, std::string_view path);

}  // namespace quorate::internal
