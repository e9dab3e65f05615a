// SPDX-License-Identifier: Apache-2.0

#include "tools/zookeeper/export.h"

#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/strings.h"
#include "tools/zookeeper/snapshot_file.h"
#include "tree/node_kind.h"
#include "tree/record.h"

namespace quorate::tools::zookeeper {
namespace {

using tree::NodeKey;
using tree::NodeKind;
using tree::NodeRecord;
using tree::RecordKind;
using tree::Zxid;

constexpr std::string_view kTemporaryName = "snapshot.being-written";

// Writes to a file sequentially.
class Output {
 public:
  explicit Output(std::unique_ptr<consensus::File> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) {
    const std::span<const std::string_view> pieces(&bytes, 1);
    absl::Status status = file_->WriteAt(size_, pieces);
    size_ += bytes.size();
    return status;
  }
  absl::Status Sync() { return file_->Sync(); }
  uint64_t size() const { return size_; }

 private:
  const std::unique_ptr<consensus::File> file_;
  uint64_t size_ = 0;
};

absl::StatusOr<std::unique_ptr<Output>> NewFile(consensus::Env* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  return std::make_unique<Output>(*std::move(file));
}

absl::Status WriteText(consensus::Env* env, const std::string& path, std::string_view text) {
  auto file = NewFile(env, path);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Append(text); !s.ok()) return s;
  return (*file)->Sync();
}

absl::Status CheckEmpty(consensus::Env* env, const std::string& directory) {
  const auto names = env->List(directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (name == kTemporaryName) continue;
    if (name.starts_with("snapshot.") || name.starts_with("log.")) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, "/", name,
                       " is there already: a server would mix it with the export; "
                       "give a new directory"));
    }
  }
  return absl::OkStatus();
}

// Enumerates the znodes of a tree, in the order of its records, with their paths.
class NodeWalk {
 public:
  // Calls `visit(record, path)` for each znode. An error ends the enumeration.
  template <typename Visit>
  static absl::Status Run(const tree::Tree& tree, Visit visit) {
    // The path of each znode with children, by its key; the root's path is empty.
    absl::flat_hash_map<std::pair<Zxid, uint32_t>, std::string> paths;
    NodeRecord record;
    std::string path;
    absl::Status status;
    tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
      if (!status.ok() || tree::DecodeKind(key).value_or(RecordKind::kHead) != RecordKind::kNode) {
        return;
      }
      status = tree::DecodeNode(key, *value, &record);
      if (!status.ok()) return;
      const bool is_root = record.key == NodeKey{};
      if (!is_root) {
        const auto parent = paths.find({record.parent.czxid, record.parent.ordinal});
        ASSERT(parent != paths.end(), "a parent comes before its children");
        path = parent->second;
        path += '/';
        path += record.name;
      }
      if (record.children > 0) paths[{record.key.czxid, record.key.ordinal}] = path;
      status = visit(record, is_root ? std::string_view("/") : path);
    });
    return status;
  }
};

absl::StatusOr<ExportedSnapshot> WriteSnapshot(const tree::Tree& tree, Output* output) {
  ExportedSnapshot exported;
  exported.zxid = tree.last_zxid();
  std::map<tree::SessionId, int32_t> sessions;
  for (const tree::SessionInfo& session : tree.Sessions()) {
    sessions.emplace(session.id, session.timeout_ms);
  }
  exported.sessions = sessions.size();
  SnapshotWriter::Lists lists;
  absl::Status status = NodeWalk::Run(tree, [&](const NodeRecord& record, std::string_view) {
    if (!record.acl.empty()) lists.try_emplace(record.acl, static_cast<int64_t>(lists.size() + 1));
    ++exported.nodes;
    exported.ephemerals += tree::KindOf(record.owner) == NodeKind::kEphemeral ? 1 : 0;
    exported.ttl_nodes += tree::KindOf(record.owner) == NodeKind::kTtl ? 1 : 0;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;

  SnapshotWriter writer([output](std::string_view bytes) { return output->Append(bytes); });
  status = writer.Begin(sessions, lists);
  if (!status.ok()) return status;
  const std::vector<tree::Acl> open = tree::OpenAcl();
  status = NodeWalk::Run(tree, [&](const NodeRecord& record, std::string_view path) {
    DataTree::SnapshotNode node;
    node.path = path;
    node.has_data = record.has_data;
    node.data = record.data;
    node.acl = record.acl.empty() ? &open : &record.acl;
    node.stat = {record.key.czxid,        record.mzxid,    record.pzxid,
                 record.ctime_ms,         record.mtime_ms, record.version,
                 record.created_children, record.aversion, record.owner};
    return writer.Node(node);
  });
  if (!status.ok()) return status;
  if (status = writer.End(exported.zxid); !status.ok()) return status;
  if (status = output->Sync(); !status.ok()) return status;
  exported.bytes = output->size();
  return exported;
}

}  // namespace

absl::StatusOr<ExportedSnapshot> ExportSnapshot(const tree::Tree& tree,
                                                const std::string& directory, consensus::Env* env) {
  const int64_t zxid = tree.last_zxid().value();
  const int64_t epoch = zxid >> 32;
  if (zxid == 0) return absl::FailedPreconditionError("nothing was ever written to this tree");
  if (epoch >= std::numeric_limits<int32_t>::max() - 1) {
    return absl::FailedPreconditionError(
        absl::StrFormat("zxid 0x%x leaves no epoch for a leader of ZooKeeper", zxid));
  }
  const std::string inside = directory + "/version-2";
  if (absl::Status s = env->CreateDirectories(inside); !s.ok()) return s;
  if (absl::Status s = CheckEmpty(env, inside); !s.ok()) return s;
  const std::string temporary = absl::StrCat(inside, "/", ToAbsl(kTemporaryName));
  auto output = NewFile(env, temporary);
  if (!output.ok()) return output.status();
  absl::StatusOr<ExportedSnapshot> exported = WriteSnapshot(tree, output->get());
  if (!exported.ok()) return exported;
  for (const char* name : {"acceptedEpoch", "currentEpoch"}) {
    absl::Status s = WriteText(env, absl::StrCat(inside, "/", name), absl::StrCat(epoch));
    if (!s.ok()) return s;
  }
  exported->epoch = epoch;
  exported->file = absl::StrFormat("%s/snapshot.%x", inside, zxid);
  if (absl::Status s = env->Rename(temporary, exported->file); !s.ok()) return s;
  if (absl::Status s = env->SyncDirectory(inside); !s.ok()) return s;
  return exported;
}

}  // namespace quorate::tools::zookeeper
