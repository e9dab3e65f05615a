// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace quorate::tools::zookeeper {

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const auto error = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return error();
  struct stat info {};
  void* address = MAP_FAILED;
  const bool has_info = ::fstat(descriptor, &info) == 0;
  const auto size = static_cast<size_t>(info.st_size);
  if (has_info && size > 0) address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const bool failed = !has_info || (size > 0 && address == MAP_FAILED);
  const absl::Status status = failed ? error() : absl::OkStatus();
  ::close(descriptor);
  if (!status.ok()) return status;
  // An empty file has nothing to map.
  const std::string_view bytes =
      size == 0 ? std::string_view() : std::string_view(static_cast<const char*>(address), size);
  return std::unique_ptr<MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace quorate::tools::zookeeper
