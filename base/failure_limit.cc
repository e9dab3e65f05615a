// SPDX-License-Identifier: Apache-2.0

#include "base/failure_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace quorate {

std::string FailureLimit::KeyOf(std::string_view address, std::string_view user) {
  constexpr size_t kNetworkBytes = 8;
  in6_addr parsed{};
  std::string key(address.substr(0, address.find('%')));  // without the scope of fe80::1%eth0
  if (inet_pton(AF_INET6, key.c_str(), &parsed) == 1) {
    key.assign(reinterpret_cast<const char*>(&parsed), kNetworkBytes);
  }
  // The length keeps pairs apart whose texts together are equal.
  return absl::StrCat(key.size(), " ", key, ToAbsl(user));
}

void FailureLimit::Refill(Attempts* attempts) const {
  const auto now = clock_->Now();
  const auto back = std::min<int64_t>((now - attempts->since) / period_, attempts->used);
  attempts->used -= static_cast<int>(back);
  attempts->since = attempts->used == 0 ? now : attempts->since + back * period_;
}

void FailureLimit::MakeSpace() {
  if (pairs_.size() < kPairsMax) return;
  auto oldest = pairs_.begin();
  for (auto it = pairs_.begin(); it != pairs_.end(); ++it) {
    if (it->second.since < oldest->second.since) oldest = it;
  }
  pairs_.erase(oldest);
}

bool FailureLimit::Take(std::string_view address, std::string_view user) {
  const std::string key = KeyOf(address, user);
  MutexLock lock(&mutex_);
  auto found = pairs_.find(key);
  if (found == pairs_.end()) {
    MakeSpace();
    found = pairs_.emplace(key, Attempts{0, clock_->Now()}).first;
  }
  Refill(&found->second);
  if (found->second.used >= kBurst) return false;
  ++found->second.used;
  return true;
}

void FailureLimit::GiveBack(std::string_view address, std::string_view user) {
  MutexLock lock(&mutex_);
  const auto found = pairs_.find(KeyOf(address, user));
  if (found != pairs_.end() && --found->second.used <= 0) pairs_.erase(found);
}

}  // namespace quorate
