// SPDX-License-Identifier: Apache-2.0

// The ids of new sessions.
//
// Thread-safety: functions without state.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/bytes.h"
#include "base/random.h"
#include "tree/types.h"

namespace quorate::rpc {

// Returns an id for a new session: the member's number in the top byte, as in ZooKeeper, and 56
// random bits. They depend on no clock or counter, because either could repeat values after a
// restart. An id that is already in use is detected when the session's entry is applied; then the
// caller draws another one.
inline tree::SessionId DrawSessionId(uint16_t member, RandomBytes* random) {
  constexpr int kMemberShift = 56;
  const std::string bytes = random->Make(sizeof(uint64_t));
  const auto drawn = LoadInt<std::endian::little, uint64_t>(bytes.data()) >> (64 - kMemberShift);
  // Some ids whose other bits are all 0 have a special meaning (tree/node_kind.h).
  return tree::SessionId(
      static_cast<int64_t>(uint64_t{member} << kMemberShift | std::max<uint64_t>(drawn, 1)));
}

}  // namespace quorate::rpc
