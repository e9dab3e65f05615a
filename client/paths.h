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

// "host:port[,host:port...][/chroot]". INVALID_ARGUMENT names what is wrong.
absl::StatusOr<Servers> ParseServers(std::string_view text);

// INVALID_ARGUMENT if it cannot be the path of a znode. Of a sequential one, which gets digits
// appended, the name may be empty.
absl::Status CheckPath(std::string_view path, bool is_sequential = false);

bool IsUtf8(std::string_view text);

// REQUIRES: CheckPath(path).
std::string AddChroot(std::string_view chroot, std::string_view path);
// What is not below the chroot is left as it is.
std::string StripChroot(std::string_view chroot, std::string_view path);

}  // namespace quorate::internal
