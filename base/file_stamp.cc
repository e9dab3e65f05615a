// SPDX-License-Identifier: Apache-2.0

#include "base/file_stamp.h"

#include <sys/stat.h>

namespace quorate {

FileStamp StampOf(const std::string& path) {
  FileStamp stamp{.path = path};
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return stamp;
  stamp.device = facts.st_dev;
  stamp.inode = facts.st_ino;
  stamp.size = facts.st_size;
  stamp.modified_ns = int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
  stamp.mode = facts.st_mode;
  return stamp;
}

}  // namespace quorate
