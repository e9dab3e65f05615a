// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/free_space.h"

#include <sys/statvfs.h>

namespace quorate::rpc {

std::optional<uint64_t> MeasureFreeBytes(const std::string& path) {
  struct statvfs info;
  // No error is reported here: the code that uses the disk reports its errors.
  if (statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace quorate::rpc
