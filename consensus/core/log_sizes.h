// How many bytes the entries of the log take, by index. With it the bytes of log that are kept are
// bounded without reading the log. Totals are known at marks, and interpolated between two marks.
//
// Memory: 16 bytes for each mark, of which there is one for every `mark_bytes` of the log.
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
  // The sizes of a log that begins after `base` and holds `runs`, which ascend. Entries up to
  // `last_index` that no run covers count as empty.
  LogSizes(Index base, const std::vector<SizeRun>& runs, Index last_index, size_t mark_bytes);

  // Adds an entry of `bytes` bytes after the last one.
  void Append(size_t bytes);
  // Makes the log empty; it then begins after `base`.
  void Reset(Index base);
  // REQUIRES (CompactTo too): `index` lies between the base and the last entry, both included.
  void TruncateAfter(Index index);
  void CompactTo(Index index);

  // The bytes of the entries after `index`; of all entries if `index` lies before the base.
  uint64_t BytesAfter(Index index) const;
  // The lowest index, not below the base, such that the entries after it up to `end` take at most
  // `bytes_max`.
  Index FirstWithin(Index end, uint64_t bytes_max) const;

 private:
  struct Mark {
    Index index;
    uint64_t total = 0;  // of all entries up to `index`
  };
  uint64_t TotalAt(Index index) const;

  size_t mark_bytes_;
  // Ascending in both, never empty: the first is the base, the last is the last entry.
  std::deque<Mark> marks_;
};

}  // namespace quorate::consensus
