// SPDX-License-Identifier: Apache-2.0

// Counts the connections of each address.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/strings.h"

namespace quorate::rpc {

class AddressCounts {
 public:
  // Counts one more connection of `address`. Returns false, and counts nothing, if the address
  // already has `max` (0: there is no limit).
  bool Add(const std::string& address, int max) {
    MutexLock lock(&mutex_);
    int& count = counts_[address];
    if (max > 0 && count >= max) return false;
    ++count;
    return true;
  }
  // Undoes one Add that returned true.
  void Remove(const std::string& address) {
    MutexLock lock(&mutex_);
    auto it = counts_.find(address);
    ASSERT(it != counts_.end());
    if (--it->second == 0) counts_.erase(it);
  }

 private:
  Mutex mutex_;
  StringMap<int> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
