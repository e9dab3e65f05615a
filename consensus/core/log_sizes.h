// SPDX-License-Identifier: Apache-2.0

// The size of the log's entries in bytes, by index. It bounds the bytes of log that are kept,
// without reading the log. Totals are known at marks, and interpolated between two marks.
//
// Memory: 16 bytes for each mark. There is one mark for every `mark_bytes` of the log.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class LogSizes {
 public:
  // Creates the sizes of a log that begins after `base` and has `runs`, which ascend. Entries up to
  // `last_index` that no run covers count as empty.
  LogSizes(Index base, const std::vector<SizeRun>& runs, Index last_index, size_t mark_bytes);

  // Adds an entry of `bytes` bytes after the last one.
  void Append(size_t bytes);
  // Makes the log empty, so that it begins after `base`.
  void Reset(Index base);
  // REQUIRES (for CompactTo too): `index` is between the base and the last entry, both included.
  void TruncateAfter(Index index);
  void CompactTo(Index index);

  // Returns the bytes of the entries after `index`; of all entries if `index` is below the base.
  uint64_t BytesAfter(Index index) const;
  // Returns the lowest index, not below the base, for which the entries after it up to `end` take
  // at most `bytes_max`.
  Index FirstWithin(Index end, uint64_t bytes_max) const;

 private:
  struct Mark {
    Index index;
    uint64_t total = 0;  // bytes of all entries up to `index`
  };
  uint64_t TotalAt(Index index) const;

  size_t mark_bytes_;
  // Ascending in both fields, never empty. The first mark is the base, the last mark is the last
  // entry.
  std::deque<Mark> marks_;
};

}  // namespace quorate::consensus
