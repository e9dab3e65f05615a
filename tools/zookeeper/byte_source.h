// A source of the bytes of a file, in order, decompressed if necessary.
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
  // Reads up to `size` bytes to `to`; returns how many, which is 0 only at the end. DataLoss if the
  // data cannot be decompressed, Internal if they cannot be read. REQUIRES: size > 0.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

// Opens a file. NotFound or Internal, naming it, if that fails.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// A source of `bytes`, which must outlive it.
std::unique_ptr<ByteSource> OpenMemory(std::string_view bytes);

// A source of the content of `compressed`: decompressed if it begins as gzip or as a stream of
// Java's snappy library (ZooKeeper's two methods), otherwise unchanged. Errors are those of a first
// read.
absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> compressed);

}  // namespace quorate::tools::zookeeper
