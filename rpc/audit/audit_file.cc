// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/audit_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc {
namespace {

constexpr mode_t kMode = S_IRUSR | S_IWUSR;  // names and addresses of users are in it

absl::Status Problem(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

// Returns a descriptor, or -1 and errno. Does not wait for the reader of a named pipe.
int OpenForAppending(const std::string& path) {
  struct stat found {};
  const bool is_regular = stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode);
  // The end of a regular file is read too.
  if (is_regular) return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
  const int descriptor = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor >= 0) fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return descriptor;
}

}  // namespace

AuditFile::AuditFile(std::string path, uint64_t bytes_max, int files_max)
    : path_(std::move(path)), bytes_max_(bytes_max), files_max_(files_max) {}

AuditFile::AuditFile(AuditFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_max_(other.bytes_max_),
      files_max_(other.files_max_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_regular_(other.is_regular_),
      size_(other.size_),
      is_in_line_(other.is_in_line_),
      is_cut_(other.is_cut_),
      rotation_(std::move(other.rotation_)) {}

AuditFile& AuditFile::operator=(AuditFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_max_, other.bytes_max_);
  std::swap(files_max_, other.files_max_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(is_regular_, other.is_regular_);
  std::swap(size_, other.size_);
  std::swap(is_in_line_, other.is_in_line_);
  std::swap(is_cut_, other.is_cut_);
  std::swap(rotation_, other.rotation_);
  return *this;
}

AuditFile::~AuditFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<AuditFile> AuditFile::Open(const std::string& path, uint64_t bytes_max,
                                          int files_max) {
  ASSERT(files_max > 0);
  AuditFile file(path, bytes_max, files_max);
  const int descriptor = OpenForAppending(path);
  if (descriptor < 0) return Problem("cannot open the audit log", path);
  file.Use(descriptor);
  // Two servers that rename the same file would lose lines of each other.
  if (file.is_regular_ && flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat("the audit log ", path, " is in use by another server"));
  }
  return file;
}

void AuditFile::Use(int descriptor) {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = descriptor;
  struct stat found {};
  is_regular_ = fstat(descriptor_, &found) == 0 && S_ISREG(found.st_mode);
  size_ = is_regular_ ? static_cast<uint64_t>(found.st_size) : 0;
  char last = '\n';
  is_cut_ = is_regular_ && size_ > 0 && pread(descriptor_, &last, 1, found.st_size - 1) == 1 &&
            last != '\n';
}

absl::Status AuditFile::Reopen() {
  const int descriptor = OpenForAppending(path_);
  if (descriptor < 0) return Problem("cannot open the audit log", path_);
  Use(descriptor);
  if (is_regular_) flock(descriptor_, LOCK_EX | LOCK_NB);
  if (is_in_line_) is_cut_ = false;  // what comes next is the rest of a line
  return absl::OkStatus();
}

void AuditFile::Sync() { fdatasync(descriptor_); }

std::string AuditFile::OlderName(int number) const { return absl::StrCat(path_, ".", number); }

absl::Status AuditFile::Rotate() {
  // The new file is made first: if that is not possible, all names stay as they are.
  const std::string made = absl::StrCat(path_, ".new");
  const int descriptor =
      open(made.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (descriptor < 0) return Problem("cannot create", made);
  for (int number = files_max_; number > 0; --number) {
    const std::string from = number == 1 ? path_ : OlderName(number - 1);
    if (rename(from.c_str(), OlderName(number).c_str()) == 0 || errno == ENOENT) continue;
    absl::Status problem = Problem("cannot rename", from);
    close(descriptor);
    unlink(made.c_str());
    return problem;
  }
  if (rename(made.c_str(), path_.c_str()) != 0) {
    absl::Status problem = Problem("cannot rename", made);
    close(descriptor);
    return problem;
  }
  Use(descriptor);
  flock(descriptor_, LOCK_EX | LOCK_NB);
  return absl::OkStatus();
}

absl::Status AuditFile::Write(std::string* lines) {
  size_t used = 0;
  absl::Status status;
  while (used < lines->size() && status.ok()) {
    std::string_view rest = std::string_view(*lines).substr(used);
    const size_t line_bytes = std::min(rest.find('\n'), rest.size() - 1) + 1;
    if (is_cut_ && !is_in_line_) {
      if (write(descriptor_, "\n", 1) != 1) {
        status = Problem("cannot write the audit log", path_);
        break;
      }
      is_cut_ = false;
      ++size_;
    }
    if (is_regular_ && !is_in_line_ && size_ > 0 && size_ + line_bytes > bytes_max_) {
      rotation_ = Rotate();
    }
    size_t bytes = rest.size();
    if (is_in_line_ || (is_regular_ && size_ + bytes > bytes_max_)) {
      const uint64_t room = bytes_max_ > size_ ? bytes_max_ - size_ : 0;
      const size_t end = room == 0 ? std::string_view::npos : rest.rfind('\n', room - 1);
      bytes = is_in_line_ || end == std::string_view::npos ? line_bytes : end + 1;
    }
    const ssize_t written = write(descriptor_, rest.data(), bytes);
    if (written < 0) {
      if (errno != EINTR) status = Problem("cannot write the audit log", path_);
      continue;
    }
    used += static_cast<size_t>(written);
    size_ += static_cast<uint64_t>(written);
    if (written > 0) is_in_line_ = rest[static_cast<size_t>(written) - 1] != '\n';
  }
  lines->erase(0, used);
  return status;
}

}  // namespace quorate::rpc
