// SPDX-License-Identifier: Apache-2.0

// Reads and writes ZooKeeper's snapshot files.
//
// A snapshot consists of a header, the sessions, the access control lists with a number each, the
// znodes, parents before their children, and a checksum. Since 3.6 it also has ZooKeeper's digest
// of the tree at the time when the last byte was written, with another checksum.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/zookeeper/byte_source.h"
#include "tools/zookeeper/data_tree.h"
#include "tools/zookeeper/digest.h"
#include "tree/types.h"

namespace quorate::tools::zookeeper {

// ZooKeeper's digest of a tree at some transaction.
struct SnapshotDigest {
  tree::Zxid zxid;      // 0: there is no digest
  int32_t version = 0;  // of the algorithm; ours is kDigestVersion
  uint64_t digest = 0;
};

// Fills `*data_tree`, which is new, from the bytes of a snapshot; `name` is used in messages, and
// `progress` is called from time to time with the number of nodes. DataLoss names file and offset
// (in the decompressed bytes). After an error the tree must not be used.
absl::StatusOr<SnapshotDigest> ReadSnapshot(const std::string& name, ByteSource* source,
                                            DataTree* data_tree,
                                            const std::function<void(size_t nodes)>& progress);

// Writes a snapshot in pieces.
class SnapshotWriter {
 public:
  // Receives the next bytes of the file. An error ends the writing.
  using Sink = std::function<absl::Status(std::string_view bytes)>;
  using Lists = std::map<std::vector<tree::Acl>, int64_t>;

  explicit SnapshotWriter(Sink sink) : sink_(std::move(sink)) {}

  // Begins the snapshot. Begin, Node and End are called in this order, each once except Node.
  // `lists` maps all lists of znodes, except {ALL, world, anyone}, to numbers from 1 up. It must
  // outlive the writer.
  absl::Status Begin(const std::map<tree::SessionId, int32_t>& sessions, const Lists& lists);
  // Writes a znode. REQUIRES: the root comes first, and each parent before its children; `node.acl`
  // is not null.
  absl::Status Node(const DataTree::SnapshotNode& node);
  // Writes the digest of the written znodes, and ends the snapshot. `zxid` is that of the tree.
  absl::Status End(tree::Zxid zxid);

 private:
  absl::Status Flush();
  absl::Status Seal();

  const Sink sink_;
  const Lists* lists_ = nullptr;
  std::string out_;
  uint32_t checksum_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace quorate::tools::zookeeper
