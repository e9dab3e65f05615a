// SPDX-License-Identifier: Apache-2.0

// Cuts the bytes received on a connection between servers into batches. On the wire each batch
// (rpc/peer/frame.h) is preceded by its length: u32, little-endian, without those four bytes.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc {

inline constexpr size_t kBatchLengthBytes = 4;

class BatchReader {
 public:
  // A batch longer than `batch_bytes_max` is an error.
  explicit BatchReader(size_t batch_bytes_max) : batch_bytes_max_(batch_bytes_max) {}

  void set_batch_bytes_max(size_t bytes) { batch_bytes_max_ = bytes; }

  // Returns the space into which the next bytes are to be received; never empty. Valid until the
  // next call of Added or Next. REQUIRES: Next has returned null since bytes were added.
  std::span<char> Space();
  // Records that the first `count` bytes of Space() have been received.
  void Added(size_t count);
  // Returns the next whole batch, in a buffer of its own; null if more bytes have to be received
  // first. InvalidArgument if its length is too large; nothing more can be read then.
  absl::StatusOr<std::shared_ptr<std::string>> Next();

 private:
  size_t batch_bytes_max_;
  std::vector<char>
      buffer_;  // holds [begin_, end_): small batches, or the beginning of a large one
  size_t begin_ = 0;
  size_t end_ = 0;
  // A batch that does not fit into buffer_: its bytes are received directly into this string.
  std::shared_ptr<std::string> large_;
  size_t large_filled_ = 0;
};

}  // namespace quorate::rpc
