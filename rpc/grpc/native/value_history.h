// SPDX-License-Identifier: Apache-2.0

// The data before and after recent events, for watches that want them. Only events that such a watch
// covers are kept. Bounded in bytes: the data of the oldest events are dropped for new ones.
//
// Thread-safety: protected by the tree's lock, as EventHistory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/memory_budget.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

class ValueHistory {
 public:
  struct Values {
    std::optional<std::string> value;
    std::optional<std::string> previous;
    bool changes_acls = false;
  };

  // Keeps about `bytes_max` bytes, and those of the newest event in any case. `memory` must outlive
  // the object.
  ValueHistory(size_t bytes_max, MemoryBudget* memory)
      : bytes_max_(bytes_max), counted_(memory, MemoryUse::kUnsent) {}

  // Adds the data of the event with this number. REQUIRES: numbers increase.
  void Add(uint64_t number, const tree::EventValues& values);
  // Drops the data of all events.
  void Clear();
  // Returns the data of an event, valid until the tree is unlocked; nullptr if they are not kept.
  const Values* Find(uint64_t number) const;
  size_t bytes() const { return counted_.bytes(); }

 private:
  struct Entry {
    uint64_t number = 0;
    Values values;

    size_t bytes() const {
      return sizeof(Entry) + (values.value.has_value() ? values.value->size() : 0) +
             (values.previous.has_value() ? values.previous->size() : 0);
    }
  };

  const size_t bytes_max_;
  std::deque<Entry> entries_;  // ascending by number
  CountedBytes counted_;
};

}  // namespace quorate::rpc::native
