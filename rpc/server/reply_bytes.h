// How long the reply to a write can become, which has to be known before the write is made.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>

#include "tree/command.h"

namespace quorate::rpc {

// At least what the results of a request take in a reply of any front end.
inline size_t ResultBytesMax(const tree::Request& request) {
  constexpr size_t kNumbersBytesMax = 128;  // a stat and the heads of what it is in
  constexpr size_t kSequenceBytes = 11;     // behind the path of a sequential znode
  size_t bytes = 0;
  for (const tree::Op& op : request.ops) {
    bytes += kNumbersBytesMax + kSequenceBytes + op.path.size();
  }
  return bytes;
}

}  // namespace quorate::rpc
