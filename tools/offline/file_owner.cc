// SPDX-License-Identifier: Apache-2.0

#include "tools/offline/file_owner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace quorate::tools {

namespace fs = std::filesystem;

absl::Status GiveToOwnerOf(const std::string& directory, const std::string& path) {
  struct stat owner {};
  const auto failure = [&](const std::error_code& error) {
    return absl::InternalError(absl::StrCat(path, ": cannot be given to the owner of ", directory,
                                            ", as whom its server runs: ", error.message()));
  };
  const auto last_failure = [&] { return failure({errno, std::generic_category()}); };
  if (stat(directory.c_str(), &owner) != 0) return last_failure();
  // Only root can give files away, and has to.
  if (geteuid() != 0 || owner.st_uid == 0) return absl::OkStatus();
  if (lchown(path.c_str(), owner.st_uid, owner.st_gid) != 0) {
    return errno == ENOENT ? absl::OkStatus() : last_failure();
  }
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return absl::OkStatus();
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (lchown(it->path().c_str(), owner.st_uid, owner.st_gid) != 0) return last_failure();
  }
  return error ? failure(error) : absl::OkStatus();
}

}  // namespace quorate::tools
