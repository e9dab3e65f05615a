// SPDX-License-Identifier: Apache-2.0

// Makes a snapshot of ZooKeeper's from the records of a tree. They are read twice, because a snapshot
// begins with all sessions and all access control lists: first by a SnapshotScan, then by a
// SnapshotBuilder.
//
// ZooKeeper's zxids have a leader's epoch in their upper half. That of the snapshot is the epoch of the
// tree's last zxid: a single server continues from that zxid, and the first leader of an ensemble
// begins a greater epoch. In both cases new zxids are greater than all zxids in the tree.
//
// Memory: about a piece of the file and a record, and, for the tree as a whole, the sessions, the
// different access control lists, and the names of znodes whose children come later (NodePaths).
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/zookeeper_files/snapshot_writer.h"
#include "tree/node_paths.h"
#include "tree/record.h"
#include "tree/types.h"

namespace quorate::zookeeper_files {

// Returns FailedPrecondition if a tree with this last zxid can be no snapshot: nothing was ever
// written to it, or the zxid leaves no epoch for a leader.
absl::Status CheckLastZxid(tree::Zxid zxid);

struct SnapshotContents {
  SnapshotWriter::Sessions sessions;
  SnapshotWriter::Lists lists;
  size_t nodes = 0;
  size_t ephemerals = 0;
  size_t ttl_nodes = 0;  // kept only by servers with extendedTypesEnabled
  uint64_t bytes = 0;    // of the whole file
};

class SnapshotScan {
 public:
  // Takes the next record, in the order of keys. DataLoss if it is damaged.
  absl::Status Add(std::string_view key, std::string_view value);
  // Returns the contents of the snapshot of all records. Called once, after the last record.
  SnapshotContents Finish();

 private:
  SnapshotContents contents_;
  tree::NodePaths paths_;
  tree::NodeRecord record_;
  std::string path_;
};

class SnapshotBuilder {
 public:
  // `contents` is that of the same records, and must outlive the builder.
  SnapshotBuilder(const SnapshotContents& contents, tree::Zxid last_zxid, SnapshotWriter::Sink sink)
      : contents_(contents), last_zxid_(last_zxid), writer_(std::move(sink)) {}

  // Begin, Add for each record in the order of keys, and End write the snapshot. DataLoss if a record
  // is damaged.
  absl::Status Begin() { return writer_.Begin(contents_.sessions, contents_.lists); }
  absl::Status Add(std::string_view key, std::string_view value);
  absl::Status End() { return writer_.End(last_zxid_); }

 private:
  const SnapshotContents& contents_;
  const tree::Zxid last_zxid_;
  SnapshotWriter writer_;
  const std::vector<tree::Acl> open_ = tree::OpenAcl();
  tree::NodePaths paths_;
  tree::NodeRecord record_;
  std::string path_;
};

}  // namespace quorate::zookeeper_files
