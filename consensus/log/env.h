// SPDX-License-Identifier: Apache-2.0

// The operations on files and directories that the log needs, behind an interface that tests
// replace with a disk that loses writes, tears them and fails (fault_env.h).
//
// Thread-safety: an Env may be used from any thread; one file object from one thread at a time,
// except where a comment says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::consensus {

// The unit that a disk writes whole or not at all, at multiples of it, even if the power fails.
inline constexpr uint64_t kSectorBytes = 512;

// A file open for reading and writing at any offset.
class File {
 public:
  virtual ~File() = default;
  // Writes all the pieces one after another from `offset` on. The bytes are not durable before
  // Sync.
  virtual absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) = 0;
  // Reads up to `size` bytes into `to`, and returns their number, which is less than `size` only at
  // the end of the file. REQUIRES: `to` has space for `size` bytes. May be called from several
  // threads, also during WriteAt elsewhere in the file.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const = 0;
  // Reserves zero-filled space so that later writes below `size` do not change the file's length.
  // The content stays as it is, and the file never gets shorter.
  virtual absl::Status Preallocate(uint64_t size) = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  // Makes all bytes written so far durable (fdatasync).
  virtual absl::Status Sync() = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

// A lock held on a directory until destroyed.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

class Env {
 public:
  virtual ~Env() = default;
  // Returns the real file system.
  static Env* Posix();
  // Returns the real file system, read-only: files are opened for reading, and calls that change
  // something fail with PermissionDenied. Its lock excludes servers, but not other read-only users.
  static Env* PosixReadOnly();

  // Opens a file, creating it if `create`; NotFound if it is missing and `create` is false.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path, bool create) = 0;
  // Creates the directory and its parents if they are missing. What it creates is durable when it
  // returns.
  virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // Returns the names (not paths) in a directory, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Makes creations, renames and removals in a directory durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Locks a directory. Returns FailedPrecondition, naming the directory, if another process (or
  // this one) holds the lock.
  virtual absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) = 0;
};

}  // namespace quorate::consensus
