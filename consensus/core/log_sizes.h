// How many bytes the entries of the log take, by index: bounds what is kept of the log without
// reading it. Sizes are known at marks, and are reckoned as even between two of them.
//
// Memory: 16 bytes for each mark, of which there is one for every `mark_bytes` of the log.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "consensus/core/raft.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class LogSizes {
 public:
  // Of a log that begins behind `base` and holds `runs`, which ascend. Entries up to `last_index`
  // that no run covers count as empty.
  LogSizes(Index base, const std::vector<SizeRun>& runs, Index last_index, size_t mark_bytes);

  // The entry behind the last one takes so many bytes.
  void Append(size_t bytes);
  // The log is empty, and begins behind `base`.
  void Reset(Index base);
  // REQUIRES: `index` lies between the base and the last entry, both included; in CompactTo too.
  void TruncateAfter(Index index);
  void CompactTo(Index index);

  // Of the entries behind `index`, which may lie before the base (then: of all).
  uint64_t BytesAfter(Index index) const;
  // The first index from which on the entries up to `end`, without the one at the index itself,
  // take at most `bytes_max`. Not below the base.
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
