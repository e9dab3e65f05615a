// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/term_history.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

TermHistory::TermHistory(Index base_index, Term base_term, std::vector<TermRun> runs,
                         Index last_index)
    : base_index_(base_index),
      base_term_(base_term),
      runs_(std::move(runs)),
      last_index_(last_index) {
  ASSERT((base_index_ == Index{0}) == (base_term_ == Term{0}));
  ASSERT(runs_.empty() == (last_index_ == base_index_), "a log has runs if it has entries");
  Index previous_first = base_index_;
  Term previous_term = base_term_;
  for (const TermRun& run : runs_) {
    ASSERT(run.term > Term{0});
    ASSERT(run.first > previous_first);
    // The first run may continue the term of the base.
    ASSERT(run.term > previous_term || (&run == runs_.data() && run.term == base_term_));
    previous_first = run.first;
    previous_term = run.term;
  }
  ASSERT(runs_.empty() || runs_.front().first == base_index_ + 1);
  ASSERT(previous_first <= last_index_);
}

std::vector<TermRun>::const_iterator TermHistory::RunOf(Index index) const {
  ASSERT(index > base_index_);
  ASSERT(index <= last_index_);
  if (runs_.back().first <= index) return runs_.end() - 1;
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](Index i, const TermRun& run) { return i < run.first; });
  ASSERT(after != runs_.begin());
  return after - 1;
}

Term TermHistory::TermAt(Index index) const {
  return index == base_index_ ? base_term_ : RunOf(index)->term;
}

void TermHistory::Append(Term term) {
  ASSERT(term > Term{0});
  ASSERT(term >= last_term(), "terms ascend in a log");
  ++last_index_;
  if (runs_.empty() || term != last_term()) runs_.push_back({last_index_, term});
}

void TermHistory::TruncateAfter(Index index) {
  ASSERT(index >= base_index_);
  ASSERT(index <= last_index_);
  last_index_ = index;
  while (!runs_.empty() && runs_.back().first > last_index_) runs_.pop_back();
  ASSERT(runs_.empty() == (last_index_ == base_index_));
}

void TermHistory::CompactTo(Index index) {
  ASSERT(index >= base_index_);
  ASSERT(index <= last_index_);
  if (index == base_index_) return;
  base_term_ = TermAt(index);
  base_index_ = index;
  // The run that has the entry after the base begins with that entry now.
  auto keep = runs_.begin();
  while (keep + 1 != runs_.end() && (keep + 1)->first <= index + 1) ++keep;
  runs_.erase(runs_.begin(), keep);
  if (index == last_index_) {
    runs_.clear();
  } else {
    runs_.front().first = index + 1;
  }
}

Index TermHistory::LastWithTermUpTo(Index index, Term term) const {
  index = std::min(index, last_index_);
  if (index < base_index_) return index;
  if (index > base_index_) {
    for (auto run = RunOf(index);; --run) {
      if (run->term <= term) return index;
      index = run->first - 1;
      if (run == runs_.begin()) break;
    }
  }
  ASSERT(index == base_index_);
  if (base_term_ <= term) return base_index_;
  return base_index_ - 1;  // does not wrap: a base of 0 has term 0, handled above
}

}  // namespace quorate::consensus
