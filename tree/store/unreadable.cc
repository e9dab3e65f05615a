// SPDX-License-Identifier: Apache-2.0

#include "tree/store/unreadable.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quorate::tree {
namespace {

// A store has directories, and these contain only files.
constexpr int kDepth = 2;

absl::Status Unreadable(const std::string& path, const char* what) {
  if (errno == ENOENT) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, ": cannot ", what, ": ", std::strerror(errno)));
}

// Returns the error of the first file or directory that cannot be read, in the order of the names.
absl::Status LookAt(const std::string& path, int depth) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Unreadable(path, "look at it");
  if (!S_ISDIR(info.st_mode)) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return Unreadable(path, "open");
    char byte = 0;
    const ssize_t size = read(file, &byte, 1);
    const absl::Status status = size < 0 ? Unreadable(path, "read") : absl::OkStatus();
    close(file);
    return status;
  }
  if (depth == 0) return absl::OkStatus();
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return Unreadable(path, "list the directory");
  std::vector<std::string> names;
  while (const dirent* item = readdir(directory)) {
    const std::string name = item->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (absl::Status s = LookAt(absl::StrCat(path, "/", name), depth - 1); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WithUnreadableFile(const std::string& path, absl::Status error) {
  absl::Status unreadable = LookAt(path, kDepth);
  return unreadable.ok() ? error : unreadable;
}

}  // namespace quorate::tree
