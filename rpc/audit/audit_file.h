// SPDX-License-Identifier: Apache-2.0

// The file of the audit log, with older ones beside it: PATH is written, PATH.1 is the newest of the
// older ones. A file that would become too large is renamed, and the oldest one is removed.
//
// A file never ends in a part of a line, unless the machine or the process crashed: after a write
// that failed in the middle of a line, the next write continues that line. Such a part at the end of
// an existing file is ended before the first line that is added.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::rpc {

class AuditFile {
 public:
  // Opens the file, or creates it with mode 0600. A file has at most `bytes_max` bytes, unless one
  // line has more; at most `files_max` older ones are kept. A pipe or device is written too, and
  // never renamed. Returns an error that names the file if it cannot be opened. REQUIRES:
  // files_max > 0.
  static absl::StatusOr<AuditFile> Open(const std::string& path, uint64_t bytes_max, int files_max);
  AuditFile(AuditFile&& other) noexcept;
  AuditFile& operator=(AuditFile&& other) noexcept;
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;
  ~AuditFile();

  // Writes `*lines`, whole lines or the rest of what an earlier call could not write, and removes
  // what was written from it. Returns an error that names the file if not all could be written.
  absl::Status Write(std::string* lines);
  // Makes what was written durable, as far as the file supports that.
  void Sync();
  // Opens the file again by its name, because another program may have moved it away. Returns an
  // error that names the file if that fails; then the file stays the one from before.
  absl::Status Reopen();

  // Returns why the file could not be renamed when it was last too large, and so is larger than it
  // should be; OK if it could.
  const absl::Status& rotation() const { return rotation_; }

 private:
  AuditFile(std::string path, uint64_t bytes_max, int files_max);

  std::string OlderName(int number) const;
  absl::Status Rotate();
  // Takes over an open descriptor.
  void Use(int descriptor);

  std::string path_;
  uint64_t bytes_max_;
  int files_max_;
  int descriptor_ = -1;
  bool is_regular_ = false;
  uint64_t size_ = 0;
  bool is_in_line_ = false;  // the last write ended in the middle of a line
  bool is_cut_ = false;      // the file ends in a part of a line of an earlier process
  absl::Status rotation_;
};

}  // namespace quorate::rpc
