// SPDX-License-Identifier: Apache-2.0

// The term of every entry of the log, stored as runs. A term is found without reading the log,
// however long it is. There is a run for each term that has an entry, and these are few.
//
// Thread-safety: none.
#pragma once

#include <vector>

#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class TermHistory {
 public:
  // Creates the terms of a log that begins after (base_index, base_term). REQUIRES: runs ascend in
  // index and term, the first starts at base_index + 1, the last at or before `last_index`; there
  // are no runs if and only if the log is empty (last_index == base_index).
  TermHistory(Index base_index, Term base_term, std::vector<TermRun> runs, Index last_index);

  Index base_index() const { return base_index_; }
  Index last_index() const { return last_index_; }
  // Returns the term of the last entry; 0 if there never was an entry.
  Term last_term() const { return runs_.empty() ? base_term_ : runs_.back().term; }
  // Returns the term of the entry at `index`; 0 for index 0. O(log runs), O(1) in the newest run.
  // REQUIRES: base_index() <= index <= last_index().
  Term TermAt(Index index) const;

  // Appends an entry. REQUIRES: term >= last_term(), term > 0.
  void Append(Term term);
  // Drops the entries above `index`. REQUIRES: base_index() <= index <= last_index().
  void TruncateAfter(Index index);
  // Makes `index` the base. REQUIRES: base_index() <= index <= last_index().
  void CompactTo(Index index);

  // Returns the largest index <= `index` whose entry has a term <= `term`, or may have one because
  // it is below the base; 0 if there is none. Terms ascend in every log. Therefore no entry above
  // the returned index can equal an entry of a log that has `term` at `index`. `index` may be
  // beyond the log.
  Index LastWithTermUpTo(Index index, Term term) const;

 private:
  // Returns the run that has `index`. REQUIRES: base_index() < index <= last_index().
  std::vector<TermRun>::const_iterator RunOf(Index index) const;

  Index base_index_;
  Term base_term_;
  std::vector<TermRun> runs_;
  Index last_index_;
};

}  // namespace quorate::consensus
