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

  // Keeps at most about `bytes_max` bytes and a 32nd of the memory's limit, or the data of one event
  // if they are more. `memory` must outlive the object.
  ValueHistory(size_t bytes_max, MemoryBudget* memory)
      : bytes_max_(bytes_max), memory_(memory), counted_(memory, MemoryUse::kUnsent) {}

  // Adds the data of the event with this number and zxid. Of one transaction, only the data of the
  // first events are taken, as many as are kept, because the tree is locked for writing meanwhile.
  // Takes and keeps none while replies take too much memory. REQUIRES: numbers and zxids increase;
  // events of one zxid come one after the other.
  void Add(uint64_t number, tree::Zxid zxid, const tree::EventValues& values);
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

  size_t BytesMax() const;

  const size_t bytes_max_;
  MemoryBudget* const memory_;
  tree::Zxid zxid_;            // of the last event
  size_t zxid_bytes_ = 0;      // of the data of its transaction that were taken
  bool is_zxid_full_ = false;  // whether no more of them are taken
  std::deque<Entry> entries_;  // ascending by number
  CountedBytes counted_;
};

}  // namespace quorate::rpc::native
