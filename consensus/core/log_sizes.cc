// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/log_sizes.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace quorate::consensus {
namespace {

// Returns `value` times `part` / `whole`: an interpolation.
uint64_t Share(uint64_t value, uint64_t part, uint64_t whole) {
  ASSERT(part <= whole && whole > 0);
  return static_cast<uint64_t>(static_cast<double>(value) *
                               (static_cast<double>(part) / static_cast<double>(whole)));
}

}  // namespace

LogSizes::LogSizes(Index base, const std::vector<SizeRun>& runs, Index last_index,
                   size_t mark_bytes)
    : mark_bytes_(mark_bytes) {
  ASSERT(mark_bytes_ > 0);
  ASSERT(base <= last_index);
  marks_.push_back({base, 0});
  uint64_t total = 0;
  for (const SizeRun& run : runs) {
    if (run.last <= marks_.back().index || run.last > last_index) continue;
    total += run.bytes;
    marks_.push_back({run.last, total});
  }
  if (marks_.back().index < last_index || marks_.size() == 1) marks_.push_back({last_index, total});
}

void LogSizes::Append(size_t bytes) {
  const Mark& last = marks_.back();
  const Mark next{last.index + 1, last.total + bytes};
  // The last mark moves with the last entry until it is far enough from the mark before it.
  const bool stays =
      marks_.size() == 1 || last.total - std::prev(marks_.end(), 2)->total + bytes > mark_bytes_;
  if (stays) {
    marks_.push_back(next);
  } else {
    marks_.back() = next;
  }
}

void LogSizes::Reset(Index base) { marks_.assign(2, Mark{base, 0}); }

uint64_t LogSizes::TotalAt(Index index) const {
  if (index <= marks_.front().index) return marks_.front().total;
  if (index >= marks_.back().index) return marks_.back().total;
  const auto above = std::upper_bound(marks_.begin(), marks_.end(), index,
                                      [](Index i, const Mark& mark) { return i < mark.index; });
  const Mark& below = *std::prev(above);
  return below.total +
         Share(above->total - below.total, index - below.index, above->index - below.index);
}

void LogSizes::TruncateAfter(Index index) {
  ASSERT(index >= marks_.front().index && index <= marks_.back().index);
  const uint64_t total = TotalAt(index);
  while (marks_.size() > 1 && marks_.back().index > index) marks_.pop_back();
  if (marks_.back().index < index || marks_.size() == 1) marks_.push_back({index, total});
}

void LogSizes::CompactTo(Index index) {
  ASSERT(index >= marks_.front().index && index <= marks_.back().index);
  const uint64_t total = TotalAt(index);
  while (marks_.size() > 1 && marks_[1].index <= index) marks_.pop_front();
  marks_.front() = {index, total};
  if (marks_.size() == 1) marks_.push_back(marks_.front());
}

uint64_t LogSizes::BytesAfter(Index index) const { return marks_.back().total - TotalAt(index); }

Index LogSizes::FirstWithin(Index end, uint64_t bytes_max) const {
  const uint64_t total = TotalAt(end);
  if (total - marks_.front().total <= bytes_max) return marks_.front().index;
  const uint64_t from = total - bytes_max;
  // The first mark at or above `from`. Sizes between it and the previous mark are interpolated.
  const auto above = std::lower_bound(marks_.begin(), marks_.end(), from,
                                      [](const Mark& mark, uint64_t t) { return mark.total < t; });
  ASSERT(above != marks_.begin() && above != marks_.end());
  const Mark& below = *std::prev(above);
  const uint64_t bytes = above->total - below.total;
  const Index index = below.index + Share(above->index - below.index, from - below.total, bytes);
  // Rounds up, so that the bound holds.
  return std::min(end, TotalAt(index) < from ? index + 1 : index);
}

}  // namespace quorate::consensus
