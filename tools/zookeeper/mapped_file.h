// SPDX-License-Identifier: Apache-2.0

// A file mapped into memory.
//
// Thread-safety: objects are immutable.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quorate::tools::zookeeper {

class MappedFile {
 public:
  // Maps the file. Errors name the path. The file must not become shorter while it is mapped.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}

  const std::string_view bytes_;
};

}  // namespace quorate::tools::zookeeper
