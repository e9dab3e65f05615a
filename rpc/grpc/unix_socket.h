// SPDX-License-Identifier: Apache-2.0

// The file of a Unix socket that only this process's user can open, from its first moment on.
//
// A program that listens makes the file of its socket with the permissions that its umask leaves. So
// the file is made in a directory that only this user can enter, gets its permissions there, and is
// moved to its place, where it replaces the socket of an earlier process in one step.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::rpc {

class UnixSocketFile {
 public:
  // Makes the directory, beside `path`. An error names `path`, the reason and the way out: a
  // process listens there, a file of another kind is there, or the path is too long.
  static absl::StatusOr<std::unique_ptr<UnixSocketFile>> Create(const std::string& path);
  // Removes the directory, and the socket at `path` if it is the one that Publish has moved there.
  ~UnixSocketFile();
  UnixSocketFile(const UnixSocketFile&) = delete;
  UnixSocketFile& operator=(const UnixSocketFile&) = delete;

  // Returns the path at which to listen before Publish.
  std::string listen_path() const { return directory_ + "/s"; }
  // Moves the socket to its place, with mode 0600.
  absl::Status Publish();

 private:
  UnixSocketFile(std::string path, std::string directory);

  const std::string path_;
  const std::string directory_;
  bool is_published_ = false;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace quorate::rpc
