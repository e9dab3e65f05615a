// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace quorate::rpc {
namespace {

constexpr int kFirstDescriptor = STDOUT_FILENO;

std::string PathOf(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  char path[4096];
  const ssize_t size =
      readlink(absl::StrCat("/proc/self/fd/", descriptor).c_str(), path, sizeof(path) - 1);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

// Opens the log file at `path`. If it does not exist, makes it with the permissions of the file
// before, which a supervisor has chosen for those who read logs. Returns -1 on failure.
int OpenLike(int before, const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC;
  const int opened = open(path.c_str(), kFlags);
  if (opened >= 0 || errno != ENOENT) return opened;
  const int made = open(path.c_str(), kFlags | O_CREAT, S_IRUSR | S_IWUSR);
  struct stat info {};
  if (made >= 0 && fstat(before, &info) == 0) {
    // The log is written even if its readers have to wait for the administrator.
    [[maybe_unused]] const int changed = fchmod(made, info.st_mode & 0666);
  }
  return made;
}

}  // namespace

LogFiles::LogFiles() {
  for (size_t i = 0; i < paths_.size(); ++i) {
    paths_[i] = PathOf(kFirstDescriptor + static_cast<int>(i));
  }
}

absl::Status LogFiles::Reopen() {
  absl::Status result;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (paths_[i].empty()) continue;
    const int opened = OpenLike(kFirstDescriptor + static_cast<int>(i), paths_[i]);
    if (opened < 0) {
      result = absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", paths_[i]));
      continue;
    }
    if (dup2(opened, kFirstDescriptor + static_cast<int>(i)) < 0) {
      result = absl::ErrnoToStatus(errno, absl::StrCat("cannot log to ", paths_[i]));
    }
    close(opened);
  }
  return result;
}

}  // namespace quorate::rpc
