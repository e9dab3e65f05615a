// SPDX-License-Identifier: Apache-2.0

// The digest of a member's tree at each of its last zxids.
//
// Thread-safety: Restart and Add from one thread, At from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "tree/types.h"

namespace quorate::rpc {

class DigestHistory {
 public:
  // Keeps the last `count_max` digests. Memory is allocated as it is needed.
  explicit DigestHistory(size_t count_max = size_t{1} << 16) : count_max_(count_max) {
    ASSERT(count_max > 0);
  }

  // Forgets all digests, and begins again with `digest` at `zxid`.
  void Restart(tree::Zxid zxid, uint64_t digest) {
    MutexLock lock(&mutex_);
    last_ = zxid;
    digests_.assign(1, digest);
    next_ = 1;
  }

  // Adds the digests at the zxids that follow the last known one. REQUIRES: Restart was called.
  void Add(std::span<const uint64_t> digests) {
    MutexLock lock(&mutex_);
    ASSERT(!digests_.empty(), "digests have a beginning");
    for (const uint64_t digest : digests) {
      if (digests_.size() < count_max_) {
        digests_.push_back(digest);
      } else {
        digests_[next_ % count_max_] = digest;
      }
      ++next_;
      ++last_;
    }
  }

  // Returns the digest at `zxid`; nullopt if it is not known (any more, or yet).
  std::optional<uint64_t> At(tree::Zxid zxid) const {
    MutexLock lock(&mutex_);
    if (digests_.empty() || zxid > last_) return std::nullopt;
    const auto back = static_cast<uint64_t>(last_ - zxid);
    if (back >= digests_.size()) return std::nullopt;
    return digests_[(next_ - 1 - back) % count_max_];
  }

 private:
  const size_t count_max_;
  mutable Mutex mutex_;
  tree::Zxid last_ ABSL_GUARDED_BY(mutex_);
  // The n-th digest (from 0) since the last Restart is at n % count_max_.
  std::vector<uint64_t> digests_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quorate::rpc
