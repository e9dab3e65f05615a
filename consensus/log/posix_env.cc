// SPDX-License-Identifier: Apache-2.0

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "consensus/log/env.h"
#include "consensus/log/out_of_descriptors.h"

namespace quorate::consensus {
namespace {

// Only the owner has access: the files have the data that access control lists protect.
constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
constexpr size_t kZeroChunkBytes = 1u << 20;
// The type of the empty payload of a status that IsOutOfDescriptors recognizes.
constexpr char kOutOfDescriptorsUrl[] = "quorate/out-of-descriptors";

// Returns a status that names the path, the action and the text of `error` (an errno).
absl::Status PathError(int error, const std::string& path, const std::string& action) {
  ASSERT(error != 0);
  absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot ", action));
  if (error == EMFILE || error == ENFILE) status.SetPayload(kOutOfDescriptorsUrl, absl::Cord());
  return status;
}

// Repeats a system call as long as signals interrupt it.
template <class Call>
auto Retry(Call call) {
  for (;;) {
    auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

// Owns a file descriptor, and closes it when destroyed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) { ASSERT(fd >= 0); }
  // Does not retry after EINTR, because on Linux the descriptor is closed even then.
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class PosixFile : public File {
 public:
  PosixFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
    std::array<iovec, kPiecesAtOnce> vectors;
    size_t next_piece = 0;
    size_t first = 0;  // vectors[first, count) are still to be written
    size_t count = 0;
    for (;;) {
      if (first == count) {
        first = count = 0;
        for (; next_piece < pieces.size() && count < vectors.size(); ++next_piece) {
          const std::string_view piece = pieces[next_piece];
          if (piece.empty()) continue;
          vectors[count++] = {const_cast<char*>(piece.data()), piece.size()};
        }
        if (count == 0) return absl::OkStatus();
      }
      const ssize_t written = Retry([&] {
        return pwritev(fd_.get(), &vectors[first], static_cast<int>(count - first),
                       static_cast<off_t>(offset));
      });
      if (written < 0) return PathError(errno, path_, absl::StrCat("write at offset ", offset));
      if (written == 0) return PathError(ENOSPC, path_, absl::StrCat("write at offset ", offset));
      offset += static_cast<uint64_t>(written);
      for (size_t left = static_cast<size_t>(written); left > 0;) {
        ASSERT(first < count, "no more is written than was given");
        iovec& vector = vectors[first];
        const size_t taken = std::min(left, vector.iov_len);
        vector.iov_base = static_cast<char*>(vector.iov_base) + taken;
        vector.iov_len -= taken;
        left -= taken;
        if (vector.iov_len == 0) ++first;
      }
    }
  }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = Retry([&] {
        return pread(fd_.get(), to + done, size - done, static_cast<off_t>(offset + done));
      });
      if (got < 0) {
        return PathError(errno, path_,
                         absl::StrCat("read ", size, " bytes at offset ", offset + done));
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    ASSERT(done <= size);
    return done;
  }

  absl::Status Preallocate(uint64_t size) override {
    absl::StatusOr<uint64_t> old_size = Size();
    if (!old_size.ok()) return old_size.status();
    if (*old_size >= size) return absl::OkStatus();
    // Mode 0 sets the length too, so that an fdatasync after a later write has no inode to write.
    if (Retry([&] { return fallocate(fd_.get(), 0, 0, static_cast<off_t>(size)); }) == 0) {
      return absl::OkStatus();
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
      return PathError(errno, path_, absl::StrCat("allocate ", size, " bytes"));
    }
    const std::string zeros(std::min<uint64_t>(kZeroChunkBytes, size - *old_size), '\0');
    for (uint64_t offset = *old_size; offset < size;) {
      const std::string_view piece(zeros.data(), std::min<uint64_t>(zeros.size(), size - offset));
      if (absl::Status s = WriteAt(offset, {&piece, 1}); !s.ok()) return s;
      offset += piece.size();
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t size) override {
    if (Retry([&] { return ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) {
      return PathError(errno, path_, absl::StrCat("set the length to ", size, " bytes"));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    // Not repeated after a failure: the kernel forgets which pages it could not write, so that a
    // second call would succeed without the data being on the disk.
    if (fdatasync(fd_.get()) != 0) return PathError(errno, path_, "sync (fdatasync)");
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() const override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return PathError(errno, path_, "ask for the length");
    ASSERT(info.st_size >= 0);
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  static constexpr size_t kPiecesAtOnce = 256;
  static_assert(kPiecesAtOnce <= IOV_MAX, "one system call takes them");

  const std::string path_;
  const Descriptor fd_;
};

class PosixDirectoryLock : public DirectoryLock {
 public:
  explicit PosixDirectoryLock(int fd) : fd_(fd) {}

 private:
  const Descriptor fd_;
};

class PosixEnv : public Env {
 public:
  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0);
    const int fd = Retry([&] { return open(path.c_str(), flags, kFileMode); });
    if (fd < 0) return PathError(errno, path, create ? "open or create" : "open");
    return std::make_unique<PosixFile>(path, fd);
  }

  absl::StatusOr<std::unique_ptr<File>> OpenFileToRead(const std::string& path) const {
    const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
    if (fd < 0) return PathError(errno, path, "open");
    return std::make_unique<PosixFile>(path, fd);
  }

  absl::Status CreateDirectories(const std::string& path) override {
    ASSERT(!path.empty());
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      if (mkdir(prefix.c_str(), kDirectoryMode) == 0) {
        if (absl::Status s = SyncDirectory(Parent(prefix)); !s.ok()) return s;
      } else if (const int error = errno; error != EEXIST && !IsThere(prefix)) {
        return PathError(error, prefix, "create the directory");
      }
      if (end == std::string::npos) break;
    }
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return PathError(errno, path, "use as a directory");
    if (!S_ISDIR(info.st_mode)) return PathError(ENOTDIR, path, "use as a directory");
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return PathError(errno, path, "list the directory");
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* item = readdir(directory)) {
      const std::string_view name = item->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    closedir(directory);
    if (error != 0) return PathError(error, path, "list the directory");
    std::sort(names.begin(), names.end());
    return names;
  }

  // A path that cannot be examined counts as existing: opening it then reports the reason.
  bool Exists(const std::string& path) override {
    return IsThere(path) || (errno != ENOENT && errno != ENOTDIR);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return PathError(errno, from, absl::StrCat("rename to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return PathError(errno, path, "remove");
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return PathError(errno, path, "open the directory");
    const Descriptor closer(fd);
    if (fsync(fd) != 0) return PathError(errno, path, "sync the directory");
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    const std::string lock_path = absl::StrCat(path, "/LOCK");
    const int fd =
        Retry([&] { return open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode); });
    if (fd < 0) return PathError(errno, lock_path, "open or create");
    auto lock = std::make_unique<PosixDirectoryLock>(fd);
    if (absl::Status s = Lock(path, fd, LOCK_EX); !s.ok()) return s;
    // The process id serves only the error message of Lock, so a full disk is no error here. An
    // older process id is overwritten, which needs no space.
    char text[24];
    const int size = std::snprintf(text, sizeof(text), "%d\n", static_cast<int>(getpid()));
    ASSERT(size > 0 && static_cast<size_t>(size) < sizeof(text));
    const ssize_t written = pwrite(fd, text, static_cast<size_t>(size), 0);
    const bool is_full = written < 0 && errno == ENOSPC;
    if ((written != size && !is_full) || (written == size && ftruncate(fd, size) != 0)) {
      return PathError(errno, lock_path, "write the process id");
    }
    return lock;
  }

 protected:
  static bool IsThere(const std::string& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0;
  }

  static std::string Parent(const std::string& path) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
  }

  // `kind` is LOCK_EX or LOCK_SH.
  static absl::Status Lock(const std::string& path, int fd, int kind) {
    // An flock belongs to the open file description, so it also excludes a second user in this
    // process.
    if (Retry([&] { return flock(fd, kind | LOCK_NB); }) == 0) return absl::OkStatus();
    if (errno != EWOULDBLOCK) return PathError(errno, path + "/LOCK", "lock");
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the directory is in use by a running server", HolderOf(fd),
                     "; stop that server, or give another directory"));
  }

  // Returns " (process 123)" with the process id in the lock file, or "" if there is none.
  static std::string HolderOf(int fd) {
    char text[16];
    const ssize_t size = pread(fd, text, sizeof(text), 0);
    int pid = 0;
    for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9' && i < 9; ++i) {
      pid = pid * 10 + (text[i] - '0');
    }
    return pid == 0 ? std::string() : absl::StrCat(" (process ", pid, ")");
  }
};

// An Env for reading only: it refuses every change.
class ReadOnlyPosixEnv : public PosixEnv {
 public:
  absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) override {
    if (create) return Refuse(path);
    return OpenFileToRead(path);
  }
  absl::Status CreateDirectories(const std::string& path) override { return Refuse(path); }
  absl::Status Rename(const std::string& from, const std::string&) override { return Refuse(from); }
  absl::Status Remove(const std::string& path) override { return Refuse(path); }
  absl::Status SyncDirectory(const std::string& path) override { return Refuse(path); }
  absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override {
    const std::string lock_path = path + "/LOCK";
    const int fd = Retry([&] { return open(lock_path.c_str(), O_RDONLY | O_CLOEXEC); });
    // Without the file no process holds the lock, because a holder creates it.
    if (fd < 0 && errno == ENOENT) return std::make_unique<DirectoryLock>();
    if (fd < 0) return PathError(errno, lock_path, "open");
    auto lock = std::make_unique<PosixDirectoryLock>(fd);
    if (absl::Status s = Lock(path, fd, LOCK_SH); !s.ok()) return s;
    return lock;
  }

 private:
  static absl::Status Refuse(const std::string& path) {
    return absl::PermissionDeniedError(path + ": is only looked at, not changed");
  }
};

}  // namespace

bool IsOutOfDescriptors(const absl::Status& status) {
  return status.GetPayload(kOutOfDescriptorsUrl).has_value();
}

Env* Env::PosixReadOnly() {
  static ReadOnlyPosixEnv env;
  return &env;
}

Env* Env::Posix() {
  static PosixEnv env;
  return &env;
}

}  // namespace quorate::consensus
