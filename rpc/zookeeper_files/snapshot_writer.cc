// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper_files/snapshot_writer.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/zookeeper_files/checksum.h"
#include "rpc/zookeeper_files/jute.h"
#include "tree/acl_table.h"

namespace quorate::zookeeper_files {

namespace {

constexpr int64_t kDatabase = -1;

}  // namespace

absl::Status SnapshotWriter::Begin(const Sessions& sessions, const Lists& lists) {
  lists_ = &lists;
  checksum_ = kAdler32OfNothing;
  BigEndianWriter writer(&out_);
  writer.Int(kSnapshotMagic);
  writer.Int(kSnapshotVersion);
  writer.Int(kDatabase);
  writer.Int(static_cast<int32_t>(sessions.size()));
  for (const auto& [session, timeout_ms] : sessions) {
    writer.Int(session.value());
    writer.Int(timeout_ms);
  }
  writer.Int(static_cast<int32_t>(lists.size()));
  for (const auto& [acl, number] : lists) {
    writer.Int(number);
    AppendAcl(acl, &out_);
  }
  return Flush();
}

absl::Status SnapshotWriter::Node(const SnapshotNode& node) {
  ASSERT(lists_ != nullptr, "Begin was called");
  ASSERT(node.acl != nullptr);
  int64_t list = kOpenListNumber;
  if (!tree::IsOpenAcl(*node.acl)) {
    const auto found = lists_->find(*node.acl);
    if (found == lists_->end()) {
      return absl::DataLossError("a znode has an access control list that it did not have before");
    }
    list = found->second;
  }
  const DigestStat& stat = node.stat;
  BigEndianWriter writer(&out_);
  writer.String(node.path == kSnapshotEndPath ? "" : node.path);
  if (node.has_data) {
    writer.String(node.data);
  } else {
    writer.Int(int32_t{-1});
  }
  writer.Int(list);
  writer.Int(stat.czxid.value());
  writer.Int(stat.mzxid.value());
  writer.Int(stat.ctime_ms);
  writer.Int(stat.mtime_ms);
  writer.Int(stat.version);
  writer.Int(stat.stored_cversion);
  writer.Int(stat.aversion);
  writer.Int(stat.owner.value());
  writer.Int(stat.pzxid.value());
  digest_ += NodeDigest(node.path, node.data, stat);
  return out_.size() < kPieceBytes ? absl::OkStatus() : Flush();
}

absl::Status SnapshotWriter::End(tree::Zxid zxid) {
  BigEndianWriter writer(&out_);
  writer.String(kSnapshotEndPath);
  if (absl::Status s = Seal(); !s.ok()) return s;
  writer.Int(zxid.value());
  writer.Int(kDigestVersion);
  writer.Int(digest_);
  if (absl::Status s = Seal(); !s.ok()) return s;
  writer.Int(zxid.value());
  return Seal();
}

absl::Status SnapshotWriter::Seal() {
  // The checksum covers all bytes before it.
  if (absl::Status s = Flush(); !s.ok()) return s;
  BigEndianWriter writer(&out_);
  writer.Int(uint64_t{checksum_});
  writer.String(kSnapshotEndPath);
  return Flush();
}

absl::Status SnapshotWriter::Flush() {
  checksum_ = Adler32(out_, checksum_);
  absl::Status status = sink_(out_);
  out_.clear();
  return status;
}

}  // namespace quorate::zookeeper_files
