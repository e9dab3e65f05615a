// SPDX-License-Identifier: Apache-2.0

// Limits how fast clients of one address may try secrets, such as passwords of one user or tokens of
// administrators.
//
// Each pair of address and user has kBurst attempts; failed ones come back at one in each period.
// Other addresses and other users are not delayed. A caller whose secrets belong to no user passes an
// empty one. The addresses of an IPv6 network of 64 bits count as one, because one host may have them
// all.
//
// If a caller has names of users that may not exist, and hides which do, it limits both alike. It
// passes a hash of few values in the place of the name (as sasl::Passwords does), so that made-up names
// cannot fill the table. Users with the same hash then share their attempts.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace quorate {

class FailureLimit {
 public:
  static constexpr int kBurst = 10;
  // The most pairs that are remembered. Beyond it, those whose last failure is the oldest are
  // forgotten.
  static constexpr size_t kPairsMax = 8192;

  // `clock` must outlive the object. `period` is the time after which one failed attempt comes back,
  // and is positive.
  explicit FailureLimit(const Clock* clock,
                        std::chrono::milliseconds period = std::chrono::seconds(1))
      : clock_(clock), period_(period) {}

  // Takes one attempt. Returns false if there is none; then the attempt must not be made.
  bool Take(std::string_view address, std::string_view user);
  // Gives an attempt back, because it was not a failure.
  void GiveBack(std::string_view address, std::string_view user);

 private:
  struct Attempts {
    int used = 0;
    std::chrono::steady_clock::time_point since;  // when `used` was last brought up to date
  };

  static std::string KeyOf(std::string_view address, std::string_view user);
  void Refill(Attempts* attempts) const;
  void MakeSpace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  const std::chrono::milliseconds period_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, Attempts> pairs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate
