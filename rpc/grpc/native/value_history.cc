// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/value_history.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::rpc::native {

size_t ValueHistory::BytesMax() const {
  const uint64_t limit = memory_->limit();
  return limit == 0 ? bytes_max_ : std::min(bytes_max_, static_cast<size_t>(limit / 32));
}

void ValueHistory::Add(uint64_t number, tree::Zxid zxid, const tree::EventValues& values) {
  ASSERT(entries_.empty() || entries_.back().number < number);
  if (zxid != zxid_) {
    zxid_ = zxid;
    zxid_bytes_ = 0;
    is_zxid_full_ = false;
  }
  if (memory_->replies_exceed()) {
    Clear();
    return;
  }
  const size_t bytes_max = BytesMax();
  const size_t added = sizeof(Entry) + (values.value.has_value() ? values.value->size() : 0) +
                       (values.previous.has_value() ? values.previous->size() : 0);
  is_zxid_full_ |= zxid_bytes_ > 0 && zxid_bytes_ + added > bytes_max;
  if (is_zxid_full_) return;
  zxid_bytes_ += added;
  Entry& entry = entries_.emplace_back();
  entry.number = number;
  entry.values.value = values.value;
  entry.values.previous = values.previous;
  entry.values.changes_acls = values.changes_acls;
  size_t bytes = counted_.bytes() + entry.bytes();
  while (bytes > bytes_max && entries_.size() > 1) {
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
