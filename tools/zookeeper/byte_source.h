// The bytes of a file, one after the other, decompressed on the way.
//
// Thread-safety: none inside.
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
  // Reads up to `size` bytes to `to`; returns how many, which is 0 only at the end. DataLoss if
  // what is there cannot be decompressed, Internal if it cannot be read. REQUIRES: size > 0.
  virtual absl::StatusOr<size_t> Read(char* to, size_t size) = 0;
};

// NotFound or Internal if the file cannot be opened, naming it.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// Of bytes that outlive it.
std::unique_ptr<ByteSource> OpenMemory(std::string_view bytes);

// What `compressed` holds: decompressed if it begins as gzip or as a stream of Java's snappy
// library does (ZooKeeper's two methods), otherwise as it is. Errors are those of a first read.
absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(std::unique_ptr<ByteSource> compressed);

}  // namespace quorate::tools::zookeeper
