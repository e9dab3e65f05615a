// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/value_history.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::rpc::native {

void ValueHistory::Add(uint64_t number, const tree::EventValues& values) {
  ASSERT(entries_.empty() || entries_.back().number < number);
  Entry& entry = entries_.emplace_back();
  entry.number = number;
  entry.values.value = values.value;
  entry.values.previous = values.previous;
  entry.values.changes_acls = values.changes_acls;
  size_t bytes = counted_.bytes() + entry.bytes();
  while (bytes > bytes_max_ && entries_.size() > 1) {
    bytes -= entries_.front().bytes();
    entries_.pop_front();
  }
  counted_.Set(bytes);
}

void ValueHistory::Clear() {
  entries_.clear();
  entries_.shrink_to_fit();
  counted_.Set(0);
}

const ValueHistory::Values* ValueHistory::Find(uint64_t number) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), number,
                       [](const Entry& entry, uint64_t wanted) { return entry.number < wanted; });
  return found == entries_.end() || found->number != number ? nullptr : &found->values;
}

}  // namespace quorate::rpc::native
