// SPDX-License-Identifier: Apache-2.0

// Bounds the size of the reply to a write, which has to be known before the write is submitted.
//
// Thread-safety: functions without state.
#pragma once

#include <algorithm>
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
  size_t bytes = request.compares.size() * kHeadBytesMax;
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

// Returns about how much memory what `request` reads can take until it is sent. `cost_max` is the
// maximum cost of its reads.
inline size_t ReadMemoryMax(const tree::Request& request, size_t cost_max) {
  constexpr size_t kResultBytes = 512;  // a result of the tree, and its translation
  size_t reads = 0;
  bool is_long = false;
  for (const tree::Op& op : request.ops) {
    const bool has_bytes = op.kind == tree::OpKind::kGet || op.kind == tree::OpKind::kGetChildren;
    reads += has_bytes || op.kind == tree::OpKind::kExists ? 1 : 0;
    is_long |= has_bytes;
  }
  return std::min(reads, cost_max / tree::kReadCost) * kResultBytes + (is_long ? cost_max : 0);
}

}  // namespace quorate::rpc
