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

// An id for a new session: the member's number in the top byte, as ZooKeeper has it, and 56 bits
// drawn by lot. They depend on no clock and no count, either of which can come back to what it was
// before a restart. That an id is in use becomes known when the session's entry is applied: then
// another one is drawn.
inline tree::SessionId DrawSessionId(uint16_t member, RandomBytes* random) {
  constexpr int kMemberShift = 56;
  const std::string bytes = random->Make(sizeof(uint64_t));
  const auto drawn = LoadInt<std::endian::little, uint64_t>(bytes.data()) >> (64 - kMemberShift);
  // Some ids without further bits stand for something else (tree/node_kind.h).
  return tree::SessionId(
      static_cast<int64_t>(uint64_t{member} << kMemberShift | std::max<uint64_t>(drawn, 1)));
}

}  // namespace quorate::rpc
