// SPDX-License-Identifier: Apache-2.0

// Creates the data directory of a ZooKeeper server from a tree of ours.
//
// ZooKeeper's zxids have a leader's epoch in their upper half. The exported epoch is that of the
// tree's last zxid: a single server continues from that zxid, and the first leader of an ensemble
// begins a greater epoch. In both cases new zxids are greater than all zxids in the tree.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "consensus/log/env.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

struct ExportedSnapshot {
  std::string file;
  tree::Zxid zxid;
  int64_t epoch = 0;
  size_t nodes = 0;
  size_t ephemerals = 0;
  size_t ttl_nodes = 0;  // kept only by servers with extendedTypesEnabled
  size_t sessions = 0;
  uint64_t bytes = 0;
};

// Writes version-2/snapshot.<zxid> in `directory`, a dataDir that is created if necessary, and the
// two epoch files beside it. All files are durable when this returns, and the snapshot gets its
// name last. FailedPrecondition if there is a snapshot or a log already, if nothing was ever
// written to the tree, or if its zxid leaves no epoch for a leader; errors of the disk name the
// file.
absl::StatusOr<ExportedSnapshot> ExportSnapshot(const tree::Tree& tree,
                                                const std::string& directory, consensus::Env* env);

}  // namespace quorate::tools::zookeeper
