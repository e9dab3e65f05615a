#include "consensus/core/term_history.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

TermHistory::TermHistory(std::vector<TermRun> runs, Index last_index)
    : runs_(std::move(runs)), last_index_(last_index) {
  ASSERT(runs_.empty() == (last_index_ == Index{0}), "a log has runs if it has entries");
  Index previous_first{0};
  Term previous_term{0};
  for (const TermRun& run : runs_) {
    ASSERT(run.first > previous_first);
    ASSERT(run.term > previous_term);
    previous_first = run.first;
    previous_term = run.term;
  }
  ASSERT(runs_.empty() || runs_.front().first == Index{1});
  ASSERT(previous_first <= last_index_);
}

std::vector<TermRun>::const_iterator TermHistory::RunOf(Index index) const {
  ASSERT(index > Index{0});
  ASSERT(index <= last_index_);
  if (runs_.back().first <= index) return runs_.end() - 1;
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](Index i, const TermRun& run) { return i < run.first; });
  ASSERT(after != runs_.begin());
  return after - 1;
}

Term TermHistory::TermAt(Index index) const {
  return index == Index{0} ? Term{0} : RunOf(index)->term;
}

void TermHistory::Append(Term term) {
  ASSERT(term > Term{0});
  ASSERT(term >= last_term(), "terms ascend in a log");
  ++last_index_;
  if (term != last_term()) runs_.push_back({last_index_, term});
}

void TermHistory::TruncateAfter(Index index) {
  ASSERT(index <= last_index_);
  last_index_ = index;
  while (!runs_.empty() && runs_.back().first > last_index_) runs_.pop_back();
  ASSERT(runs_.empty() == (last_index_ == Index{0}));
}

Index TermHistory::LastWithTermUpTo(Index index, Term term) const {
  index = std::min(index, last_index_);
  if (index == Index{0}) return index;
  for (auto run = RunOf(index);; --run) {
    if (run->term <= term) return index;
    index = run->first - 1;
    if (run == runs_.begin()) return Index{0};
  }
}

}  // namespace quorate::consensus
