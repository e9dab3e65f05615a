// SPDX-License-Identifier: Apache-2.0

// A source that returns the bytes of a file in order, decompressed if necessary.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quorate::tools::zookeeper {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `size` bytes to `to`. Returns the number of bytes, which is 0 only at the end.
  // DataLoss if the data cannot be decompressed, Internal if it cannot be read. REQUIRES: size > 0.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

// Opens a file. NotFound or Internal, naming the file, if that fails.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// Returns a source of `bytes`, which must outlive it.
std::unique_ptr<ByteSource> OpenMemory(std::string_view bytes);

// Returns a source of the content of `compressed`: decompressed if it begins as gzip or as a stream
// of Java's snappy library (ZooKeeper's two methods), otherwise unchanged. Errors are those of
// reading its beginning.
absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> compressed);

}  // namespace quorate::tools::zookeeper
