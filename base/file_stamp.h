// SPDX-License-Identifier: Apache-2.0

// Tells whether a file that was read has changed since.
//
// Thread-safety: plain values, and a function without state.
#pragma once

#include <cstdint>
#include <string>

namespace quorate {

// What identifies the content of a file and who may use it.
struct FileStamp {
  std::string path;
  // Of the file that symbolic links lead to; all 0 if there is none.
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;  // in bytes
  int64_t modified_ns = 0;
  uint32_t mode = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Returns the stamp of the file. A caller that keeps a file's content takes the stamp before it reads
// the file, so that no change in between is missed.
FileStamp StampOf(const std::string& path);

}  // namespace quorate
