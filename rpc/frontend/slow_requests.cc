// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/slow_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/escape.h"

namespace quorate::rpc {

bool SlowRequests::Count(std::string_view operation, std::chrono::steady_clock::time_point now) {
  MutexLock lock(&mutex_);
  ++counts_[operation];
  if (now - second_began_ >= std::chrono::seconds(1)) {
    second_began_ = now;
    kept_in_second_ = 0;
  }
  if (kept_in_second_ < kKeptPerSecond) {
    ++kept_in_second_;
    return true;
  }
  ++not_kept_;
  return false;
}

void SlowRequests::CountUnanswered(std::string_view operation) {
  MutexLock lock(&mutex_);
  ++counts_[operation];
  ++not_kept_;
}

void SlowRequests::Keep(SlowRequest request) {
  std::string path;
  AppendEscaped(request.path, kPathBytesMax, &path);
  request.path = std::move(path);
  MutexLock lock(&mutex_);
  if (ring_.size() < kKept) {
    ring_.push_back(std::move(request));
  } else {
    ring_[next_] = std::move(request);
  }
  next_ = (next_ + 1) % kKept;
}

std::vector<SlowRequest> SlowRequests::Last(size_t count_max) const {
  MutexLock lock(&mutex_);
  const size_t count = std::min(count_max, ring_.size());
  std::vector<SlowRequest> last;
  last.reserve(count);
  // Until the ring is full, `next_` is its size, or 0 just when it has become full.
  const size_t begin = next_ + kKept - count;
  for (size_t i = 0; i < count; ++i) last.push_back(ring_[(begin + i) % kKept]);
  return last;
}

std::map<std::string_view, int64_t> SlowRequests::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

int64_t SlowRequests::not_kept() const {
  MutexLock lock(&mutex_);
  return not_kept_;
}

}  // namespace quorate::rpc
