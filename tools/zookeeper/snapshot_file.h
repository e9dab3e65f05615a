// SPDX-License-Identifier: Apache-2.0

// Reads ZooKeeper's snapshot files, in the format of rpc/zookeeper_files/snapshot_writer.h.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/zookeeper/byte_source.h"
#include "tools/zookeeper/data_tree.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

// ZooKeeper's digest of a tree at some transaction.
struct SnapshotDigest {
  tree::Zxid zxid;      // 0: there is no digest
  int32_t version = 0;  // of the algorithm; ours is zookeeper_files::kDigestVersion
  uint64_t digest = 0;
};

// Fills `*data_tree`, which is new, from the bytes of a snapshot; `name` is used in messages, and
// `progress` is called from time to time with the number of nodes. DataLoss names file and offset
// (in the decompressed bytes). After an error the tree must not be used.
absl::StatusOr<SnapshotDigest> ReadSnapshot(const std::string& name, ByteSource* source,
                                            DataTree* data_tree,
                                            const std::function<void(size_t nodes)>& progress);

}  // namespace quorate::tools::zookeeper
