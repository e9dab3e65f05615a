// The term of every entry of the log, as runs: terms are found without reading the log, however
// long it is. There are as many runs as there were terms with an entry, which is few.
//
// Thread-safety: none.
#pragma once

#include <vector>

#include "consensus/core/raft.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class TermHistory {
 public:
  // REQUIRES: runs ascend in index and term, the first starts at 1, the last at or before
  // `last_index`; no runs if and only if `last_index` is 0.
  TermHistory(std::vector<TermRun> runs, Index last_index);

  Index last_index() const { return last_index_; }
  // 0 for an empty log.
  Term last_term() const { return runs_.empty() ? Term{} : runs_.back().term; }
  // 0 for index 0. O(log runs), O(1) in the newest run. REQUIRES: index <= last_index().
  Term TermAt(Index index) const;

  // REQUIRES: term >= last_term(), term > 0.
  void Append(Term term);
  // REQUIRES: index <= last_index().
  void TruncateAfter(Index index);

  // The largest index <= `index` whose entry has a term <= `term` (0 if there is none): as terms
  // ascend in every log, no entry above it can equal one of a log that has `term` at `index`.
  // `index` may lie beyond the log.
  Index LastWithTermUpTo(Index index, Term term) const;

 private:
  // The run that holds `index`. REQUIRES: 0 < index <= last_index().
  std::vector<TermRun>::const_iterator RunOf(Index index) const;

  std::vector<TermRun> runs_;
  Index last_index_;
};

}  // namespace quorate::consensus
