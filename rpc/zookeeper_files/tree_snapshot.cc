// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper_files/tree_snapshot.h"

#include <limits>

#include "absl/strings/str_format.h"
#include "tree/node_kind.h"

namespace quorate::zookeeper_files {
namespace {

using tree::NodeKind;
using tree::RecordKind;

// The fixed bytes of the parts of a snapshot (snapshot_writer.cc).
constexpr uint64_t kHeaderBytes = 4 + 4 + 8 + 4 + 4;  // with the numbers of sessions and lists
constexpr uint64_t kSessionBytes = 8 + 4;
constexpr uint64_t kListBytes = 8 + 4;
constexpr uint64_t kAclBytes = 4 + 4 + 4;
constexpr uint64_t kNodeBytes = 4 + 4 + 8 + 60;
constexpr uint64_t kSealBytes = 8 + 5;
constexpr uint64_t kTailBytes = 5 + kSealBytes + 20 + kSealBytes + 8 + kSealBytes;

}  // namespace

absl::Status CheckLastZxid(tree::Zxid zxid) {
  if (zxid == tree::Zxid(0)) {
    return absl::FailedPreconditionError("nothing was ever written to this tree");
  }
  if (zxid.value() >> 32 >= std::numeric_limits<int32_t>::max() - 1) {
    return absl::FailedPreconditionError(
        absl::StrFormat("zxid 0x%x leaves no epoch for a leader of ZooKeeper", zxid.value()));
  }
  return absl::OkStatus();
}

absl::Status SnapshotScan::Add(std::string_view key, std::string_view value) {
  const auto kind = tree::DecodeKind(key);
  if (!kind.ok()) return kind.status();
  if (*kind == RecordKind::kHead) return absl::OkStatus();
  if (*kind == RecordKind::kSession) {
    const auto session = tree::DecodeSession(key, value);
    if (!session.ok()) return session.status();
    contents_.sessions.emplace(session->id, session->timeout_ms);
    return absl::OkStatus();
  }
  if (absl::Status s = tree::DecodeNode(key, value, &record_); !s.ok()) return s;
  if (absl::Status s = paths_.Add(record_, &path_); !s.ok()) return s;
  SnapshotWriter::Lists& lists = contents_.lists;
  if (!record_.acl.empty() && !lists.contains(record_.acl)) {
    lists.emplace(record_.acl, static_cast<int64_t>(lists.size() + 1));
  }
  ++contents_.nodes;
  contents_.ephemerals += tree::KindOf(record_.owner) == NodeKind::kEphemeral ? 1 : 0;
  contents_.ttl_nodes += tree::KindOf(record_.owner) == NodeKind::kTtl ? 1 : 0;
  const size_t path_bytes = path_ == kSnapshotEndPath ? 0 : path_.size();
  contents_.bytes += kNodeBytes + path_bytes + (record_.has_data ? record_.data.size() : 0);
  return absl::OkStatus();
}

SnapshotContents SnapshotScan::Finish() {
  contents_.bytes += kHeaderBytes + contents_.sessions.size() * kSessionBytes + kTailBytes;
  for (const auto& [list, number] : contents_.lists) {
    contents_.bytes += kListBytes;
    for (const tree::Acl& acl : list) {
      contents_.bytes += kAclBytes + acl.identity.scheme.size() + acl.identity.id.size();
    }
  }
  return std::move(contents_);
}

absl::Status SnapshotBuilder::Add(std::string_view key, std::string_view value) {
  const auto kind = tree::DecodeKind(key);
  if (!kind.ok()) return kind.status();
  if (*kind != RecordKind::kNode) return absl::OkStatus();
  if (absl::Status s = tree::DecodeNode(key, value, &record_); !s.ok()) return s;
  if (absl::Status s = paths_.Add(record_, &path_); !s.ok()) return s;
  SnapshotNode node;
  node.path = path_;
  node.has_data = record_.has_data;
  node.data = record_.data;
  node.acl = record_.acl.empty() ? &open_ : &record_.acl;
  node.stat = {record_.key.czxid,        record_.mzxid,    record_.pzxid,
               record_.ctime_ms,         record_.mtime_ms, record_.version,
               record_.created_children, record_.aversion, record_.owner};
  return writer_.Node(node);
}

}  // namespace quorate::zookeeper_files
