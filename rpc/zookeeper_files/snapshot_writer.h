// SPDX-License-Identifier: Apache-2.0

// Writes snapshots as ZooKeeper's servers do.
//
// A snapshot consists of a header, the sessions, the access control lists with a number each, the
// znodes, parents before their children, and a checksum. Since 3.6 it also has ZooKeeper's digest of
// the tree at the time when the last byte was written, with another checksum, and since 3.9 the last
// zxid, with a third one. Servers of older versions do not read what comes after the part that they
// know.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/zookeeper_files/digest.h"
#include "tree/types.h"

namespace quorate::zookeeper_files {

// A znode, as a snapshot has it.
struct SnapshotNode {
  std::string_view path;  // "/" is the root's
  bool has_data = false;
  std::string_view data;
  const std::vector<tree::Acl>* acl = nullptr;  // nullptr: not known yet
  DigestStat stat;
};

inline constexpr int32_t kSnapshotMagic = 0x5A4B534E;  // "ZKSN"
inline constexpr int32_t kSnapshotVersion = 2;
// The number of the list {ALL, world, anyone}, which is not among the lists of a snapshot.
inline constexpr int64_t kOpenListNumber = -1;
// What stands where the next path would, and after each checksum.
inline constexpr std::string_view kSnapshotEndPath = "/";

// Writes a snapshot in pieces.
class SnapshotWriter {
 public:
  // Receives the next bytes of the file, about kPieceBytes of them. An error ends the writing.
  using Sink = std::function<absl::Status(std::string_view bytes)>;
  using Sessions = std::map<tree::SessionId, int32_t>;  // timeouts in milliseconds
  using Lists = std::map<std::vector<tree::Acl>, int64_t>;

  static constexpr size_t kPieceBytes = 256u << 10;

  explicit SnapshotWriter(Sink sink) : sink_(std::move(sink)) {}

  // Begins the snapshot. Begin, Node and End are called in this order, each once except Node.
  // `lists` maps all lists of znodes, except {ALL, world, anyone}, to numbers from 1 up. It must
  // outlive the writer.
  absl::Status Begin(const Sessions& sessions, const Lists& lists);
  // Writes a znode. DataLoss if its list is not among `lists`. REQUIRES: the root comes first, and
  // each parent before its children; `node.acl` is not null.
  absl::Status Node(const SnapshotNode& node);
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

}  // namespace quorate::zookeeper_files
