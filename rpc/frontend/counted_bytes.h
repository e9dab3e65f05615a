// SPDX-License-Identifier: Apache-2.0

// The bytes that one object takes of a memory budget.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rpc/frontend/memory_budget.h"

namespace quorate::rpc {

// Counts bytes in the budget, and removes them from it in the destructor. Thread-safety: none.
class CountedBytes {
 public:
  // `budget` must outlive the object.
  CountedBytes(MemoryBudget* budget, MemoryUse use) : budget_(budget), use_(use) {}
  ~CountedBytes() { Set(0); }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

  void Set(size_t bytes) {
    const auto now = static_cast<int64_t>(bytes);
    if (now != bytes_) budget_->Add(use_, now - bytes_);
    bytes_ = now;
  }
  size_t bytes() const { return static_cast<size_t>(bytes_); }

 private:
  MemoryBudget* const budget_;
  const MemoryUse use_;
  int64_t bytes_ = 0;
};

}  // namespace quorate::rpc
