// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/session_password.h"

#include <cstdint>

namespace quorate::tools::zookeeper {
namespace {

// Constants of java.util.Random: a linear congruential generator of 48 bits.
constexpr uint64_t kMultiplier = 0x5DEECE66D;
constexpr uint64_t kIncrement = 0xB;
constexpr uint64_t kMask = (uint64_t{1} << 48) - 1;
// ZooKeeper's secret, which is public in its source.
constexpr uint64_t kSecret = 0xB3415C00;

}  // namespace

std::string SessionPassword(tree::SessionId session) {
  uint64_t state = (static_cast<uint64_t>(session.value()) ^ kSecret ^ kMultiplier) & kMask;
  std::string password;
  while (password.size() < tree::kPasswordBytes) {
    state = (state * kMultiplier + kIncrement) & kMask;
    const auto number = static_cast<uint32_t>(state >> 16);
    for (int shift = 0; shift < 32; shift += 8) {
      password.push_back(static_cast<char>(number >> shift & 0xFF));
    }
  }
  return password;
}

}  // namespace quorate::tools::zookeeper
