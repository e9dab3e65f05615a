// SPDX-License-Identifier: Apache-2.0

// Bounds the size of the reply to a write, which has to be known before the write is submitted.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>

#include "tree/command.h"
#include "tree/limits.h"

namespace quorate::rpc {

// Returns an upper bound of the bytes that the results of `request` take in a reply of any front
// end.
inline size_t ResultBytesMax(const tree::Request& request) {
  constexpr size_t kHeadBytesMax = 16;   // an error or a count, and the head of the result
  constexpr size_t kStatBytesMax = 128;  // with the head of the stat
  constexpr size_t kSequenceBytes = 11;  // after the path of a sequential znode
  size_t bytes = 0;
  bool reads = false;
  for (const tree::Op& op : request.ops) {
    bytes += kHeadBytesMax;
    switch (op.kind) {
      case tree::OpKind::kCreate:
      case tree::OpKind::kCreateContainer:
      case tree::OpKind::kCreateTtl:
      case tree::OpKind::kCreateIfNotExists:
        bytes += op.path.size() + kSequenceBytes + kStatBytesMax;
        break;
      case tree::OpKind::kSetData:
      case tree::OpKind::kSetAcl:
        bytes += kStatBytesMax;
        break;
      case tree::OpKind::kDelete:
      case tree::OpKind::kDeleteRecursive:
      case tree::OpKind::kCheck:
      case tree::OpKind::kCheckAbsent:
      case tree::OpKind::kCheckCreated:
      case tree::OpKind::kRefused:
      case tree::OpKind::kCheckNotExists:
      case tree::OpKind::kRemoveSubtree:
      case tree::OpKind::kCheckStat:
      case tree::OpKind::kTryDelete:
        break;
      case tree::OpKind::kGet:
      case tree::OpKind::kExists:
      case tree::OpKind::kGetChildren:
        bytes += kStatBytesMax;
        reads = true;
        break;
    }
  }
  // Each part of what is read counts with more bytes than it takes in a reply.
  return bytes + (reads ? tree::kReadCostMax : 0);
}

}  // namespace quorate::rpc
