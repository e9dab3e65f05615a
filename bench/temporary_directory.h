// SPDX-License-Identifier: Apache-2.0

// A directory below $TEST_TMPDIR or /tmp, which is removed with its contents in the destructor.
//
// Thread-safety: none needed.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/assert.h"

namespace quorate::bench {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* parent = std::getenv("TEST_TMPDIR");
    path_ = std::string(parent == nullptr ? "/tmp" : parent) + "/quorate-bench-XXXXXX";
    ASSERT(mkdtemp(path_.data()) != nullptr, "a directory for what is measured");
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quorate::bench
